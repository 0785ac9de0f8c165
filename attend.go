package leasehold

import (
	"context"

	"leasehold/engine"
)

// attend has the caller of l receive the note it waits for itself, where the
// engine can do that, nobody else of this client waits for one, and the client has
// few claims: a reader that serves many is better than many that take turns.
// Returning proves nothing.
func (k *core) attend(ctx context.Context, l *Lease) {
	if k.attender == nil || len(l.ready) > 0 {
		return
	}
	k.mu.Lock()
	ln := l.line
	l.attending = ln != nil && ln.head == l && ln.cur != nil && k.waitsAlone(ln.cur)
	attending := l.attending
	k.unlock()
	if !attending {
		return
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, k.attender.Interrupt)()
	}
	k.attender.Attend(func() bool { return len(l.ready) > 0 || ctx.Err() != nil })
}

// waitsAlone: cl waits, and no other claim of this client does. Called with mu
// held.
func (k *core) waitsAlone(cl *claim) bool {
	const few = 16 // to look at each costs less than one hop between goroutines
	if cl.joining || cl.state != engine.Waiting || len(k.claims) > few {
		return false
	}
	for _, other := range k.claims {
		if other != cl && !other.delivered && !other.leaving {
			return false
		}
	}
	return true
}

// answer has the caller of l go on. Called with mu held.
func (k *core) answer(l *Lease) {
	l.ready <- struct{}{} // capacity 1, sent once
	if l.attending {
		k.attender.Interrupt() // it looks at ready only when it is woken
	}
}
