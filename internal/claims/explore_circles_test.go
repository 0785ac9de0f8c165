package claims

import (
	"leasehold/engine"
	"leasehold/internal/circle"
)

// Worlds with circles: callers who wait while they hold something look for
// deadlocks, one line at a time, at any moment, and a victim gives up.

// lookout is a look under way.
type lookout struct {
	*circle.Search
	keys  []circle.Key  // to be read
	read  []engine.Line // by it so far
	again bool
	was   bool // there was a circle when the first pass ended
}

// mayLook: as in the shell, who waits in a line of its own and holds something.
func (c *client) mayLook(a *actor) bool {
	if !c.w.setup.circles || a.state != waits || a.inside == 0 {
		return false
	}
	_, waits := c.machine.Place(a.caller)
	return waits
}

// look reads one line more.
func (c *client) look(a *actor) {
	w := c.w
	if a.lookout == nil {
		ticket, _ := c.machine.Place(a.caller)
		a.lookout = &lookout{Search: circle.New(1, circle.Key{Name: a.Name}, ticket)}
		a.lookout.keys = a.lookout.Next()
	}
	s := a.lookout
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
	case v != circle.Victim:
		a.lookout, a.looked = nil, w.now
		w.note("%v", v)
	case !s.again:
		s.again, s.was = true, w.inCircle(a)
		s.Search = s.Again()
		s.keys = s.Next()
		w.note("%v, once", v)
	default:
		w.note("%v", v)
		if !s.was {
			w.fail("%v is the victim of a circle that never was", a)
		}
		c.quit(a)
	}
}

// inCircle: a waits behind a claim whose owner waits for what a holds. The lines
// alone are asked, in worlds where no circle is longer.
func (w *world) inCircle(a *actor) bool {
	mine := engine.Hold{Name: a.lease.Outer.claim.Name(), Ticket: a.lease.Outer.claim.ticket}
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

// lookCalmly is whose look goes on, if one does: each looks once at a time.
func (c *client) lookCalmly(a *actor) bool {
	return c.mayLook(a) && (a.lookout != nil || a.looked < c.w.now)
}

// keptBusy: a caller waits under a's lease, and is taken to keep it until then.
func (c *client) keptBusy(a *actor) bool {
	for _, o := range c.actors {
		if c.w.setup.circles && o.state == waits && o.inside == a.index+1 {
			return true
		}
	}
	return false
}

func (p *printer) lookout(s *lookout) {
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

// circles has callers of two clients ask for two names, in opposite order.
func circles(mode func(string) callerSetup) []clientSetup {
	return clients(of(mode("x"), inside(1, lock("y"))), of(mode("y"), inside(1, lock("x"))))
}
