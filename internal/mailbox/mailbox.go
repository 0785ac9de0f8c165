// Package mailbox keeps an engine's notifications until its Watch reports them. It
// promises that posting never blocks, and that changed is called from the goroutine of
// Deliver alone. It keeps a bounded number. Beyond that it has every claim checked, which
// rule 6 of package engine allows.
package mailbox

import (
	"context"
	"sync"

	"leasehold/engine"
)

// most bounds the notifications kept for a Watch that does not come.
const most = 1024

// Box is one client's mail. Make one with New.
type Box struct {
	wake chan struct{} // capacity 1: mail is there

	mu            sync.Mutex
	notifications []engine.Claim
	all           bool // look at everything
}

// New makes an empty box.
func New() *Box { return &Box{wake: make(chan struct{}, 1)} }

// Post keeps a notification. It may be called at any time.
func (b *Box) Post(notification engine.Claim) {
	b.mu.Lock()
	if len(b.notifications) < most {
		b.notifications = append(b.notifications, notification)
	} else {
		b.all = true
	}
	b.mu.Unlock()
	b.ring()
}

// PostAll says that notifications may have been lost: everything is to be looked at. It
// may be called at any time.
func (b *Box) PostAll() {
	b.mu.Lock()
	b.all = true
	b.mu.Unlock()
	b.ring()
}

func (b *Box) ring() {
	select {
	case b.wake <- struct{}{}:
	default: // awake already
	}
}

// Deliver reports what is posted, until ctx or the engine's life ends: ctx's
// error or [engine.ErrClosed].
func (b *Box) Deliver(ctx context.Context, closed <-chan struct{}, changed func(engine.Claim)) error {
	var notifications []engine.Claim
	for {
		b.mu.Lock()
		notifications, b.notifications = b.notifications, notifications[:0]
		all := b.all
		b.all = false
		b.mu.Unlock()
		for _, c := range notifications {
			changed(c)
		}
		if all {
			changed(engine.Claim{})
		}
		if all || len(notifications) > 0 {
			continue
		}
		select {
		case <-b.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-closed:
			return engine.ErrClosed
		}
	}
}
