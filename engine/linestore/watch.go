package linestore

import (
	"context"

	"leasehold/engine"
)

// Watch implements [engine.Engine].
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	return e.mail.Deliver(ctx, e.end.Done(), changed)
}

// Post takes a note that another client's Tell has sent to this one. It does
// not block, and may be called at any time.
func (e *Engine) Post(note engine.Claim) {
	if note.State == engine.Unknown { // see rearm
		e.lookSoon(note.Name)
		return
	}
	e.mail.Post(note)
}

// PostAll says that notes may have been lost: after a subscription began again,
// say. Watch then has everything looked at. It does not block, and may be
// called at any time.
func (e *Engine) PostAll() { e.mail.PostAll() }
