package linear

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"leasehold/torture/history"
)

// worlds are all possibilities at one point of an order.
type worlds struct {
	all []*world
	key string // the same for the same possibilities
}

// start is the queue of a new name.
func start() *worlds { return gather([]*world{{}}) }

// gather puts possibilities together, and drops each that another one allows.
func gather(all []*world) *worlds {
	type keyed struct {
		w           *world
		places, key []byte
	}
	ks := make([]keyed, len(all))
	for i, w := range all {
		ks[i] = keyed{w, w.places(), w.key()}
	}
	slices.SortFunc(ks, func(a, b keyed) int { return bytes.Compare(a.key, b.key) })
	ks = slices.CompactFunc(ks, func(a, b keyed) bool { return bytes.Equal(a.key, b.key) })
	out := &worlds{}
	var key []byte
	for from := 0; from < len(ks); {
		to := from // those of the same places stand together, since a key begins with them
		for to < len(ks) && bytes.Equal(ks[to].places, ks[from].places) {
			to++
		}
		for _, k := range ks[from:to] {
			if slices.ContainsFunc(ks[from:to], func(o keyed) bool { return o.w != k.w && o.w.allows(k.w) }) {
				continue
			}
			out.all = append(out.all, k.w)
			key = append(binary.AppendUvarint(key, uint64(len(k.key))), k.key...)
		}
		from = to
	}
	out.key = string(key)
	return out
}

// open is every possibility into which w can have changed by itself until the call c took
// effect: claims have ended that nothing proved so long, and lost calls have arrived. It is
// nil if there are too many.
//
// What could as well happen later is left for later, and allows more: a claim need not have
// ended before an answer shows it, since its end only helps claims behind it. A lost Join
// need not have arrived before a claim is renewed or left that has its place, since it stands
// behind all others: see arrivals.
func (n *name) open(w *world, c *call) []*world {
	all := []*world{w}
	seen := map[string]bool{string(w.key()): true}
	add := func(v *world) {
		if k := string(v.key()); !seen[k] {
			seen[k] = true
			all = append(all, v)
		}
	}
	for i := 0; i < len(all); i++ {
		if len(all) > n.options.States {
			return nil
		}
		w := all[i]
		arrivals := n.arrivals(w, c)
		for k := range n.ends(w, c, arrivals) {
			claim := number(w.queue.Places[k].ID)
			if p := w.proved[k]; p.until <= c.end {
				v := w.end(claim)
				v.now = max(v.now, p.until)
				add(v)
			}
			for _, p := range w.pending {
				if o := &n.calls[p]; o.claim == claim && (o.ask.Method == leave || n.mayWithdraw(w, o)) {
					v := w.without(p)
					v.queue.Leave(0, "", id(claim))
					add(v.settle())
				}
			}
		}
		for _, p := range arrivals {
			for _, v := range n.arrive(w, p) {
				add(v)
			}
		}
	}
	return all
}

// ends are the places whose claims may have to end before c is answered as it was, or before
// one of the lost calls arrives that may have to.
func (n *name) ends(w *world, c *call, arrivals []int) iter.Seq[int] {
	return func(yield func(int) bool) {
		own := w.at(c.claim)
		all := c.ask.Method == revoke || slices.ContainsFunc(arrivals, func(p int) bool {
			o := &n.calls[p]
			return o.ask.Method == revoke || o.ask.NoWait || n.forgets || o.replaces != 0 || o.limit != w.queue.Limit
		})
		asIs := c.got.State == held && n.holds(w, own, c) // it may be so already
		for i := range w.queue.Places {
			switch {
			case all, n.remade(w, i),
				!asIs && i == own && (c.got.State == gone || c.ask.Method == join),
				!asIs && c.got.State == held && (own < 0 || i < own):
				if !yield(i) {
					return
				}
			}
		}
	}
}

// remade is whether a lost Join can make the claim of a place anew, as an answer tells it: the
// claim ended before that, and before others joined behind it.
func (n *name) remade(w *world, i int) bool {
	claim := number(w.queue.Places[i].ID)
	return slices.ContainsFunc(w.pending, func(p int) bool {
		return n.calls[p].ask.Method == join && n.calls[p].claim == claim
	}) && slices.ContainsFunc(n.tickets[claim], func(ticket uint64) bool { return ticket > w.queue.Last })
}

// holds is whether the claim of c holds, or would if it joined now.
func (n *name) holds(w *world, own int, c *call) bool {
	if own >= 0 {
		p := &w.queue.Places[own]
		return p.Held && (c.got.Ticket == 0 || c.got.Ticket == p.Ticket) // else it was made anew
	}
	if c.ask.Method != join {
		return false
	}
	sum := int64(c.permits)
	for i := range w.queue.Places {
		if w.queue.Places[i].ID != id(c.replaces) {
			sum += int64(w.queue.Places[i].Permits)
		}
	}
	return sum <= int64(c.limit) && (len(w.queue.Places) == 0 || w.queue.Limit == c.limit)
}

// arrivals are the lost calls whose arrival before c can make a difference that their arrival
// after it cannot make.
//
// A lost Join stands behind all others, so it makes none to a claim that has its place, unless
// it replaces one before it. But if any claim joins before c is answered, every lost Join may
// have to arrive before that one: it then stands in front of it, and has a smaller ticket.
// So either all lost Joins may arrive, or none. There is one exception. Whoever stands in front
// of a claim that joins and holds does so too, and only takes room. So one of which no later
// answer tells that it stood there may as well arrive behind, unless it replaces a claim. And a
// Join that is refused for its limit may need a lost one to disagree with.
//
// The end of a claim is none of these: a lost Leave arrives as that.
func (n *name) arrivals(w *world, c *call) (calls []int) {
	now := n.joinsNow(w, c)
	joins := now || c.ask.Method == revoke || c.result == history.Refused && !n.disagrees(w, c) || slices.ContainsFunc(w.pending, func(p int) bool {
		return n.makesRoom(w, &n.calls[p], c)
	})
	for _, p := range w.pending {
		switch o := &n.calls[p]; {
		case o.ask.Method == revoke:
		case o.ask.Method != join, !joins:
			continue
		case now && c.got.State == held && o.claim != c.claim && n.stood[o.claim] < c.begin && w.at(o.replaces) < 0:
			continue
		}
		calls = append(calls, p)
	}
	return calls
}

// joinsNow is whether the claim of c has no place in w, and may need one for the answer: by c,
// or by a lost Join. What is gone needs none, unless somebody revoked it.
func (n *name) joinsNow(w *world, c *call) bool {
	if c.result == history.Refused || w.at(c.claim) >= 0 {
		return false
	}
	return c.ask.Method == join || (c.got.State != gone || c.got.Revoked) && slices.ContainsFunc(w.pending, func(p int) bool {
		return n.calls[p].ask.Method == join && n.calls[p].claim == c.claim
	})
}

// makesRoom is whether a lost Join replaces the claim of c, or one before it while it does not
// hold, as it was answered to.
func (n *name) makesRoom(w *world, lost, c *call) bool {
	if lost.ask.Method != join || lost.replaces == 0 {
		return false
	}
	replaced, own := w.at(lost.replaces), w.at(c.claim)
	return replaced >= 0 && (replaced == own || replaced < own && c.got.State == held && !n.holds(w, own, c))
}

// step is what becomes of all possibilities if a call takes effect: nil if none allows its
// answer. It reports whether there were too many.
func (n *name) step(from *worlds, i int, last bool) (to *worlds, tooMany bool) {
	c := &n.calls[i]
	var out, before []*world
	for _, w := range from.all {
		all, many := n.due(w, c.begin)
		if many {
			return nil, true
		}
		before = append(before, all...)
	}
	for _, w := range before {
		if k := slices.Index(w.done, i); k >= 0 {
			v := w.clone()
			v.done = slices.Delete(v.done, k, k+1)
			out = append(out, v)
			continue
		}
		if c.answer < 0 {
			if c.ask.Method == renew {
				out = append(out, w) // a claim may live longer than it is proved to in any case
				continue
			}
			v := w.clone()
			v.pending = append(v.pending, i)
			slices.Sort(v.pending)
			out = append(out, v)
			continue
		}
		all := n.open(w, c)
		if all == nil {
			return nil, true
		}
		for _, v := range all {
			if c.end < v.now {
				continue // it had been answered before that claim can have ended
			}
			if c.result == history.Refused {
				if o := n.replacedInVain(v, c); o != nil {
					out = append(out, n.paid(n.tidy(o, c, i, last)))
				}
			}
			if v = n.apply(v, i); v == nil {
				continue
			}
			out = append(out, n.paid(n.tidy(v, c, i, last)))
		}
	}
	if len(out) == 0 {
		return nil, false
	}
	to = gather(out)
	return to, len(to.all) > n.options.States
}

// tidy makes worlds the same that differ in nothing that matters after that call.
func (n *name) tidy(w *world, c *call, i int, last bool) *world {
	w = w.clone()
	if w.now <= c.start {
		w.now = 0 // every later call is answered after this
	}
	w.pending = slices.DeleteFunc(w.pending, func(p int) bool { return n.useless(w, p, c.begin) })
	if !last {
		w.done = append(w.done, i)
		slices.Sort(w.done)
	}
	return w
}
