package leasehold

import (
	"context"

	"leasehold/engine"
)

// attend has the caller of l receive what its claim waits for, where the engine
// can do that.
func (k *core) attend(ctx context.Context, l *Lease) {
	if k.attender == nil || len(l.ready) > 0 {
		return
	}
	k.mu.Lock()
	ln := l.line
	ok := ln != nil && ln.head == l && ln.cur != nil && !ln.cur.joining && ln.cur.state == engine.Waiting && k.alone(ln.cur)
	l.attending = ok
	k.unlock()
	if !ok {
		return
	}
	if ctx.Done() != nil {
		defer context.AfterFunc(ctx, k.attender.Interrupt)()
	}
	k.attender.Attend(func() bool { return len(l.ready) > 0 || ctx.Err() != nil })
}

// wake has the caller of l go on.
func (k *core) wake(l *Lease) {
	l.ready <- struct{}{} // capacity 1, sent once
	if l.attending {
		k.attender.Interrupt()
	}
}

// alone: nobody else in this client waits for anything.
func (k *core) alone(cl *claim) bool {
	if len(k.claims) > 16 {
		return false
	}
	for _, other := range k.claims {
		if other != cl && !other.delivered && !other.leaving {
			return false
		}
	}
	return true
}
