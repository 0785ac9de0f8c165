package claims

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// From any state on, if nothing goes wrong any more, everybody who waits holds
// in time, every Unlock ends, and in the end nothing is left: in the machines,
// in the queues, on the way.

// manner is what callers and slow calls do from then on.
type manner string

const (
	none    manner = ""
	brisk   manner = "leases are unlocked at once, and what was slow is not any more"
	lasting manner = "leases are held for a while, and what was slow is never answered"
)

var manners = []manner{brisk, lasting}

const (
	holdFor    = 25 * time.Second // longer than any TTL: leases must be renewed
	settleTime = 5 * time.Minute  // virtual, in which all must be over
)

// settle goes on without faults until all is quiet.
func (w *world) settle(how manner) {
	w.faults, w.quits, w.revokes = 0, 0, 0
	begin, calls := w.now, w.calls
	most := 8 // calls a second
	if w.setup.unordered {
		most = 20 // who waits looks twice
	}
	safe := w.safeLeases(how)
	room := make([]time.Duration, len(w.names)) // since when each name has room
	for i := range room {
		room[i] = w.now
	}
	for w.broken == "" {
		if s, ok := w.calmly(how, begin); ok {
			w.take(s)
			for _, a := range safe {
				if a.lost {
					w.fail("%v's lease was lost although nothing went wrong", a)
				}
			}
			continue
		}
		w.check()
		w.checkForgotten(room)
		if w.over() {
			break
		}
		switch {
		case w.next() == never:
			w.fail("nothing happens any more, and not all is over: %s", w.rest())
		case w.now-begin > settleTime:
			w.fail("after %v not all is over: %s", w.now-begin, w.rest())
		case w.calls-calls > 50+most*int((w.now-begin)/time.Second):
			w.fail("%d calls were made in %v: %s", w.calls-calls, w.now-begin, w.rest())
		default:
			taken := make([]bool, len(w.names))
			for i, name := range w.names {
				taken[i] = w.taken(name)
			}
			w.take(step{op: opAdvance})
			for i := range taken {
				if taken[i] {
					room[i] = w.now
				}
			}
		}
	}
}

// calmly is what happens next at this moment, if anything does.
func (w *world) calmly(how manner, begin time.Duration) (step, bool) {
	for ci, c := range w.clients {
		do := func(o op, i int) (step, bool) { return step{o, uint8(ci), uint8(i)}, true }
		switch {
		case c.paused:
			return do(opResume, 0)
		case c.owesTick():
			return do(opTick, 0)
		case !c.subscribed && !c.closed:
			return do(opSubscribe, 0)
		case len(c.notifications) > 0:
			return do(opNotify, 0)
		}
		for i, q := range c.calls {
			switch {
			case q.slow && how == lasting:
				if w.now >= q.bound {
					if q.arrived {
						return do(opTimeOutArrived, i)
					}
					return do(opTimeOutLost, i)
				}
			case q.arrived:
				return do(opAnswer, i)
			case w.now >= q.bound && q.slow:
				return do(opTimeOutLost, i)
			default:
				return do(opArrive, i)
			}
		}
		for i, a := range c.actors {
			switch {
			case a.mayQuit:
				return do(opQuit, i)
			case c.pollCalmly(a):
				return do(opRead, i)
			case a.state == holds && !c.idleBusy(a) && (how == brisk || a.lost || w.now-max(begin, a.lease.HeldAt) >= holdFor):
				return do(opUnlock, i)
			}
		}
	}
	if len(w.strays) > 0 {
		return step{op: opStray}, true
	}
	return step{}, false
}

// safeLeases are those that must not be lost if nothing goes wrong any more:
// enough is left for a renewal, also after one that is never answered.
func (w *world) safeLeases(how manner) (safe []*actor) {
	for _, c := range w.clients {
		hung := 0
		for _, q := range c.calls {
			if q.slow && how == lasting || w.now >= q.bound {
				hung++
			}
		}
		for _, a := range c.actors {
			if a.state != holds || a.lease.Over() || a.NoRenew || a.MaxHold > 0 || a.lease.claim.maxHold > 0 || a.lease.claim.noRenew {
				continue
			}
			cl := a.lease.claim
			p := w.place(cl.Name(), cl.id)
			if hung <= 1 && !c.closed && p != nil && !p.Revoked && cl.trustedUntil()-w.now >= cl.granted*2/5 {
				safe = append(safe, a)
			}
		}
	}
	return safe
}

// checkForgotten: invariant 4. Nobody waits for more than about a second where
// there is room.
func (w *world) checkForgotten(room []time.Duration) {
	most := time.Second // between two looks at a claim that waits
	for _, c := range w.clients {
		for _, cl := range c.machine.claims {
			most = max(most, cl.waitTTL/3)
		}
	}
	for i, name := range w.names {
		if w.taken(name) {
			room[i] = w.now
			continue
		}
		for _, c := range w.clients {
			for _, a := range c.actors {
				if waited := w.now - room[i]; a.state == waits && a.Name == name && waited > most+time.Second {
					w.fail("%v was forgotten: it waits, and there was room for %v: %s", a, waited, w.rest())
				}
			}
		}
	}
}

// taken: somebody holds the name, or something holds it for nobody, or a call
// that is never answered has to be waited for.
func (w *world) taken(name string) bool {
	for _, c := range w.clients {
		if len(c.calls) > 0 {
			return true
		}
		for _, a := range c.actors {
			if a.Name == name && (a.state == holds || a.state == unlocks) {
				return true
			}
		}
	}
	for _, p := range w.line(name).Places {
		if !p.Held || p.Deadline <= w.now {
			continue
		}
		cl := w.clients[p.ID[0]-1].machine.claims[p.ID]
		if cl == nil || cl.users > 0 || cl.callers.current != cl || cl.callers.head == nil {
			return true
		}
	}
	return false
}

// over: nothing is left of anything.
func (w *world) over() bool {
	for _, c := range w.clients {
		for _, a := range c.actors {
			if a.state != away {
				return false
			}
		}
		if len(c.calls)+len(c.notifications) > 0 || !c.closed && len(c.machine.claims)+len(c.machine.callersOf)+len(c.machine.timers) > 0 {
			return false
		}
	}
	for i := range w.queues {
		if !w.queues[i].Empty(w.now) {
			return false
		}
	}
	return len(w.strays) == 0
}

// rest is what is left, for people.
func (w *world) rest() string {
	var left []string
	for _, c := range w.clients {
		for _, a := range c.actors {
			if a.state != away {
				left = append(left, fmt.Sprintf("%v %s", a, [...]string{"away", "comes", "waits", "holds", "unlocks"}[a.state]))
			}
		}
		for _, q := range c.calls {
			left = append(left, fmt.Sprintf("%v under way", q))
		}
		for _, cl := range c.machine.claims {
			left = append(left, fmt.Sprintf("%s is %v", title(cl.id), cl.phase))
		}
		if n := len(c.machine.callersOf); n > 0 {
			left = append(left, fmt.Sprintf("%v has %d queues", c, n))
		}
	}
	slices.Sort(left)
	for i, name := range w.names {
		for _, p := range w.queues[i].Places {
			left = append(left, fmt.Sprintf("%s stands in the queue of %q", title(p.ID), name))
		}
	}
	return strings.Join(left, ", ")
}

// watchPhases holds every change of a phase against Phase.follows, and has
// schedules show them.
func (w *world) watchPhases() {
	for _, c := range w.clients {
		c.machine.cfg.Trace = func(s Step) {
			if strings.Contains(s.Text, " -> ") && !arrows[s.Text] {
				w.fail("%v: a claim goes from %s, which is no arrow of Phase.follows", c, s.Text)
			}
		}
	}
}

// arrows is every change of a phase that there may be, as Step.Text has it.
var arrows = func() map[string]bool {
	all := map[string]bool{}
	for p := Joining; p <= Gone; p++ {
		for q := Joining; q <= Gone; q++ {
			if q.in(p.follows()) {
				all[fmt.Sprintf("%v -> %v", p, q)] = true
			}
		}
	}
	return all
}()
