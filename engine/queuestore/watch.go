package queuestore

import (
	"context"

	"leasehold/engine"
)

// Watch implements [engine.Engine].
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	return e.mail.Deliver(ctx, e.end.Done(), changed)
}

// Post takes a notification that another client's Notify has sent to this one. It does
// not block, and may be called at any time.
func (e *Engine) Post(notification engine.Claim) {
	if notification.State == engine.Unknown { // see rearm
		e.pollSoon(notification.Name)
		return
	}
	e.mail.Post(notification)
}

// PostAll says that notifications may have been lost: after a subscription began again,
// say. Watch then has everything looked at. It does not block, and may be
// called at any time.
func (e *Engine) PostAll() { e.mail.PostAll() }
