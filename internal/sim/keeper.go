package sim

import (
	"time"

	"leasehold/engine"
)

// tick is the keeper: it tells the machine that time passes.
func (c *client) tick() {
	c.wakes = never
	c.machine.Tick(c.now())
	c.carryOut(nil)
}

// plan has the keeper wake when the machine wants it.
func (c *client) plan() {
	due, ok := c.machine.Due()
	if !ok || c.late {
		return
	}
	if at := max(c.w.now, c.clock.when(due)); at < c.wakes {
		c.wakeAt(at)
	}
}

func (c *client) wakeAt(at time.Duration) {
	c.wakes = at
	c.oversees++
	plan, life := c.oversees, c.life
	c.w.at(at, func() {
		if c.oversees != plan || c.life != life || c.machine == nil || c.stopped {
			return // resume goes on
		}
		c.late = false
		c.tick()
	})
}

// subscribe begins a subscription, some time from now: what was sent before is lost.
func (c *client) subscribe() {
	if c.w.Policy == Polls || c.w.Policy == NoOrder {
		c.subscribed = true
		return
	}
	c.later(25*time.Millisecond+upTo(c.net, 500*time.Millisecond), func() {
		if c.subscribed {
			return
		}
		if c.there+c.back > 0 || c.w.store.down {
			c.machine.Answered(c.now(), errDown)
			c.carryOut(nil)
			c.subscribe()
			return
		}
		c.subscribed = true
		c.disturb()
		c.w.say("the subscription of %v begins", c)
		c.machine.Began(c.now())
		c.carryOut(nil)
	})
}

// interrupt breaks the subscription.
func (c *client) interrupt() {
	c.disturb()
	if c.machine != nil && c.subscribed {
		c.subscribed = false
		c.subscribe()
	}
}

func (c *client) notified(claim engine.Claim) {
	c.w.note('n', c.number, claim.Ticket<<3|uint64(claim.State))
	if c.w.tell != nil {
		text := claim.State.String()
		if claim.Contended {
			text += ", and contended"
		}
		c.w.say("%v is notified: ticket %s of %s is %s", c, short(claim.Ticket), claim.Name, text)
	}
	c.machine.Notified(c.now(), claim)
	c.carryOut(nil)
}
