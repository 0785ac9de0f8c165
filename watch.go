package leasehold

import (
	"time"

	"leasehold/engine"
)

// watch listens to the engine until Close.
func (k *core) watch() {
	for retries := 0; ; retries++ {
		err := k.eng.Watch(k.life, k.changed)
		if k.life.Err() != nil {
			return
		}
		k.mu.Lock()
		k.heard(err)
		k.unlock()
		select {
		case <-time.After(backoff(retries)):
		case <-k.life.Done():
			return
		}
	}
}

// changed takes in what Watch reports. It proves nothing about time: trust
// comes from the last answered Join or Renew.
func (k *core) changed(got engine.Claim) {
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return
	}
	if got.ID == (engine.ID{}) {
		// A subscription began: whatever was sent before may be lost, also to a
		// claim that is being asked for, whose answer is older. Holders look as
		// well: the server may have come back with nothing, and grant their names
		// to those who ask now. Who was just granted asks soon anyway.
		k.renewAll(func(cl *claim) bool { return !cl.delivered || cl.raised })
		return
	}
	cl := k.claims[got.ID]
	if cl == nil || cl.leaving || cl.lost || cl.stale(got.Ticket) {
		return
	}
	now := k.now()
	if got.Contended {
		k.contend(cl, now)
	}
	switch got.State {
	case engine.Gone:
		if cl.joining {
			cl.evicted = cl.evicted || got.Evicted // joined decides
			return
		}
		k.gone(cl, got, now)
	case engine.Waiting:
		// From an engine without order: a good moment to try.
		if !cl.delivered && cl.state != engine.Held {
			k.renewNow(cl, now)
		}
	case engine.Held:
		if cl.delivered {
			return
		}
		cl.reborn(got.Ticket)
		if cl.state == engine.Held {
			return
		}
		cl.state = engine.Held
		if cl.joining {
			return // heard before its Join was answered; that proves it
		}
		cl.renewAt = min(cl.renewAt, now+min(raiseAfter, cl.req.WaitTTL/3))
		k.schedule(cl)
		k.join(k.pump(cl.line, false, now))
	}
}

// contend notes that somebody waits behind cl.
func (k *core) contend(cl *claim, at time.Duration) {
	cl.contended, cl.heard = true, max(cl.heard, at)
	cl.tellContended()
	if cl.users == 0 && cl.keptTill != 0 && !cl.linger {
		k.giveBack(cl, at) // kept for nobody while somebody wants it
	}
}

// giveBack ends the keeping of a claim that no lease needs. If local callers
// came for it meanwhile (and wait for it to be renewed), it is theirs, by the
// rules of lending.
func (k *core) giveBack(cl *claim, now time.Duration) {
	if cl.line.cur == cl && cl.line.head != nil {
		cl.keptTill = 0
		return
	}
	k.leaveLater(cl, now)
}
