package sim

import (
	"fmt"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// Rule is one thing that must be so in every run. The numbers are those of the
// invariants of the package documentation.
type Rule string

const (
	Exclusion Rule = "1 exclusion"
	Tokens    Rule = "2 tokens rise"
	Loss      Rule = "3 no lease outlives its proof, and a loss is told in time"
	Forgotten Rule = "4 nobody is forgotten"
	Orphan    Rule = "5 no claim of nobody outlives its TTL"
	Unlock    Rule = "6 Unlock tells the truth"
	Order     Rule = "7 first come, first served"
	Handoff   Rule = "7 local handoff is bounded"
	Rest      Rule = "8 nothing is left"
	Asked     Rule = "9 what is asked is granted or refused in words"
)

// use is how long a caller goes on after it has seen that its lease is valid: part of
// what the margin is for.
const use = 5 * time.Millisecond

// inUse: the caller may be at work, as far as its own clock and its own machine say.
func (h *hold) inUse() bool {
	if h.lease.Over() && !ranOut(h.lease.Lost()) {
		return false // it was told before its time was up, and stopped
	}
	return h.user.client.now() < h.lease.Ends()+use
}

func ranOut(why claims.Reason) bool {
	switch why {
	case claims.Expired, claims.NotRenewed, claims.Stopped, claims.MaxHold:
		return true
	}
	return false
}

func (h *hold) ticket() uint64 { return h.token >> engine.HandoffBits }

// forgotten: the engine may have lost its claim, as it declares.
func (w *world) forgotten(h *hold) bool {
	return w.Policy.mayDouble() && joined(h.ticket()) <= w.store.forgot
}

// granted: a lease was made.
func (w *world) granted(h *hold, handedOff bool) {
	u, l, cl := h.user, h.user.lot, h.lease.Claim()
	w.counts.Grants++
	w.counts.LongestWait = max(w.counts.LongestWait, w.now-u.asked)
	if u.client.now() >= h.lease.Ends() {
		w.fail(Loss, "%v is delivered a lease of %s whose time is up", u.client, l.name)
	}
	w.checkExclusion(l, h)
	l.holds = append(l.holds, h)
	if cl.Permits() == cl.Limit() {
		// A claim that the engine has forgotten is handed off until its client knows. Its
		// tokens are stale: a resource refuses them.
		if h.token <= l.token && !w.forgotten(h) {
			w.fail(Tokens, "%v is delivered token %d of %s after %d", u.client, h.token, l.name, l.token)
		}
		l.token = max(l.token, h.token)
	}
	switch {
	case handedOff:
		w.counts.Handoffs++
		w.checkHandoff(l, h)
	case w.Policy != NoOrder && !w.Policy.mayDouble():
		w.checkOrder(l, h)
	}
}

// checkExclusion: permits of what is trusted at this moment are never above the limit.
// Trust begins with a grant, so to look then is enough. (Readers of one client share a
// claim and are counted each: all readers together are far below the limit.)
func (w *world) checkExclusion(l *lot, h *hold) {
	claim := h.lease.Claim()
	permits, limit := int64(claim.Permits()), int64(claim.Limit())
	total, declared := permits, w.forgotten(h)
	for _, o := range l.holds {
		if o.inUse() {
			total += int64(o.lease.Claim().Permits())
			declared = declared || w.forgotten(o)
		}
	}
	if total <= limit {
		return
	}
	w.counts.Overlaps++
	for _, o := range l.holds {
		if o.inUse() {
			w.say("OVERLAP: %v and %v hold %s", h.user.client, o.user.client, l.name)
			if int64(o.lease.Claim().Permits())+permits > limit {
				h.overlaps, o.overlaps = append(h.overlaps, o), append(o.overlaps, h)
			}
			if !declared {
				c := o.user.client
				until := fmt.Sprintf("for %v more", o.lease.Ends()-c.now())
				if ago := c.now() - o.lease.Ends(); ago >= 0 {
					until = fmt.Sprintf("until %v ago, and may be at work", ago)
				}
				w.fail(Exclusion, "%v is delivered %s by ticket %s, and %v trusts ticket %s %s, by its clock", h.user.client, l.name,
					short(h.ticket()), c, short(o.ticket()), until)
			}
		}
	}
}

// checkOrder: who is granted a claim by the engine has nobody before it who waits.
func (w *world) checkOrder(l *lot, h *hold) {
	now := w.store.now()
	for i := range l.queue.Places {
		p := &l.queue.Places[i]
		if p.Ticket >= h.ticket() {
			return
		}
		if !p.Held && p.Deadline > now {
			w.fail(Order, "%v holds %s by ticket %s, and ticket %s waits", h.user.client, l.name, short(h.ticket()), short(p.Ticket))
		}
	}
}

// turns counts the leases that a claim was handed off for while another client waited.
type turns struct {
	claim, waiter uint64
	count         int
}

// checkHandoff: a client believes for a second that nobody waits. From then on, while a
// claim of another client waits, the budget counts. (If the engine's clock has stepped
// back since the claim joined, it counts from later.)
func (w *world) checkHandoff(l *lot, h *hold) {
	now, passed := w.store.now(), false
	for i := range l.queue.Places {
		p := &l.queue.Places[i]
		if p.Ticket == h.ticket() {
			passed = true
			continue
		}
		if !passed || p.Held || p.Deadline <= now || w.addresses[p.Client].client == h.user.client {
			continue
		}
		if now < joined(p.Ticket)+claims.Believe*102/100 {
			return
		}
		t := &l.turns
		if t.claim != h.ticket() || t.waiter != p.Ticket {
			*t = turns{claim: h.ticket(), waiter: p.Ticket}
		}
		if t.count++; t.count > claims.HandoffBudget {
			w.fail(Handoff, "%v has handed %s off %d times while %v waits", h.user.client, l.name, t.count, w.addresses[p.Client].client)
		}
		return
	}
}

// checkFailed: a caller gets nothing only for a reason that there is.
func (u *user) checkFailed(o *claims.Output) {
	w, ok := u.client.w, false
	switch o.Reason {
	case claims.Held:
		ok = u.want.NoWait
	case claims.Unavailable:
		ok = u.want.NoWait || u.client.config.FailFast
	case claims.Revoked:
		ok = w.revoked
	}
	if !ok {
		w.fail(Asked, "a caller of %v does not get %s: %v: %v", u.client, u.want.Name, o.Reason, o.Err)
	}
}

// checkLost: a lease is lost when its time is up, or its claim is gone for a reason.
func (u *user) checkLost(o *claims.Output) {
	w, c := u.client.w, u.client
	switch {
	case ranOut(o.Reason):
		if c.now() < u.lease.Ends() {
			w.fail(Loss, "%v loses %s %v before its time", c, u.want.Name, u.lease.Ends()-c.now())
		}
	case o.Reason == claims.Deleted && w.forgotten(u.hold), o.Reason == claims.Revoked && w.revoked:
	default:
		w.fail(Loss, "%v loses %s, which it trusts for %v more: %v", c, u.want.Name, u.lease.Ends()-c.now(), o.Reason)
	}
}

// checkTold: whoever runs, and whose timers run, is told of a loss when its time is up.
func (w *world) checkTold(h *hold) {
	c := h.user.client
	if !c.stopped && !c.late && c.resumed+time.Millisecond < w.now && !h.told && c.now() > h.lease.Ends()+time.Millisecond {
		w.fail(Loss, "%v has a lease of %s whose time was up %v ago, and is not told", c, h.user.lot.name, c.now()-h.lease.Ends())
	}
}

// checkEnded: Unlock says that all was well exactly if the hold was proven to its end. Of
// two holds that overlap and whose Unlock asked the engine, one at most was well. (An
// Unlock that leaves the claim to another caller of its client does not ask.)
func (u *user) checkEnded(o *claims.Output) {
	w, c, h := u.client.w, u.client, u.hold
	switch why := o.Reason; {
	case h == nil || u.state != unlocks || h.lease != o.Lease:
		w.fail(Unlock, "an Unlock of %v ends that did not begin", c)
		return
	case h.told && why != h.lease.Lost():
		w.fail(Unlock, "%v lost %s: %v, and its Unlock says: %v", c, u.want.Name, h.lease.Lost(), why)
	case why == claims.OK && !u.proven:
		w.fail(Unlock, "the Unlock of %v says that all was well, and %s was not proven to the end", c, u.want.Name)
	case why == claims.OK:
		h.honest = h.asked
		for _, other := range h.overlaps {
			if h.honest && other.honest {
				w.fail(Unlock, "%v and %v held %s at once, and the Unlock of both says that all was well", c, other.user.client, u.want.Name)
			}
		}
	case !u.proven, why == claims.Unknown, why == claims.Expired: // the Leave was lost, or came after the deadline
	case why == claims.Revoked && w.revoked, why == claims.Deleted && w.forgotten(h):
	default:
		w.fail(Unlock, "%v held %s to the end, and its Unlock says: %v", c, u.want.Name, why)
	}
}
