package sim

import (
	"time"

	"leasehold/engine/queue"
)

// plan has a fault happen in its time, and end.
func (w *world) plan(f Fault) {
	if f.Kind == FailOver {
		var earlier []queue.Queue
		w.at(f.At-f.For, func() { earlier = w.store.snapshot() })
		w.at(f.At, func() {
			w.struck(f)
			w.store.restart(earlier)
		})
		return
	}
	w.at(f.At, func() {
		if f.Kind.ofEngine() {
			w.strikeEngine(f)
			return
		}
		for _, c := range w.clients {
			if c.number == f.Client {
				c.strike(f)
			}
		}
	})
}

func (w *world) struck(f Fault) {
	w.counts.Faults++
	w.counts.Struck[f.Kind]++
	w.note('!', f.Client, uint64(f.Kind))
	if w.tell == nil {
		return
	}
	text := "FAULT: " + f.Kind.String()
	if f.Kind.lasts() {
		text += " for " + f.For.String()
	}
	if !f.Kind.ofEngine() {
		w.say("%s of client %d", text, f.Client)
		return
	}
	w.say("%s", text)
}

func (w *world) strikeEngine(f Fault) {
	switch f.Kind {
	case Revoke:
		w.struck(f)
		w.store.revoke(w.lots[f.Name%len(w.lots)])
	case Forget:
		w.struck(f)
		w.store.restart(nil)
	case StepBack:
		w.struck(f)
		w.store.clock.stepBack(w.now, f.For)
		w.store.back = w.now
	case Down:
		if w.store.down {
			return
		}
		w.struck(f)
		w.store.down = true
		w.store.interrupt()
		w.at(w.now+f.For, w.store.up)
	}
}

// up: the engine answers again.
func (s *store) up() {
	if s.down {
		s.down, s.back = false, s.w.now
	}
}

func (c *client) strike(f Fault) {
	w := c.w
	if c.machine == nil || c.stopped {
		return
	}
	w.struck(f)
	c.disturb()
	switch f.Kind {
	case Cut, CutThere, CutBack:
		c.cut(f)
	case Interrupt:
		c.interrupt()
	case Stop, Suspend, Freeze:
		c.stop(f)
	case Kill:
		c.kill(f.For)
	case WallStep:
		c.machine.RenewAll(c.now())
		c.carryOut(nil)
	}
}

func (c *client) cut(f Fault) {
	there, back := 1, 1
	switch f.Kind {
	case CutThere:
		back = 0
	case CutBack:
		there = 0
	}
	c.there += there
	c.back += back
	c.interrupt()
	c.w.at(c.w.now+f.For, func() {
		if !c.w.settling { // settling has healed it
			c.there -= there
			c.back -= back
			c.disturb()
		}
	})
}

// stop stops the process: nothing happens in it until it goes on. Messages wait.
func (c *client) stop(f Fault) {
	c.stopped = true
	c.stops++
	stop, life := c.stops, c.life
	if f.Kind == Freeze {
		c.clock.freeze(c.w.now)
	}
	c.w.at(c.w.now+f.For, func() {
		if c.stops == stop && c.life == life {
			c.resume(f.Kind != Stop)
		}
	})
}

// resume goes on where the process stopped. Where its timers stopped too, the keeper
// wakes only after the time that it had still to sleep.
func (c *client) resume(timers bool) {
	if !c.stopped || c.machine == nil {
		return
	}
	c.stopped = false
	c.resumed = c.w.now
	c.disturb()
	if c.clock.frozen {
		c.clock.thaw(c.w.now)
	}
	c.w.say("%v goes on", c)
	c.wakes = never
	if timers {
		c.late = true
		c.wakeAt(c.w.now + upTo(c.net, latest))
	} else {
		c.wakeAt(c.w.now)
	}
	inbox := c.inbox
	c.inbox = nil
	for _, f := range inbox {
		f()
	}
}

// kill ends the process with all its callers. Another one takes its place after d.
func (c *client) kill(d time.Duration) {
	for _, u := range c.users {
		if u.hold != nil {
			u.lot.left(u.hold)
		}
		u.rest()
	}
	c.machine = nil
	c.inbox, c.stopped, c.subscribed, c.late, c.wakes = nil, false, false, false, never
	c.w.at(c.w.now+d, c.begin)
}
