package ui

import (
	"fmt"
	"strconv"

	"leasehold/engine"
	"leasehold/internal/view"
)

func ownerText(o engine.Owner) string { return view.Printable(o.String()) }

const unseenWaiters = "<p class=\"banner\">This engine does not show who waits.</p>\n"

func (b *overviewBody) write(m *markup, s *stateView) {
	n := b.Counts
	m.put("<h1>Who holds what, and who waits</h1>\n<ul class=\"figures\">\n")
	m.put("<li><b>%s</b> %s\n<li><b>%s</b> %s\n", thousands(n.Names), plural(n.Names, "name", "names"), thousands(n.Held), plural(n.Held, "holder", "holders"))
	m.put("<li%s><b>%s</b> %s\n", when(n.Waiting > 0, ` class="warm"`), thousands(n.Waiting), plural(n.Waiting, "waiter", "waiters"))
	m.put("<li><b>%s</b> grants seen a second\n", b.Rate)
	switch {
	case s.Over:
		m.put(`<li class="bad">engine <b>not read</b>`)
	case s.Away.IsZero():
		m.put(`<li class="good">engine <b>answers</b>`)
	default:
		m.put(`<li class="bad">engine <b>away</b>`)
	}
	if !s.At.IsZero() {
		m.put(" read in %s", s.Took)
	}
	m.put("\n</ul>\n<form method=\"get\" class=\"filter\" role=\"search\" aria-label=\"Queues\">\n")
	m.put(`<label for="prefix">Names that begin with</label> <input id="prefix" name="prefix" value="%s" autocomplete="off" spellcheck="false">`+"\n", b.Prefix)
	m.put(`<label for="sort">first</label> <select id="sort" name="sort">`)
	for _, o := range b.Sorts {
		m.put(`<option value="%s"%s>%s</option>`, o.Key, when(o.Key == b.Sort, " selected"), o.Text)
	}
	m.put("</select>\n<button>Search</button>\n</form>\n")
	if !b.SeesWaiters {
		m.put(unseenWaiters)
	}
	b.writeRows(m)
	if len(b.Lost) > 0 {
		m.put("<h2>Lately lost</h2>\n<ul class=\"events\">")
		for _, e := range b.Lost {
			m.put(`<li class="lost">%s %s <b>%s</b>: <bdi>%s</bdi>, ticket %d</li>`, e.moment(), link(e.Claim.Name), string(e.Kind), ownerText(e.Claim.Owner), e.Claim.Ticket)
		}
		m.put("</ul>\n")
	}
}

func (b *overviewBody) writeRows(m *markup) {
	begin := when(b.Prefix != "", " that begin with "+bdi(b.Prefix))
	if len(b.Rows) == 0 {
		if b.Prefix != "" {
			m.put("<p class=\"none\">No name that begins with %s is held or waited for.</p>\n", bdi(b.Prefix))
		} else {
			m.put("<p class=\"none\">No name is held or waited for.</p>\n")
		}
		return
	}
	m.put(`<div class="scroll" id="scroll" tabindex="0" role="region" aria-label="Queues">` + "\n<table>\n<caption>")
	if b.Found == len(b.Rows) {
		m.put("%s %s", thousands(b.Found), plural(b.Found, "name", "names"))
	} else {
		m.put("%s to %s of %s names", thousands(b.From), thousands(b.To), thousands(b.Found))
	}
	m.put(`%s</caption>
<thead><tr><th scope="col">Name</th><th scope="col">Longest wait</th><th scope="col">Waiting</th><th scope="col">Held</th><th scope="col">Mode</th><th scope="col">First</th><th scope="col">Holder asked</th><th scope="col">Lost in %s</th></tr></thead>
<tbody>
`, begin, b.Lately)
	for _, r := range b.Rows {
		var wait, since, lost string
		if r.Waiting > 0 {
			wait = ago(r.Waits)
		}
		if !r.Holds.IsZero() {
			since = ago(r.Holds)
		}
		if r.Lost > 0 {
			lost = strconv.Itoa(r.Lost)
		}
		m.put(`<tr data-name="%s" data-ticket="%d"><th scope="row">%s</th>`+"\n", view.QuoteName(r.Name), r.First.Ticket, link(r.Name))
		m.put(`<td%s>%s</td><td class="n">%s</td><td class="n">%s</td><td>%s%s</td>`+"\n", when(r.Waiting > 0, ` class="warm"`), wait, thousands(r.Waiting), thousands(r.Held), r.Mode, when(r.Revoked, ", revoked"))
		m.put(`<td><bdi>%s</bdi></td><td>%s</td><td class="n%s">%s</td></tr>`+"\n", short(ownerText(r.First.Owner), 60), since, when(r.Lost > 0, " bad"), lost)
	}
	m.put("</tbody>\n</table>\n</div>\n")
	to := func(page int) string {
		if page == 0 {
			return ""
		}
		return "./?" + query("prefix", b.Prefix, "sort", b.Sort, "page", strconv.Itoa(page))
	}
	m.paging("Pages of names", to(b.Before), to(b.Next), "More")
}

func (b *nameBody) write(m *markup, _ *stateView) {
	m.put("<h1>%s</h1>\n<p>", bdi(b.Name))
	if b.Free {
		m.put("Nobody holds it, and nobody waits.")
	} else {
		m.put("<b>%s</b> %s it, <b>%s</b> %s.", thousands(b.Held), plural(b.Held, "holds", "hold"), thousands(b.Waiting), plural(b.Waiting, "waits", "wait"))
	}
	q := query("name", b.Name)
	m.put("\n<a href=\"why?%s\">Why is it not free?</a> <a href=\"graph?%s\">What it is tied to</a></p>\n", q, q)
	if !b.SeesWaiters {
		m.put(unseenWaiters)
	}
	if len(b.Used) > 0 {
		m.put(`<svg class="permits" viewBox="0 0 1000 24" preserveAspectRatio="none" aria-hidden="true"><rect class="whole" width="1000" height="24"/>`)
		for _, u := range b.Used {
			m.put(`<rect class="used" x="%d" width="%d" height="24"/>`, u.X, u.W)
		}
		m.put("</svg>\n")
	}
	if len(b.Claims) > 0 {
		m.put("<h2>The queue</h2>\n<ol class=\"queue\" start=\"%d\">\n", b.Claims[0].At)
		for _, c := range b.Claims {
			c.write(m, b.Name)
		}
		m.put("</ol>\n")
		to := func(from string) string {
			if from == "" {
				return ""
			}
			return "name?" + query("name", b.Name, "from", from)
		}
		m.paging("Places in the queue", to(b.Before), to(b.Next), thousands(b.More)+" more")
	}
	m.put("<h2>What happened</h2>\n")
	if b.Lanes != nil {
		b.Lanes.write(m)
	}
	if len(b.Events) == 0 {
		m.put("<p class=\"none\">Nothing was seen to happen.</p>\n")
	} else {
		m.put("<ul class=\"events\">\n")
		for _, e := range b.Events {
			m.put("<li%s>%s <b>%s</b>: <bdi>%s</bdi>, %s, ticket %d</li>\n", when(e.Lost(), ` class="lost"`), e.moment(), string(e.Kind), ownerText(e.Claim.Owner), view.ModeText(e.Claim), e.Claim.Ticket)
		}
		m.put("</ul>\n")
	}
	m.put(`<p class="note">`)
	if b.Began.IsZero() {
		m.put("This process has not read the engine yet.")
	} else {
		m.put("This is what this process saw since %s, while a page was open.", clock(b.Began))
	}
	m.put("\nA holder that goes before its time counts as released.\n")
	for _, g := range b.Gaps {
		m.put("Nobody looked from %s to %s. ", clock(g.From), clock(g.To))
	}
	m.put("</p>\n")
}

func (c *place) write(m *markup, name string) {
	state := "waiting"
	if c.State == engine.Held {
		state = "held"
	}
	m.put(`<li class="%s%s%s" data-ticket="%d">`+"\n<h3><bdi>%s</bdi></h3>\n<dl>\n", state, when(c.Revoked, " lost"), when(c.Cycle, " circle"), c.Ticket, ownerText(c.Owner))
	m.put(`<div><dt>State</dt><dd data-is="state">%s%s</dd></div>`+"\n", view.StateText(c.Claim), when(c.Cycle, ", in a circle"))
	m.put(`<div><dt>Mode</dt><dd data-is="mode">%s</dd></div>`+"\n", view.ModeText(c.Claim))
	if c.Owner.Label != "" {
		m.put(`<div><dt>Label</dt><dd data-is="label"><bdi>%s</bdi></dd></div>`+"\n", view.Printable(c.Owner.Label))
	}
	m.put("<div><dt>Asked</dt><dd>%s ago</dd></div>\n<div><dt>TTL left</dt><dd>%s</dd></div>\n", ago(c.Owner.Since), ttl(c.TTL))
	m.put(`<div><dt>Ticket</dt><dd data-is="ticket">%d</dd></div>`+"\n"+`<div><dt>Token</dt><dd data-is="token">%d</dd></div>`+"\n", c.Ticket, c.Ticket<<engine.HandoffBits)
	if len(c.Holds) > 0 {
		m.put(`<div><dt>Held when it asked</dt><dd data-is="holds">`)
		for i, h := range c.Holds {
			m.put("%s%s:%d%s", when(i > 0, ", "), link(h.Name), h.Ticket, when(h.Elsewhere, " (another client's)"))
		}
		m.put("</dd></div>\n")
	}
	m.put("</dl>\n")
	if c.Revoke {
		m.put(`<p><a class="act" href="revoke?%s">Revoke ticket %d…</a></p>`+"\n", query("name", name, "ticket", fmt.Sprint(c.Ticket)), c.Ticket)
	}
	m.put("</li>\n")
}

func (l *lanes) write(m *markup) {
	m.put(`<div class="scroll" id="lanes" tabindex="0" role="region" aria-label="Timeline"><svg class="lanes" viewBox="0 0 780 %d" width="780" height="%d" role="img" aria-label="When each claim waited and held; the list below says the same">`+"\n", l.Height, l.Height)
	for _, t := range l.Ticks {
		m.put(`<text class="tick" x="%d" y="14" text-anchor="middle">%s</text><line class="grid" x1="%d" x2="%d" y1="20" y2="%d"/>`+"\n", t.X, t.Text, t.X, t.X, l.Height)
	}
	for _, v := range l.Lanes {
		m.put(`<g><title>%s</title><text x="4" y="%d" dy="14">%s</text>`, v.Full, v.Y, v.Text)
		if v.WaitW > 0 {
			m.put(`<rect class="wait" x="%d" y="%d" width="%d" height="16"/>`, v.WaitX, v.Y, v.WaitW)
		}
		if v.HoldW > 0 {
			m.put(`<rect class="hold" x="%d" y="%d" width="%d" height="16"/>`, v.HoldX, v.Y, v.HoldW)
		}
		if v.Lost {
			m.put(`<text class="cross" x="%d" y="%d" dy="13">✕</text>`, v.EndX, v.Y)
		}
		m.put("</g>\n")
	}
	m.put("</svg></div>\n" + `<p class="key"><span class="wait">waits</span> <span class="hold">holds</span> <span class="cross">✕ lost</span></p>` + "\n")
}

func (b *graphBody) write(m *markup, _ *stateView) {
	around := when(b.Name != "", ", around "+bdi(b.Name))
	m.put("<h1>Who waits for whom%s</h1>\n<p class=\"do%s\" id=\"do\">%s</p>\n", around, when(b.Cycles > 0, " bad"), b.Do)
	if b.CyclesCut {
		m.put("<p class=\"banner\">Not every circle could be looked for: there may be more.</p>\n")
	}
	if len(b.Drawing.Nodes) == 0 {
		if b.Name != "" {
			m.put("<p class=\"none\">Nobody holds %s or waits for it.</p>\n", bdi(b.Name))
		} else {
			m.put("<p class=\"none\">No name is held or waited for%s.</p>\n", when(b.Prefix != "", " that begins with "+bdi(b.Prefix)))
		}
		return
	}
	m.put(`<div class="scroll" id="scroll" tabindex="0" role="region" aria-label="Graph">` + "\n")
	b.Drawing.write(m)
	m.put("</div>\n" + `<p class="key"><span class="box">name</span> <span class="pill">caller</span> dashed: waits; whole: is held by; red: in a circle</p>` + "\n")
	if b.Cut > 0 || b.Claims > 0 {
		m.put("<p class=\"note\">Not drawn: %s %s that hurt less, and %s %s on those that are drawn.</p>\n", thousands(b.Cut), plural(b.Cut, "name", "names"), thousands(b.Claims), plural(b.Claims, "claim", "claims"))
	}
	m.put(`<h2>The same in words</h2>
<div class="scroll" id="words" tabindex="0" role="region" aria-label="The graph in words">
<table><thead><tr><th scope="col">Caller</th><th scope="col">does</th><th scope="col">Name</th><th scope="col">Ticket</th></tr></thead><tbody>
`)
	for _, e := range b.Edges {
		verb := "holds"
		if e.Waits {
			verb = "waits for"
		}
		m.put(`<tr%s><td><bdi>%s</bdi></td><td>%s%s</td><td>%s</td><td class="n">%d</td></tr>`+"\n", when(e.Cycle, ` class="circle"`), view.Printable(e.Caller), verb, when(e.Cycle, ", in a circle"), link(e.Name), e.Ticket)
	}
	m.put("</tbody></table></div>\n")
}

func (d *drawing) write(m *markup) {
	m.put(`<svg class="graph" viewBox="0 0 %d %d" width="%d" height="%d" role="group" aria-label="Arrows lead from who waits to the name, and from the name to who holds it. The table below says the same.">
<defs><marker id="tip" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="10" markerHeight="10" markerUnits="userSpaceOnUse" orient="auto"><path class="tip" d="M0 0L8 4L0 8z"/></marker></defs>
`, d.Width, d.Height, d.Width, d.Height)
	for _, a := range d.Arrows {
		kind := "holds"
		if a.Waits {
			kind = "waits"
		}
		m.put(`<path class="%s%s" d="%s" marker-end="url(#tip)"><title>%s</title></path>`+"\n", kind, when(a.Cycle, " circle"), a.Path, a.Full)
	}
	for _, n := range d.Nodes {
		kind, round := "caller", nodeHigh/2
		if n.IsName {
			kind, round = "name", 3
			m.put(`<a href="name?%s">`, query("name", n.Name))
		}
		m.put(`<g class="%s%s" transform="translate(%d %d)"><title>%s</title><rect width="%d" height="%d" rx="%d"/><text x="%d" y="22" text-anchor="middle">%s</text></g>`,
			kind, when(n.Cycle, " circle"), n.X, n.Y, n.Full, nodeWide, nodeHigh, round, nodeWide/2, n.Text)
		m.put("%s\n", when(n.IsName, "</a>"))
	}
	m.put("</svg>\n")
}

func (b *whyBody) write(m *markup, _ *stateView) {
	if b.Free {
		m.put("<h1>%s is free</h1>\n", bdi(b.Name))
	} else {
		m.put("<h1>Why is %s not free?</h1>\n", bdi(b.Name))
	}
	m.put("<p class=\"do%s\" id=\"do\">%s</p>\n", when(b.Cycle, " bad"), b.Do)
	m.put(`<pre id="why" tabindex="0" role="region" aria-label="The reason">%s</pre>`+"\n", b.Text)
	if b.More > 0 {
		m.put("<p class=\"note\">%s more lines: \"leasehold why\" prints all.</p>\n", thousands(b.More))
	}
	m.put("<p>%s <a href=\"graph?%s\">The same as a graph</a></p>\n", link(b.Name), query("name", b.Name))
	m.put("<p class=\"note\">This follows what callers said that they held when they asked. The address of this page can be sent to others: it shows them the reason of then.</p>\n")
}

// part is what comes free when a holder has let go.
func (b *revokeBody) part() safe {
	if b.Others > 0 {
		return "Its part"
	}
	return "The name"
}

// others says who else holds the name.
func (b *revokeBody) others() safe {
	return when(b.Others > 0, sprint("; %s %s it too", thousands(b.Others), plural(b.Others, "other holds", "others hold")))
}

func (b *revokeBody) write(m *markup, _ *stateView) {
	if b.Done {
		m.put("<h1>What came of it</h1>\n")
	} else {
		m.put("<h1>Revoke ticket %d</h1>\n", b.Ticket)
	}
	if b.Wrong != "" {
		m.put("<p class=\"banner bad\" role=\"alert\">%s</p>\n", b.Wrong)
	}
	if b.Done || b.Claim == nil {
		m.put(`<p id="outcome">`)
		switch {
		case b.Claim == nil && b.Done:
			m.put("Ticket %d on %s has ended.", b.Ticket, bdi(b.Name))
		case b.Claim == nil:
			m.put("Nobody has the ticket %d on %s, or not any more. There is nothing to revoke.", b.Ticket, bdi(b.Name))
		case b.Claim.Revoked:
			m.put("Ticket %d on %s is revoked, and <bdi>%s</bdi> has been notified. %s is free when it has let go, or in %s%s.", b.Ticket, bdi(b.Name), ownerText(b.Claim.Owner), b.part(), ttl(b.Claim.TTL), b.others())
		default:
			m.put("Ticket %d on %s is there and is not revoked.", b.Ticket, bdi(b.Name))
		}
		m.put("</p>\n<p><a href=\"name?%s\">Back to %s</a></p>\n", query("name", b.Name), bdi(b.Name))
		return
	}
	m.put("<dl class=\"facts\">\n<div><dt>Name</dt><dd>%s</dd></div>\n<div><dt>Of</dt><dd><bdi>%s</bdi></dd></div>\n<div><dt>State</dt><dd>%s, %s</dd></div>\n<div><dt>Asked</dt><dd>%s ago</dd></div>\n</dl>\n",
		bdi(b.Name), ownerText(b.Claim.Owner), view.StateText(*b.Claim), view.ModeText(*b.Claim), ago(b.Claim.Owner.Since))
	if b.Holder {
		m.put("<p>It is notified and loses the name. %s is free when it has let go, or when its TTL has passed, in %s%s.\n", b.part(), ttl(b.Claim.TTL), b.others())
		switch {
		case b.Next == nil:
			m.put("Nobody waits behind it.")
		case b.Others == 0: // or what the others hold may still be in its way
			m.put("Then <bdi>%s</bdi> is next, ticket %d.", ownerText(b.Next.Owner), b.Next.Ticket)
		}
		m.put("</p>\n")
	} else {
		m.put("<p>Its place in the queue goes at once, and its call fails. The holders keep what they have.</p>\n")
	}
	m.put(`<form method="post" action="revoke?%s">`+"\n"+`<input type="hidden" name="ticket" value="%d">`+"\n", query("name", b.Name), b.Ticket)
	m.put(`<input type="hidden" name="was" value="%s">`+"\n", b.Claim.State.String())
	if b.Holder {
		m.put(`<p><label><input type="checkbox" name="now"%s> at once, while it may still be at work: only a fenced resource is safe then</label></p>`+"\n", when(b.Now, " checked"))
	}
	m.put(`<p><label for="typed">Type the name, as it stands above</label> <input id="typed" name="typed" autocomplete="off" spellcheck="false" required></p>
<p><button class="danger">Revoke ticket %d</button> <a href="name?%s">Leave it</a></p>
</form>
`, b.Ticket, query("name", b.Name))
}
