package httplock

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/internal/remote"
)

// errSilent ends a subscription over which nothing came, not even that it lives.
var errSilent = errors.New("the service was silent for too long")

// errMoved ends a subscription when calls have begun to go to another server.
var errMoved = errors.New("the calls go to another server now")

// Watch implements [engine.Engine]. The service writes the first line when the subscription
// has begun.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silent := time.AfterFunc(3*remote.KeepAlive, func() { cancel(errSilent) })
	defer silent.Stop()
	e.unsubscribe.Store(&cancel) // before the address is chosen: see post
	body, err := e.post(ctx, e.shared, remote.PathWatch, remote.WatchCall{Client: e.client})
	if err != nil {
		return causeOf(ctx, err)
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 64<<10) // a name, an ID and an owner
	for lines.Scan() {
		silent.Reset(3 * remote.KeepAlive)
		if len(lines.Bytes()) == 0 {
			continue
		}
		var n remote.Notification
		if err := json.Unmarshal(lines.Bytes(), &n); err != nil {
			return err
		}
		if n.Claim == nil {
			changed(engine.Claim{})
		} else {
			changed(n.Claim.Engine())
		}
	}
	if err := lines.Err(); err != nil {
		return causeOf(ctx, err)
	}
	return errors.New("the service ended the subscription")
}
