package claims

import (
	"slices"
	"strings"
	"time"

	"leasehold/engine"
)

// What must be so in every state of a world, and of every output. The engine's
// queues and the world's clock are the truth; what a machine believes of itself
// is never asked for it.

// turns is how often a claim was handed off while its client had to know that
// somebody of another client waits behind it.
type turns struct {
	claim, waiter engine.ID
	notified      bool
	handedOff     int
	first         time.Duration // handed off
}

// behind is the first claim of another client that waits behind a claim.
func (w *world) behind(name string, id engine.ID) (waiter engine.ID, since time.Duration) {
	passed := false
	for _, p := range w.line(name).Places {
		switch {
		case p.ID == id:
			passed = true
		case passed && !p.Held && p.ID[0] != id[0] && p.Deadline > w.now:
			return p.ID, w.fate(p.ID).joined
		}
	}
	return engine.ID{}, 0
}

// told takes in that a client is told what became of a claim.
func (c *client) notified(got engine.Claim) {
	if got.State != engine.Held || !got.Contended {
		return
	}
	if waiter, _ := c.w.behind(got.Name, got.ID); waiter != (engine.ID{}) {
		c.w.turnsOf(got.Name, got.ID, waiter).notified = true
	}
	c.w.fate(got.ID).notified = c.w.now
}

// checkUntold: an answer that nobody waits, asked for after it was last said
// that somebody does, is believed.
func (c *client) checkUntold(q *call, got engine.Claim) {
	if cl := c.machine.claims[got.ID]; cl != nil && cl.phase.wanted() && got.State == engine.Held && !got.Contended && q.s > c.w.fate(got.ID).notified && cl.contention.yes {
		c.w.fail("%s was said to be alone, and is contended", title(got.ID))
	}
}

func (w *world) turnsOf(name string, claim, waiter engine.ID) *turns {
	t := &w.turns[w.nameIndex(name)]
	if t.claim != claim || t.waiter != waiter {
		*t = turns{claim: claim, waiter: waiter}
	}
	return t
}

// handed off: invariant 7. Local handoff is bounded from when the holder was told that
// somebody waits, and in any case a second after that one joined.
func (w *world) handedOff(name string, claim engine.ID) {
	waiter, since := w.behind(name, claim)
	if waiter == (engine.ID{}) {
		return
	}
	t := w.turnsOf(name, claim, waiter)
	if !t.notified && w.now < since+Believe {
		return
	}
	if t.handedOff++; t.handedOff == 1 {
		t.first = w.now
	}
	if t.handedOff > HandoffBudget {
		w.fail("%s was handed off %d times while %s waits behind it", title(claim), t.handedOff, title(waiter))
	}
	if w.now >= t.first+HandoffTime {
		w.fail("%s was handed off for %v while %s waits behind it", title(claim), w.now-t.first, title(waiter))
	}
}

// checkOutput holds one output against what the world knows.
func (c *client) checkOutput(o *Output) {
	w := c.w
	switch o.Act {
	case Join:
		r := o.Claim.Request()
		if err := r.Check(); err != nil {
			w.fail("%s joins what every engine refuses: %v", title(r.ID), err)
		}
		if o.Claim.phase != Joining {
			w.fail("%s is asked for in phase %v", title(r.ID), o.Claim.phase)
		}
		if slices.Contains(c.gaveUp, r.ID) {
			w.fail("%s is asked for after it was left", title(r.ID))
		}
		for _, q := range c.calls {
			if q.act == Join && q.request.ID == r.ID {
				w.fail("%s is asked for twice at once", title(r.ID))
			}
		}
		c.checkReplaces(o.Caller, &r)
		if old := c.machine.claims[r.Replaces]; r.Replaces != (engine.ID{}) && (r.Replaces[0] != r.ID[0] || old != nil && !old.phase.givenUp()) {
			w.fail("%s replaces %s, which is still wanted", title(r.ID), title(r.Replaces))
		}
	case Renew:
		if !o.Claim.phase.wanted() || o.Claim.phase == Waiting && w.setup.unordered {
			w.fail("%s is renewed, and is %v", title(o.Claim.id), o.Claim.phase)
		}
		if err := engine.CheckTTL(o.Want); err != nil {
			w.fail("%s is renewed for what every engine refuses: %v", title(o.Claim.id), err)
		}
		if (o.Bound <= 0 || o.Bound > o.Want) && !c.closed {
			w.fail("%s is renewed for %v, in a call that may take %v", title(o.Claim.id), o.Want, o.Bound)
		}
	case Leave:
		if !o.Claim.phase.givenUp() && !c.closed {
			w.fail("%s is left, and is %v", title(o.Claim.id), o.Claim.phase)
		}
		if o.Lease != nil && w.now < o.Claim.heldAt+o.Claim.minHold {
			w.fail("%s is left %v before the end of its MinHold", title(o.Claim.id), o.Claim.heldAt+o.Claim.minHold-w.now)
		}
		for l := o.Claim.leases; l != nil; l = l.next {
			if !l.Over() {
				w.fail("%s is left, and %v has a lease of it", title(o.Claim.id), l.Tag)
			}
		}
		c.gaveUp = append(c.gaveUp, o.Claim.id)
	case Deliver:
		c.checkDeliver(o)
	case Fail:
		c.checkFail(o)
	case Lose:
		a := o.Lease.Tag.(*actor)
		if a.lease != o.Lease || a.state != holds && a.state != unlocks || a.lost {
			w.fail("%v loses a lease that it does not hold", a)
		}
		p := w.place(o.Lease.claim.Name(), o.Lease.claim.id)
		if ranOut(o.Reason) && w.now < o.Lease.Ends() && p != nil && p.Held && p.Ticket == o.Lease.claim.ticket && !p.Revoked {
			w.fail("%v loses a lease that is proven until %v, and that the engine still has", a, o.Lease.Ends()-start)
		}
	case End:
		a := o.Lease.Tag.(*actor)
		cl := o.Lease.claim
		short := ranOut(o.Reason) && cl.trustedUntil() < cl.heldAt+cl.minHold // MinHold was not proven to its end
		switch {
		case a.lease != o.Lease || a.state != unlocks:
			w.fail("%v: an Unlock ends that did not begin, or ends twice", a)
		case o.Reason == OK && !a.proven:
			w.fail("%v's Unlock says that all is well, and its hold was not proven to the end", a)
		case o.Reason == OK && a.lost, a.lost && o.Lease.lost != o.Reason:
			w.fail("%v lost its lease, and its Unlock says %v", a, o.Reason)
		case a.proven && o.Reason != OK && o.Reason != Unknown && !(o.Reason == Revoked && w.setup.revokes > 0) && !short:
			w.fail("%v's hold was proven to the end, and its Unlock says %v", a, o.Reason)
		}
	}
}

// checkReplaces: who asks for a place where a claim of this client may still
// stand, since its Leave was not answered, takes that one's.
func (c *client) checkReplaces(by *Caller, r *engine.Request) {
	if by == nil || by.callers == nil || by.callers.solo || r.Replaces != (engine.ID{}) {
		return
	}
	for _, cl := range c.machine.claims {
		if cl.callers == by.callers && cl.phase == Leaving && c.w.fate(cl.id).indeterminate && c.w.place(r.Name, cl.id) != nil {
			c.w.fail("%s does not replace %s, whose Leave was not answered", title(r.ID), title(cl.id))
		}
	}
}

func (c *client) checkDeliver(o *Output) {
	w, l, a := c.w, o.Lease, o.Caller.Tag.(*actor)
	if a.caller != o.Caller || a.state != waits || a.lease != l {
		w.fail("%v is delivered what it does not wait for", a)
		return
	}
	cl := l.claim
	n := w.nameIndex(cl.Name())
	if l.hold != &l.own {
		o := l.Outer
		for o != nil && o.Lease.hold != l.hold {
			o = o.Outer
		}
		if o == nil || l.Token != o.Lease.Token {
			w.fail("%v re-enters with token %d what it does not hold by that", a, l.Token)
		}
		return
	}
	if w.now >= l.Ends() {
		w.fail("%v is delivered a lease whose time is up", a)
	}
	if cl.exclusive() {
		if l.Token <= w.tokens[n] {
			w.fail("%v is delivered the token %d:%d after %d:%d", a,
				l.Token>>engine.HandoffBits, l.Token&(1<<engine.HandoffBits-1), w.tokens[n]>>engine.HandoffBits, w.tokens[n]&(1<<engine.HandoffBits-1))
		}
		w.tokens[n] = l.Token
	}
	if a.Permits > cl.permits {
		w.fail("%v asked for %d permits and is delivered %d", a, a.Permits, cl.permits)
	}
	if want := a.MaxHold; want != cl.maxHold || a.NoRenew != cl.noRenew || a.MinHold != cl.minHold || a.Detached && !cl.detached {
		w.fail("%v is delivered a claim with somebody else's options", a)
	}
	if o.HandedOff {
		w.handedOff(cl.Name(), cl.id)
	}
}

func (c *client) checkFail(o *Output) {
	w, a := c.w, o.Caller.Tag.(*actor)
	if a.caller != o.Caller || a.state != waits {
		w.fail("%v fails, and does not wait", a)
	}
	ok := true
	switch o.Reason {
	case Held:
		ok = a.NoWait
	case Own, Upgrade:
		ok = a.inside > 0
	case Revoked:
		ok = w.setup.revokes > 0
	case Refused:
		ok = refused(o.Err)
	case Unavailable:
		ok = (a.NoWait || c.machine.cfg.FailFast) && o.Err != nil
	case Closed:
		ok = c.closed
	case Expired, NotRenewed, Stopped, Deleted:
		ok = a.inside > 0 // what it would re-enter was lost
	case MaxHold:
		ok = a.inside > 0
	default:
		ok = false
	}
	if !ok {
		w.fail("%v fails: %v", a, o.Reason)
	}
}

// checkTicked: invariant 3. Who has just looked has no lease past its time.
func (c *client) checkTicked() {
	for _, a := range c.actors {
		if a.state == holds && !a.lease.Over() && c.w.now >= a.lease.Ends() {
			c.w.fail("%v's lease is open after its time, which Tick has seen", a)
		}
	}
}

// check holds a state against the invariants.
func (w *world) check() {
	w.checkExclusion()
	for _, c := range w.clients {
		c.checkLeases()
		if !c.closed { // Close has given all up
			c.checkTrust()
			c.checkTimers()
			c.checkQueues()
			c.checkOrphans()
			c.checkWakeUps()
		}
	}
}

// checkExclusion: invariant 1, by the clock and not by what Tick has seen.
func (w *world) checkExclusion() {
	for i, name := range w.names {
		sum, limit := int64(0), int64(0)
		var who []string
		for _, c := range w.clients {
			for _, a := range c.actors {
				if a.state != holds || a.Name != name {
					continue
				}
				l := a.lease
				if l.Over() || w.now >= l.Ends() {
					continue
				}
				limit = int64(l.claim.limit)
				if c.counts(a) {
					sum += int64(l.claim.permits)
					who = append(who, a.String())
				}
			}
		}
		if sum > limit {
			w.fail("%s hold %q at once, queue %v", strings.Join(who, " and "), name, len(w.queues[i].Places))
		}
	}
}

// counts: a hold counts once, however often it was re-entered, and so does the
// claim that the readers of a process share.
func (c *client) counts(a *actor) bool {
	for _, o := range c.actors[:a.index] {
		if o.state == holds && !o.lease.Over() && (o.lease.hold == a.lease.hold || o.lease.claim == a.lease.claim && !a.lease.claim.exclusive()) {
			return false
		}
	}
	return true
}

// checkTrust: invariant 3. What a machine trusts, the engine has, and for as
// long.
func (c *client) checkTrust() {
	w := c.w
	for _, cl := range c.machine.claims {
		if !cl.proven(w.now) {
			continue
		}
		switch p := w.place(cl.Name(), cl.id); {
		case p == nil:
			w.fail("%s is %v and trusted until %v, and the engine has no such claim", title(cl.id), cl.phase, cl.trustedUntil()-start)
		case p.Ticket != cl.ticket:
			w.fail("%s is trusted in a life that has ended: ticket %d, the engine has %d", title(cl.id), cl.ticket, p.Ticket)
		case !p.Held:
			w.fail("%s is %v, and waits in the engine", title(cl.id), cl.phase)
		case cl.trustedUntil() >= p.Deadline:
			w.fail("%s is trusted until %v, and expires at %v", title(cl.id), cl.trustedUntil()-start, p.Deadline-start)
		}
	}
}

// checkOrphans: invariant 5. What stands in a queue for a client is known to it,
// unless its Join came later than anybody could wait for.
func (c *client) checkOrphans() {
	w := c.w
	for i, name := range w.names {
		for _, p := range w.queues[i].Places {
			if p.ID[0] != byte(c.index+1) || p.Detached || p.Deadline <= w.now || c.machine.claims[p.ID] != nil {
				continue
			}
			f := w.fate(p.ID)
			if f.repeated || slices.Contains(c.gaveUp, p.ID) && f.joined >= f.abandon {
				continue
			}
			w.fail("%s stands in the queue of %q, and its client has forgotten it", title(p.ID), name)
		}
	}
}

// checkWakeUps: where no notification is lost, nobody learns only from a renewal that
// it holds: not if the subscription began meanwhile either.
func (c *client) checkWakeUps() {
	if !c.subscribed || c.paused {
		return
	}
	for _, cl := range c.machine.claims {
		p := c.w.place(cl.Name(), cl.id)
		if cl.phase != Waiting || p == nil || !p.Held || cl.inflight > 0 || cl.due <= c.w.now || c.w.fate(cl.id).unheard ||
			slices.ContainsFunc(c.notifications, func(n notified) bool { return n.begin || n.claim.ID == cl.id }) {
			continue
		}
		c.w.fail("%s became held, and %v does not look", title(cl.id), c)
	}
}

// checkLeases: what callers see and what the claim says agree.
func (c *client) checkLeases() {
	w := c.w
	for _, a := range c.actors {
		switch a.state {
		case waits:
			if a.caller.callers == nil && !a.mayQuit {
				w.fail("%v waits, and is in no queue", a)
			}
		case holds:
			if a.lost != (a.lease.lost != OK) || a.lost != a.lease.Over() {
				w.fail("%v: lost and not lost", a)
			}
			if a.past && !a.lost && w.now < a.lease.Ends() {
				w.fail("%v's lease goes on after its time was up", a)
			}
			if cl := a.lease.claim; !a.lost && !cl.phase.open() && !c.closed {
				w.fail("%v has a lease, and its claim %s is %v", a, title(cl.id), cl.phase)
			}
		}
	}
	for _, cl := range c.machine.claims {
		users := 0
		for l := cl.leases; l != nil; l = l.next {
			if l.hold == &l.own {
				users++
			}
			if l.ended || l.claim != cl {
				w.fail("%s keeps a lease that has ended", title(cl.id))
			}
		}
		if users > int(cl.users) {
			w.fail("%s has %d users and %d leases", title(cl.id), cl.users, users)
		}
		if cl.phase == Idle && cl.contention.yes {
			w.fail("%s is kept for nobody while somebody waits", title(cl.id))
		}
	}
}

// checkTimers: the heap is one, and whatever has a time is found by it.
func (c *client) checkTimers() {
	w, m := c.w, c.machine
	for i, cl := range m.timers {
		if int(cl.index) != i || m.claims[cl.id] != cl {
			w.fail("%s stands in the timers, and does not know it", title(cl.id))
		}
		if i > 0 && m.timers.Less(i, (i-1)/2) {
			w.fail("the timers is out of order")
		}
	}
	for _, cl := range m.claims {
		had, due := cl.index >= 0, cl.due
		m.schedule(cl)
		if cl.index >= 0 && (!had || cl.due < due) {
			w.fail("%s is %v and due at %v, and the timers does not say so", title(cl.id), cl.phase, cl.due-start)
		}
		if had {
			m.timers.set(cl, due)
		} else {
			m.timers.remove(cl)
		}
	}
}

// checkQueues: whoever waits, waits for something that goes on.
func (c *client) checkQueues() {
	w, m := c.w, c.machine
	for name, q := range m.callersOf {
		for ; q != nil; q = q.sibling {
			if q.key.name != name || q.solo || m.find(q.key) != q {
				w.fail("a queue stands under another's key")
			}
		}
	}
	count := map[*callers]int{}
	for _, cl := range m.claims {
		count[cl.callers]++
		renews := 0
		for _, q := range c.calls {
			if q.act != Renew {
				continue
			}
			for _, r := range q.asked {
				if r.ID == cl.id {
					renews++
				}
			}
		}
		if renews != int(cl.inflight) {
			w.fail("%s has %d renewals under way and counts %d", title(cl.id), renews, cl.inflight)
		}
		if renews > attempts+1 {
			w.fail("%s has %d renewals under way", title(cl.id), renews)
		}
		if cl.phase.givenUp() && cl.callers.current == cl {
			w.fail("%s is %v, and callers wait for it", title(cl.id), cl.phase)
		}
	}
	for _, a := range c.actors {
		if a.state != waits || a.caller.callers == nil {
			continue
		}
		q := a.caller.callers
		switch cl := q.current; {
		case cl == nil:
			w.fail("%v waits for nothing", a)
		case cl.callers != q || m.claims[cl.id] != cl:
			w.fail("%v waits for a claim of others", a)
		case cl.index < 0 && cl.phase != Joining && !(cl.phase == Indeterminate && due(cl) == never) && !slices.Contains(m.tries, cl):
			w.fail("%v waits for %s, which is %v and not due", a, title(cl.id), cl.phase)
		}
		if !q.solo && m.find(q.key) != q {
			w.fail("%v waits in a queue that nobody finds", a)
		}
	}
	c.checkTries()
	for q, n := range count {
		if int(q.claims) != n {
			w.fail("a queue has %d claims and counts %d", n, q.claims)
		}
	}
}

// checkTries: so many are under way as are said to be, and none waits for its turn
// while there is room.
func (c *client) checkTries() {
	m, tries := c.machine, 0
	for _, cl := range m.claims {
		if cl.tries && cl.phase.unanswered() {
			tries++
		}
		if cl.tries && cl.phase == Waiting && !slices.Contains(m.tries, cl) {
			c.w.fail("%s waits for its turn to be tried for, and has none", title(cl.id))
		}
	}
	if tries != m.trying || tries > m.maxTries || tries < m.maxTries && len(m.tries) > 0 {
		c.w.fail("%v has %d tries under way of at most %d, counts %d, and %d more wait", c, tries, m.maxTries, m.trying, len(m.tries))
	}
}

// ranOut: the claim ended, and nobody asked for that.
func ranOut(why Reason) bool {
	return why == Expired || why == NotRenewed || why == Stopped || why == Deleted
}
