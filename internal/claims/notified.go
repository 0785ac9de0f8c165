package claims

import (
	"time"

	"leasehold/engine"
)

// Notification is what the engine told of one claim. It proves nothing about time:
// trust comes from the last answered Join or Renew.
func (m *Machine) Notified(now time.Duration, got engine.Claim) {
	cl := m.claims[got.ID]
	if cl == nil || m.closed || cl.stale(got.Ticket) {
		return
	}
	m.traceInput(now, "notified", cl.Name(), got.Ticket)
	switch {
	case cl.phase.unanswered():
		m.recordUnanswered(now, cl, got)
		return
	case !cl.phase.wanted():
		return
	}
	if got.Contended && got.State != engine.Gone {
		cl.contention.yes, cl.contention.received = true, now
		m.contend(now, cl)
	}
	switch {
	case got.State == engine.Gone:
		m.gone(now, cl, got)
	case cl.phase == Waiting && m.goodMoment(got):
		m.renewNow(cl)
	case got.State == engine.Held && cl.phase == Waiting:
		cl.reborn(got.Ticket)
		m.ready(now, cl)
		cl.sent = 0 // that call asked for what waits
		m.schedule(cl)
		m.advance(now, cl.callers, false)
	}
}

// goodMoment: an engine without order says when to try. Nothing becomes held there by
// itself: that a claim holds is said of an arrival of its Join that was not answered,
// and may have expired since.
func (m *Machine) goodMoment(got engine.Claim) bool {
	return got.State == engine.Waiting || got.State == engine.Held && m.cfg.Unordered
}

// recordUnanswered keeps what was told of a claim whose Join was not answered,
// for the answer.
func (m *Machine) recordUnanswered(now time.Duration, cl *Claim, got engine.Claim) {
	switch {
	case got.State == engine.Gone:
		cl.receivedRevoked = cl.receivedRevoked || got.Revoked
	case m.goodMoment(got):
		m.renewNow(cl) // after the call began
	case got.State == engine.Held:
		cl.reborn(got.Ticket)
		cl.receivedHeld = true
	}
	if got.Contended {
		cl.contention.yes, cl.contention.received = true, now
	}
}

// Answered: a call that was of no claim here was answered, or was not. That
// includes Watch, which a refusal ends as well: nothing is heard then.
func (m *Machine) Answered(now time.Duration, err error) {
	m.traceInput(now, "answered", "", 0)
	m.reached(now, err == nil, err)
}

// Began: a subscription to notifications began. What was sent before may be lost, so
// every claim is looked at, also those whose Join is under way: their place may
// have become held before anybody listened. So are holders: the server may have
// come back with nothing, and grant their names to those who ask now. Who was
// just granted asks soon anyway.
func (m *Machine) Began(now time.Duration) {
	m.traceInput(now, "subscription began", "", 0)
	for _, cl := range m.claims {
		if cl.phase.unanswered() || cl.phase.wanted() && (cl.raised || !cl.phase.used()) {
			m.renewNow(cl)
		}
	}
}
