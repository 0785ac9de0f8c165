package claims

import (
	"context"
	"fmt"
	"slices"
	"time"

	"leasehold/engine"
)

// Steps: what can happen next in a world, and that it happens.

type op uint8

const (
	opEnter op = iota
	opQuit
	opCancelLost    // the maker's context ends: its Join did not arrive
	opCancelStray   // its Join will arrive
	opCancelArrived // its Join has arrived
	opUnlock
	opDetach
	opPoll // at a lease whose time is up: Lease.Valid
	opArrive
	opAnswer
	opFailLost  // an error is reported of a call that did not arrive
	opFailStray // of one that will arrive
	opFailArrived
	opTwice // a Join is sent twice: the second arrives later
	opRefuse
	opSlow
	opTimeOutLost
	opTimeOutStray
	opTimeOutArrived
	opStray
	opNotify
	opLose
	opLate
	opRepeat
	opSubscribe
	opInterrupt
	opPause
	opResume
	opTick
	opClose
	opRevoke
	opAdvance
	opChurn // callers take turns
	opRead  // a queue, by who looks for deadlocks
)

// step is one step: what happens to the i-th of what it is about, in a client.
type step struct {
	op        op
	client, i uint8
}

// steps is every step that can be taken now.
func (w *world) steps(to []step) []step {
	if w.broken != "" {
		return to
	}
	for ci, c := range w.clients {
		add := func(o op, i int) { to = append(to, step{o, uint8(ci), uint8(i)}) }
		w.stepsOfCallers(c, add)
		w.stepsOfCalls(c, add)
		w.stepsOfNotifications(c, add)
		w.stepsOfProcess(c, add)
	}
	for i := range w.strays {
		to = append(to, step{opStray, 0, uint8(i)})
	}
	for i := range w.names {
		if w.revokes > 0 && len(w.queues[i].Places) > 0 {
			to = append(to, step{opRevoke, 0, uint8(i)})
		}
	}
	if w.next() != never && w.idle() {
		to = append(to, step{op: opAdvance})
	}
	return to
}

func (w *world) stepsOfCallers(c *client, add func(op, int)) {
	if c.paused {
		return
	}
	for i, a := range c.actors {
		switch a.state {
		case away:
			if c.mayEnter(a) {
				add(opEnter, i)
			}
		case waits:
			// Who is in its own Join learns first how that ended.
			if a.mayQuit || w.quits > 0 && !slices.ContainsFunc(c.calls, func(q *call) bool { return q.maker == a.caller }) {
				add(opQuit, i)
			}
			if c.mayPoll(a) {
				add(opRead, i)
			}
		case holds:
			if a.Detached {
				if detached, reentered := a.lease.Detachable(); detached && !reentered && !a.lease.Over() && w.now < a.lease.Ends() {
					add(opDetach, i)
				}
			}
			if !a.lease.Over() && w.now >= a.lease.Ends() {
				add(opPoll, i)
			}
			add(opUnlock, i)
			if c.mayChurn(a) {
				add(opChurn, i)
			}
		}
	}
}

// mayEnter: of callers that are alike, the first that has not asked enters
// first, since it makes no difference.
func (c *client) mayEnter(a *actor) bool {
	if a.rounds == 0 || c.closed {
		return false
	}
	if a.inside > 0 {
		if o := c.actors[a.inside-1]; o.state != holds {
			return false
		}
	}
	for _, o := range c.actors[:a.index] {
		if o.callerSetup.Want == a.Want && o.inside == a.inside && o.state == away && o.rounds >= a.rounds {
			return false
		}
	}
	return true
}

func (w *world) stepsOfCalls(c *client, add func(op, int)) {
	fault := func(k faultKind) bool { return w.faults > 0 && w.setup.kinds&k != 0 }
	for i, q := range c.calls {
		if !q.arrived {
			if !(q.slow && w.now >= q.bound) {
				add(opArrive, i)
			}
			if q.act == Join && fault(straggle) {
				add(opTwice, i)
			}
		}
		if c.paused {
			continue
		}
		if q.arrived {
			add(opAnswer, i)
		}
		if q.maker != nil && w.quits > 0 {
			if q.arrived {
				add(opCancelArrived, i)
			} else {
				add(opCancelLost, i)
				add(opCancelStray, i)
			}
		}
		switch over := w.now >= q.bound; {
		case over && q.arrived:
			add(opTimeOutArrived, i)
		case over:
			add(opTimeOutLost, i)
			if w.setup.kinds&straggle != 0 {
				add(opTimeOutStray, i)
			}
		case q.arrived:
			if fault(loseAnswer) {
				add(opFailArrived, i)
			}
		default:
			if fault(loseRequest) {
				add(opFailLost, i)
			}
			if fault(straggle) {
				add(opFailStray, i)
			}
			if q.act == Join && fault(refuse) && !w.fate(q.request.ID).arrived && len(w.strays) == 0 {
				add(opRefuse, i)
			}
		}
		if !q.slow && fault(slow) {
			add(opSlow, i)
		}
	}
}

func (w *world) stepsOfNotifications(c *client, add func(op, int)) {
	if c.paused {
		return
	}
	fault := func(k faultKind) bool { return w.faults > 0 && w.setup.kinds&k != 0 }
	for i := range c.notifications {
		n := &c.notifications[i]
		add(opNotify, i)
		if n.begin {
			continue
		}
		if fault(loseNotification) {
			add(opLose, i)
		}
		if !n.late && fault(lateNotification) {
			add(opLate, i)
		}
		if fault(repeatNotification) {
			add(opRepeat, i)
		}
	}
}

func (w *world) stepsOfProcess(c *client, add func(op, int)) {
	fault := func(k faultKind) bool { return w.faults > 0 && w.setup.kinds&k != 0 }
	if c.paused {
		add(opResume, 0)
		return
	}
	if c.owesTick() {
		add(opTick, 0)
	}
	if !c.subscribed {
		add(opSubscribe, 0)
	} else if fault(interrupt) {
		add(opInterrupt, 0)
	}
	if fault(pause) && len(c.machine.claims) > 0 {
		add(opPause, 0)
	}
	if w.setup.closes && !c.closed {
		add(opClose, 0)
	}
}

// idle: nothing is to happen at this moment. Where calls are fast and nobody is
// paused, time passes only then.
func (w *world) idle() bool {
	for _, c := range w.clients {
		if c.paused {
			continue
		}
		if c.owesTick() {
			return false
		}
		for _, q := range c.calls {
			if !q.slow || w.now >= q.bound {
				return false
			}
		}
		for _, n := range c.notifications {
			if !n.late {
				return false
			}
		}
		for _, a := range c.actors {
			if a.mayQuit {
				return false
			}
		}
	}
	return true
}

// next is the next moment at which anything changes by itself.
func (w *world) next() time.Duration {
	t := never
	at := func(u time.Duration) {
		if u > w.now && u < t {
			t = u
		}
	}
	for i := range w.queues {
		for _, p := range w.queues[i].Places {
			at(p.Deadline)
		}
	}
	for _, c := range w.clients {
		if due, ok := c.machine.Due(); ok {
			at(due)
		}
		for _, cl := range c.machine.claims {
			if cl.phase.wanted() {
				at(cl.trustedUntil())
			}
			if cl.phase.open() && cl.callers.head != nil {
				at(cl.contention.alone + Believe)
				if cl.contention.budget >= 0 {
					at(cl.contention.since + HandoffTime)
				}
			}
		}
		for _, q := range c.calls {
			at(q.bound)
		}
	}
	return t
}

// take takes one step.
func (w *world) take(s step) {
	c := w.clients[s.client]
	i := int(s.i)
	text := ""
	if w.say != nil {
		text = w.describe(s)
		w.said = w.said[:0]
	}
	switch s.op {
	case opEnter:
		c.enter(c.actors[i])
	case opQuit:
		if a := c.actors[i]; !a.mayQuit {
			w.quits--
		}
		c.quit(c.actors[i])
	case opCancelLost, opCancelStray, opCancelArrived:
		w.quits--
		q := c.calls[i]
		w.unheard(q)
		if a := q.maker.Tag.(*actor); a.caller == q.maker && a.state == waits {
			a.mayQuit = true
		}
		if s.op == opCancelStray {
			w.straggle(q)
		}
		c.answer(q, context.Canceled)
	case opUnlock:
		c.unlock(c.actors[i])
	case opDetach:
		a := c.actors[i]
		a.state = away
		c.machine.Detach(w.now, a.lease)
		c.carryOut(nil)
	case opPoll:
		a := c.actors[i]
		c.machine.Expire(w.now, a.lease)
		c.carryOut(nil)
		if !a.lease.Over() {
			w.fail("%v looked at its lease, whose time is up, and goes on", a)
		}
	case opArrive:
		w.arrive(c.calls[i])
	case opAnswer:
		c.answer(c.calls[i], nil)
	case opFailLost, opFailStray, opFailArrived:
		w.faults--
		w.unheard(c.calls[i])
		if s.op == opFailStray {
			w.straggle(c.calls[i])
		}
		c.answer(c.calls[i], errReset)
	case opTwice:
		w.faults--
		w.straggle(c.calls[i])
	case opRefuse:
		w.faults--
		c.answer(c.calls[i], errTooMany)
	case opSlow:
		w.faults--
		c.calls[i].slow = true
	case opTimeOutLost, opTimeOutStray, opTimeOutArrived:
		w.unheard(c.calls[i])
		if s.op == opTimeOutStray {
			w.straggle(c.calls[i])
		}
		c.answer(c.calls[i], context.DeadlineExceeded)
	case opStray:
		q := w.strays[i]
		w.strays = slices.Delete(w.strays, i, i+1)
		w.unheard(q)
		w.arrive(q)
	case opNotify, opRepeat:
		n := c.notifications[i]
		if s.op == opNotify {
			c.notifications = slices.Delete(c.notifications, i, i+1)
		} else {
			w.faults--
			c.notifications[i].late = true
		}
		c.receive(n)
	case opLose:
		w.faults--
		w.fate(c.notifications[i].claim.ID).unheard = true
		c.notifications = slices.Delete(c.notifications, i, i+1)
	case opLate:
		w.faults--
		c.notifications[i].late = true
	case opInterrupt:
		w.faults--
		c.notifications = nil
		c.subscribed = false
	case opSubscribe:
		c.subscribed = true
		c.notifications = append(c.notifications, notified{begin: true})
	case opPause:
		w.faults--
		c.paused = true
	case opResume:
		c.paused = false
	case opTick:
		c.tick()
	case opClose:
		c.close()
	case opRevoke:
		w.revoke(i)
	case opAdvance:
		w.now = w.next()
		for _, c := range w.clients {
			for _, a := range c.actors {
				a.past = a.past || a.state == holds && w.now >= a.lease.Ends()
			}
		}
		for _, c := range w.clients {
			if !c.paused {
				c.tick()
			}
		}
	case opChurn:
		c.churn(c.actors[i])
	case opRead:
		c.poll(c.actors[i])
	}
	if w.say != nil {
		for n, s := range w.said {
			sep := "; "
			if n == 0 {
				sep = "  -> "
			}
			text += sep + s
		}
		w.say(text)
	}
}

// straggle leaves a copy of a request under way.
func (w *world) straggle(q *call) {
	o := *q
	o.slow, o.maker, o.lease, o.comer = true, nil, nil, nil
	w.strays = append(w.strays, &o)
}

func (c *client) receive(n notified) {
	if n.begin {
		c.machine.Began(c.w.now)
	} else {
		c.notified(n.claim)
		c.machine.Notified(c.w.now, n.claim)
	}
	c.carryOut(nil)
}

func (c *client) close() {
	c.closed, c.notifications = true, nil
	c.machine.Close(c.w.now)
	c.carryOut(nil)
	for _, a := range c.actors {
		if a.state == waits {
			c.w.fail("%v waits, and its client is closed", a)
		}
	}
}

// revoke ends the first claim of a queue.
func (w *world) revoke(i int) {
	w.revokes--
	l := &w.queues[i]
	p := l.Places[0]
	notifications, err := l.Revoke(w.now, w.names[i], p.Ticket, false)
	if err != nil && p.Deadline > w.now {
		w.fail("revoke: %v", err)
	}
	w.send(notifications)
}

func (c *client) mayChurn(a *actor) bool {
	return a.churns && !a.lease.Over() && c.w.now < a.lease.Ends() && a.caller.Lease.claim.phase == InUse
}

// churn has callers of one process take turns for as long as its claim is handed off:
// as many steps as one, or the bound of local handoff would never be reached.
func (c *client) churn(a *actor) {
	for n := 0; a.state == holds && n < HandoffBudget+2; n++ {
		next := &actor{callerSetup: a.callerSetup, client: c, index: a.index}
		next.rounds++ // each enters once
		c.actors[a.index] = next
		c.enter(next)
		c.unlock(a)
		if a.state != away {
			c.w.fail("%v churns: its Unlock waits", a)
			return
		}
		a = next
	}
}

// describe says what a step is, before it is taken.
func (w *world) describe(s step) string {
	c := w.clients[s.client]
	i := int(s.i)
	at := fmt.Sprintf("%+10v  ", w.now-start)
	switch s.op {
	case opEnter:
		a := c.actors[i]
		return at + fmt.Sprintf("%v enters%s", a, a.describe())
	case opQuit:
		return at + fmt.Sprintf("%v gives up", c.actors[i])
	case opCancelLost, opCancelStray, opCancelArrived:
		how := map[op]string{opCancelLost: "it does not arrive", opCancelStray: "it will arrive", opCancelArrived: "it has arrived"}[s.op]
		return at + fmt.Sprintf("%v's context ends under %v: %s", c.calls[i].maker.Tag, c.calls[i], how)
	case opUnlock:
		return at + fmt.Sprintf("%v unlocks", c.actors[i])
	case opDetach:
		return at + fmt.Sprintf("%v detaches", c.actors[i])
	case opPoll:
		return at + fmt.Sprintf("%v looks at its lease", c.actors[i])
	case opArrive:
		return at + fmt.Sprintf("%v: %v arrives", c, c.calls[i])
	case opAnswer:
		return at + fmt.Sprintf("%v: %v is answered", c, c.calls[i])
	case opFailLost, opFailStray, opFailArrived:
		how := map[op]string{opFailLost: "it does not arrive", opFailStray: "it will arrive", opFailArrived: "it has arrived"}[s.op]
		return at + fmt.Sprintf("%v: %v fails: %s", c, c.calls[i], how)
	case opTwice:
		return at + fmt.Sprintf("%v: %v is sent twice", c, c.calls[i])
	case opRefuse:
		return at + fmt.Sprintf("%v: %v is refused", c, c.calls[i])
	case opSlow:
		return at + fmt.Sprintf("%v: %v is slow", c, c.calls[i])
	case opTimeOutLost, opTimeOutStray, opTimeOutArrived:
		how := map[op]string{opTimeOutLost: "it does not arrive", opTimeOutStray: "it will arrive", opTimeOutArrived: "it has arrived"}[s.op]
		return at + fmt.Sprintf("%v: %v times out: %s", c, c.calls[i], how)
	case opStray:
		return at + fmt.Sprintf("%v arrives, late", w.strays[i])
	case opNotify, opLose, opLate, opRepeat:
		how := map[op]string{opNotify: "hears", opLose: "does not hear", opLate: "will hear late", opRepeat: "hears, and will again,"}[s.op]
		return at + fmt.Sprintf("%v %s %v", c, how, c.notifications[i])
	case opSubscribe:
		return at + fmt.Sprintf("%v's subscription begins", c)
	case opInterrupt:
		return at + fmt.Sprintf("%v's subscription breaks", c)
	case opPause:
		return at + fmt.Sprintf("%v is stopped", c)
	case opResume:
		return at + fmt.Sprintf("%v goes on", c)
	case opTick:
		return at + fmt.Sprintf("%v: tick", c)
	case opClose:
		return at + fmt.Sprintf("%v closes", c)
	case opRevoke:
		return at + fmt.Sprintf("the first claim of %q is revoked", w.names[i])
	case opAdvance:
		return at + fmt.Sprintf("time passes: %v", w.next()-w.now)
	case opChurn:
		return at + fmt.Sprintf("callers of %v take turns", c)
	case opRead:
		return at + fmt.Sprintf("%v looks for deadlocks, and reads a queue", c.actors[i])
	}
	return at + "?"
}

func (n notified) String() string {
	if n.begin {
		return "that its subscription began"
	}
	s := fmt.Sprintf("%s is %v", title(n.claim.ID), n.claim.State)
	if n.claim.Contended {
		s += ", contended"
	}
	if n.claim.Revoked {
		s += ", revoked"
	}
	return s
}

func (a *actor) describe() string {
	s := " for " + a.Name
	switch {
	case a.Permits == a.Limit:
	case a.Limit == engine.Max:
		s += ", shared"
	default:
		s += fmt.Sprintf(", %d of %d", a.Permits, a.Limit)
	}
	for _, o := range []struct {
		is   bool
		text string
	}{{a.NoWait, "no wait"}, {a.NoRenew, "no renew"}, {a.Detached, "detached"}, {a.Alone, "alone"}, {a.Reentrant, "reentrant"},
		{a.MinHold > 0, "min hold"}, {a.MaxHold > 0, "max hold"}} {
		if o.is {
			s += ", " + o.text
		}
	}
	if a.inside > 0 {
		s += fmt.Sprintf(", inside %v%d", a.client, a.inside)
	}
	return s
}
