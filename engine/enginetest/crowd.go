package enginetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"leasehold/engine"
)

func crowded() promise {
	return promise{"a crowd", "hundreds of claims wait for one name and all become held, in order if the engine keeps one; the requests grow with their number", []kase{
		{"everybody in a crowd joins and holds in turn", func(t *trial) {
			t.needsMode(engine.Exclusive)
			t.gather(t.h.Crowd, true)
		}},
		{"the cost of each claim in a crowd does not grow with the crowd", func(t *trial) {
			t.needsMode(engine.Exclusive)
			if t.h.CountRequests == nil {
				t.notExercised("CountRequests")
			}
			t.needsFIFO()
			t.needsNotifications()
			whole := true
			cost := func(each int) int {
				before := t.h.CountRequests(t.TB)
				whole = t.gather(each, false) && whole
				return t.h.CountRequests(t.TB) - before
			}
			cost(3) // what is done once is paid for
			few, many := cost(t.h.Crowd/4), cost(t.h.Crowd)
			// Four times as many; half as much again is left to chance. Where a notification
			// was lost there is nothing to compare, and that is another promise.
			if whole && many > 6*few {
				t.Fatalf("%d waiters cost %d requests, four times as many cost %d", 3*(t.h.Crowd/4), few, many)
			}
		}},
	}}
}

// gather has three clients wait for one name with so many claims each, until
// all have held. Without floor they rely on notifications and on what the engine advises;
// it reports whether that was enough.
func (t *trial) gather(each int, highWater bool) bool {
	name := t.name()
	door := t.client()
	first := door.hold(t.exclusive(name))
	crowd := &crowd{t: t, highWater: highWater}
	var joined, all sync.WaitGroup
	joined.Add(3)
	for range 3 {
		a := t.client()
		all.Go(func() { crowd.stand(a, name, each, &joined) })
	}
	joined.Wait()
	other := door.hold(t.exclusive(t.name())) // another name goes on beside it
	crowd.turn(first.Ticket)
	door.leave(first)
	all.Wait()
	door.is(other, engine.Held, "a crowd waited for another name")
	door.leave(other)
	if len(crowd.wrong) > 0 {
		t.Fatalf("%d waiters on one name: %s", 3*each, crowd.wrong[0])
	}
	return !crowd.idle
}

// place is one claim that waits, with the ticket that its Join got.
type place struct {
	ticket uint64
	due    time.Time // when it is asked again, if nothing is heard
}

// crowd is what all its clients know.
type crowd struct {
	t         *trial
	highWater bool

	mu     sync.Mutex
	wrong  []string
	idle   bool      // nobody held for long
	last   uint64    // ticket of who held last
	turned time.Time // when somebody held last; zero: not all have joined
}

func (w *crowd) failed(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// stand is one client's part. It ends no case.
func (w *crowd) stand(a *client, name string, each int, joined *sync.WaitGroup) {
	t := w.t
	waiting := map[engine.ID]place{}
	pause := min(4*time.Second, t.h.Patience/2)
	for n := range each {
		c, err := a.Join(t.ctx(), t.exclusive(name))
		if err != nil || c.State != engine.Waiting {
			w.failed("the name is held and a Join, the %d. of a client, says %v, %v", n+1, c.State, err)
			break
		}
		waiting[c.ID] = place{c.Ticket, w.later(c, pause)}
	}
	joined.Done()
	joined.Wait()
	for read := 0; len(waiting) > 0 && !w.stuck(len(waiting)); {
		a.mu.Lock()
		notifications, more := slices.Clone(a.notifications[read:]), a.more
		a.mu.Unlock()
		read += len(notifications)
		next, now := time.Now().Add(time.Second), time.Now()
		for _, n := range notifications {
			if p, mine := waiting[n.ID]; mine && (n.State == engine.Held || n.State == engine.Waiting) {
				waiting[n.ID] = place{p.ticket, now}
			}
		}
		var due []engine.Claim
		for id, p := range waiting {
			if p.due.After(now) {
				next = earlier(next, p.due)
				continue
			}
			due = append(due, engine.Claim{Name: name, ID: id})
		}
		if len(due) > 0 {
			notified := slices.ContainsFunc(notifications, func(n engine.Claim) bool { return n.State != engine.Gone })
			if held := w.renew(a, waiting, due, pause); held && !notified {
				pause = 20 * time.Millisecond // notifications get lost
			}
			continue
		}
		select {
		case <-more:
		case <-time.After(time.Until(next)):
		}
	}
	for id := range waiting {
		a.gone(engine.Claim{Name: name, ID: id})
	}
}

// later is when a waiting claim is asked again if nothing is heard: as the core
// does it.
func (w *crowd) later(c engine.Claim, pause time.Duration) time.Time {
	switch {
	case c.PollAfter > 0:
		return time.Now().Add(min(c.PollAfter, time.Second))
	case !w.highWater:
		return time.Now().Add(time.Hour)
	}
	return time.Now().Add(pause)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// renew asks what became of claims, lets go of what is held, and reports whether
// there was any.
func (w *crowd) renew(a *client, waiting map[engine.ID]place, cs []engine.Claim, pause time.Duration) (held bool) {
	var got []engine.Claim
	var err error
	if w.t.g.Order == engine.OrderNone {
		for _, one := range cs {
			c, failed := a.pollAfter(w.t.ctx(), one)
			if failed == nil {
				got = append(got, c)
			} else {
				err = failed
			}
		}
	} else {
		got, err = a.Renew(w.t.ctx(), w.t.renewals(cs...))
	}
	if err != nil { // nothing was learned of what is missing
		time.Sleep(time.Millisecond)
	}
	for _, c := range got {
		switch c.State {
		case engine.Waiting:
			waiting[c.ID] = place{waiting[c.ID].ticket, w.later(c, pause)}
		case engine.Held:
			held = true
			w.turn(waiting[c.ID].ticket)
			delete(waiting, c.ID)
			a.gone(c)
		case engine.Gone:
			delete(waiting, c.ID)
			w.failed("a claim that waited is gone")
		}
	}
	return held
}

// turn records who holds.
func (w *crowd) turn(ticket uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t.g.Order == engine.FIFO && ticket <= w.last {
		w.wrong = append(w.wrong, fmt.Sprintf("the claim with ticket %d held after the one with %d", ticket, w.last))
	}
	w.last, w.turned = ticket, time.Now()
}

// stuck: it makes no sense to go on. Somebody waits and nobody has held for long,
// or something is wrong.
func (w *crowd) stuck(waiting int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.idle && !w.turned.IsZero() && time.Since(w.turned) > w.t.h.Patience {
		w.idle = true
		if w.highWater {
			w.wrong = append(w.wrong, fmt.Sprintf("nobody held for %v, and one client has %d that wait", w.t.h.Patience, waiting))
		}
	}
	return w.idle || len(w.wrong) > 0
}
