package linestore

import (
	"context"
	"sync"

	"leasehold/engine"
)

// maxMail bounds what is kept for a Watch that does not come. Beyond it notes
// are dropped, as rule 6 allows, and the next one begins with "look at
// everything".
const maxMail = 1024

// mailbox is what Watch has not reported yet.
type mailbox struct {
	wake chan struct{} // capacity 1: mail, or a new Watch, is there

	mu    sync.Mutex
	notes []engine.Claim
	all   bool // look at everything
}

// Watch implements [engine.Engine].
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	m := &e.mail
	var notes []engine.Claim
	for {
		m.mu.Lock()
		notes, m.notes = m.notes, notes[:0]
		all := m.all
		m.all = false
		m.mu.Unlock()
		for _, c := range notes {
			changed(c)
		}
		if all {
			changed(engine.Claim{})
		}
		if all || len(notes) > 0 {
			continue
		}
		select {
		case <-m.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.end.Done():
			return engine.ErrClosed
		}
	}
}

// Post takes a note that another client's Tell has sent to this one. It does
// not block, and may be called at any time.
func (e *Engine) Post(note engine.Claim) {
	if note.State == engine.Unknown { // see rearm
		e.lookSoon(note.Name)
		return
	}
	m := &e.mail
	m.mu.Lock()
	if len(m.notes) < maxMail {
		m.notes = append(m.notes, note)
	} else {
		m.all = true
	}
	m.mu.Unlock()
	m.ring()
}

// PostAll says that notes may have been lost: after a subscription began again,
// say. Watch then has everything looked at. It does not block, and may be
// called at any time.
func (e *Engine) PostAll() {
	m := &e.mail
	m.mu.Lock()
	m.all = true
	m.mu.Unlock()
	m.ring()
}

func (m *mailbox) ring() {
	select {
	case m.wake <- struct{}{}:
	default: // awake already
	}
}
