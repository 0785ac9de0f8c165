package claims

import (
	"leasehold/engine"
	"leasehold/internal/deadlock"
)

// Worlds with cycles: callers who wait while they hold something look for
// deadlocks, one queue at a time, at any moment, and a victim gives up.

// detector is a look under way.
type detector struct {
	*deadlock.Search
	keys  []deadlock.Key // to be read
	read  []engine.Queue // by it so far
	again bool
	was   bool // there was a cycle when the first pass ended
}

// mayPoll: as in the shell, who waits in a queue of its own and holds something.
func (c *client) mayPoll(a *actor) bool {
	if !c.w.setup.cycles || a.state != waits || a.inside == 0 {
		return false
	}
	_, waits := c.machine.Place(a.caller)
	return waits
}

// look reads one queue more.
func (c *client) poll(a *actor) {
	w := c.w
	if a.detector == nil {
		ticket, _ := c.machine.Place(a.caller)
		a.detector = &detector{Search: deadlock.New(1, deadlock.Key{Name: a.Name}, ticket)}
		a.detector.keys = a.detector.Next()
	}
	s := a.detector
	name := s.keys[0].Name
	s.read = append(s.read, w.line(name).View(w.now, name))
	s.Read(s.keys[0], s.read[len(s.read)-1])
	if s.keys = s.keys[1:]; len(s.keys) == 0 {
		s.keys = s.Next()
	}
	if len(s.keys) > 0 {
		return
	}
	switch v := s.Verdict(); {
	case v != deadlock.Victim:
		a.detector, a.looked = nil, w.now
		w.notified("%v", v)
	case !s.again:
		s.again, s.was = true, w.inCycle(a)
		s.Search = s.Again()
		s.keys = s.Next()
		w.notified("%v, once", v)
	default:
		w.notified("%v", v)
		if !s.was {
			w.fail("%v is the victim of a cycle that never was", a)
		}
		c.quit(a)
	}
}

// inCycle: a waits behind a claim whose owner waits for what a holds. The queues
// alone are asked, in worlds where no cycle is longer.
func (w *world) inCycle(a *actor) bool {
	mine := engine.Hold{Name: a.lease.Outer.Lease.claim.Name(), Ticket: a.lease.Outer.Lease.claim.ticket}
	behind := func(h engine.Hold) bool { // somebody holds it
		for _, p := range w.line(h.Name).Places {
			if p.Ticket == h.Ticket && p.Held && p.Deadline > w.now {
				return true
			}
		}
		return false
	}
	for _, p := range w.line(mine.Name).Places {
		if p.Held || p.Deadline <= w.now {
			continue
		}
		for _, theirs := range engine.ParseOwner(p.Owner).Holds {
			if theirs.Name == a.Name && behind(mine) && behind(theirs) {
				return true
			}
		}
	}
	return false
}

// pollCalmly is whose look goes on, if one does: each looks once at a time.
func (c *client) pollCalmly(a *actor) bool {
	return c.mayPoll(a) && (a.detector != nil || a.looked < c.w.now)
}

// idleBusy: a caller waits under a's lease, and is taken to keep it until then.
func (c *client) idleBusy(a *actor) bool {
	for _, o := range c.actors {
		if c.w.setup.cycles && o.state == waits && o.inside == a.index+1 {
			return true
		}
	}
	return false
}

func (p *printer) detector(s *detector) {
	if s == nil {
		p.num(-1)
		return
	}
	p.bools(s.again, s.was)
	p.num(len(s.keys), len(s.read))
	for _, l := range s.read {
		p.num(p.w.nameIndex(l.Name), len(l.Claims))
		for _, c := range l.Claims {
			p.ticket(l.Name, c.Ticket)
			p.num(int(c.State))
			p.holds(c.Owner)
		}
	}
}

func (p *printer) holds(o engine.Owner) {
	for _, h := range o.Holds {
		p.ticket(h.Name, h.Ticket)
	}
}

// cycles has callers of two clients ask for two names, in opposite order.
func cycles(mode func(string) callerSetup) []clientSetup {
	return clients(of(mode("x"), inside(1, lock("y"))), of(mode("y"), inside(1, lock("x"))))
}
