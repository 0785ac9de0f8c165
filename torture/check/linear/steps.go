package linear

import (
	"slices"

	"leasehold/engine"
)

// inSteps is what Declares.CrashRelease says of an engine whose calls may be several steps of
// its store.
//
// A claim of such an engine has its place from one moment, and the state in an answer is that
// of a later one, before the answer. A NoWait that is refused stands in the queue meanwhile,
// and others may see it. Leave returns what its client knew of the claim.
//
// So these answers are right besides those of one step. A Join is answered Held if its claim
// holds before the answer, and Gone if somebody has revoked it before that. A claim is said to
// wait, or a NoWait is refused, although the name has become free. Leave does not know that the
// claim was promoted or marked, and says anything of one whose Join was never answered.
//
// A caller may give a Join up after its claim took its place and before the engine has judged
// it. Such a claim may stand although its Join would have been refused:
//
//   - A NoWait may wait, until a repeated Join is refused.
//   - One with another limit than the queue's may stand in it, and wait, until it is left. Nobody
//     passes it meanwhile, which is seen as waiting alone.
//
// Where clients disagree about a limit, a refused Join may have ended the claim that it was to
// replace.
const inSteps = "session"

// says is whether the claim of c, which is in the state got, may be said to be in that of the
// answer. there says that it was in the queue before.
func (n *name) says(w *world, i int, got engine.State, there bool) bool {
	c := &n.calls[i]
	if said := c.got.State; got.String() == said || !n.steps {
		return got.String() == said
	}
	switch {
	case c.ask.Method == leave:
		untold := len(n.tickets[c.claim]) == 0
		return there && (c.got.State == waiting || got == engine.Gone || untold)
	case c.got.State == waiting:
		return got == engine.Held
	case !there && (c.got.State == held && got == engine.Waiting || c.got.Revoked):
		w.owed = append(w.owed, i)
		slices.Sort(w.owed)
		return true
	}
	return false
}

// refuses is whether the Join c may leave the queue as it is, although its claim could stand
// in it. Every engine may remember that a claim was revoked, and tell who joins once more. Of
// an engine without order nobody knows who comes next: of two who ask several servers at once
// both may be refused.
func (n *name) refuses(w *world, c *call) bool {
	revoked := c.got.Revoked && c.got.Ticket <= w.queue.Last
	return c.got.State == gone && (revoked || c.ask.NoWait && (n.steps || n.forgets))
}

// withdraws is whether the Join c is a NoWait that finds its claim waiting, by a call that was
// given up, and takes it out of the queue. One that holds is not refused.
func (n *name) withdraws(w *world, c *call) bool {
	return c.got.State == gone && !c.got.Revoked && n.mayWithdraw(w, c)
}

// mayWithdraw is withdraws for a call whose answer is not known.
func (n *name) mayWithdraw(w *world, c *call) bool {
	p := w.place(c.claim)
	return n.steps && c.ask.Method == join && c.ask.NoWait && p != nil && !p.Held
}

// misfit is the lost Join of the claim of c, which may stand although the queue has another
// limit, or -1.
func (n *name) misfit(w *world, c *call) int {
	if !n.steps || len(w.queue.Places) == 0 {
		return -1
	}
	for _, i := range w.pending {
		if o := &n.calls[i]; o.ask.Method == join && o.claim == c.claim && o.limit != w.queue.Limit {
			return i
		}
	}
	return -1
}

// disagree is whether there is another limit among the calls of the name.
func (n *name) disagree(c *call) bool {
	return slices.ContainsFunc(n.calls, func(o call) bool { return o.ask.Method == join && o.limit != c.limit })
}

// replacedInVain is the world after a Join was refused and the claim ended that it was to
// replace: nil if that cannot be.
func (n *name) replacedInVain(w *world, c *call) *world {
	if !n.steps || c.replaces == 0 || w.place(c.replaces) == nil || !n.disagree(c) {
		return nil
	}
	return w.end(c.replaces)
}

// due is what w becomes at an event if all calls that were answered before it were answered
// as they were: the claims of those that are owed hold by then, or were revoked. It reports
// whether there are too many possibilities.
func (n *name) due(w *world, event int) (all []*world, tooMany bool) {
	at := slices.IndexFunc(w.owed, func(i int) bool { return n.calls[i].answer < event })
	if at < 0 {
		return []*world{w}, false
	}
	c := &n.calls[w.owed[at]]
	open := n.open(w, c)
	if open == nil {
		return nil, true
	}
	for _, v := range open {
		if v = n.paid(v); slices.Contains(v.owed, w.owed[at]) || c.end < v.now {
			continue
		}
		more, many := n.due(v, event)
		if many {
			return nil, true
		}
		all = append(all, more...)
	}
	return all, false
}

// paid is the world without the calls that are not owed any more.
func (n *name) paid(w *world) *world {
	if len(w.owed) == 0 {
		return w
	}
	w = w.clone()
	w.owed = slices.DeleteFunc(w.owed, func(i int) bool {
		c := &n.calls[i]
		p := w.place(c.claim)
		return p != nil && p.Held && c.got.State == held || (p == nil || p.Revoked) && c.got.State == gone
	})
	return w
}
