package claims

import (
	"time"

	"leasehold/engine"
)

// Note is what the engine told of one claim. It proves nothing about time:
// trust comes from the last answered Join or Renew.
func (m *Machine) Note(now time.Duration, got engine.Claim) {
	cl := m.claims[got.ID]
	if cl == nil || m.closed || cl.stale(got.Ticket) {
		return
	}
	m.traceInput(now, "note", cl.Name(), got.Ticket)
	switch {
	case cl.phase.unanswered():
		m.noteUnanswered(now, cl, got)
		return
	case !cl.phase.wanted():
		return
	}
	if got.Contended && got.State != engine.Gone {
		m.contend(now, now, cl)
	}
	switch {
	case got.State == engine.Gone:
		m.gone(now, cl, got)
	case got.State == engine.Waiting && cl.phase == Waiting:
		m.renewNow(now, cl) // from an engine without order: a good moment to try
	case got.State == engine.Held && cl.phase == Waiting:
		cl.reborn(got.Ticket)
		m.ready(now, cl)
		cl.next = min(cl.next, now+min(RaiseAfter, cl.waitTTL/3))
		m.schedule(cl)
		m.advance(now, cl.queue, false)
	}
}

// noteUnanswered keeps what was told of a claim whose Join was not answered,
// for the answer.
func (m *Machine) noteUnanswered(now time.Duration, cl *Claim, got engine.Claim) {
	switch {
	case got.State == engine.Gone:
		cl.heardEvicted = cl.heardEvicted || got.Evicted
	case got.State == engine.Held:
		cl.reborn(got.Ticket)
		cl.heardHeld = true
	case got.State == engine.Waiting:
		cl.heardBegin = true // a good moment to try may be over before the answer
	}
	if got.Contended {
		cl.contention.yes, cl.contention.heard = true, now
	}
}

// Deaf: the engine does not tell anything at the moment, because of err.
func (m *Machine) Deaf(now time.Duration, err error) {
	m.traceInput(now, "deaf", "", 0)
	m.answered(now, err)
}

// Began: a subscription to notes began. What was sent before may be lost, so
// every claim is looked at, also those whose Join is under way: their place may
// have become held before anybody listened.
func (m *Machine) Began(now time.Duration) {
	m.traceInput(now, "subscription began", "", 0)
	for _, cl := range m.claims {
		switch {
		case cl.phase.unanswered():
			cl.heardBegin = true
		case cl.phase.wanted():
			m.renewNow(now, cl)
		}
	}
}
