package checked

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"leasehold/engine"
)

// Between two subscriptions, doubled with each that does not last for the longest pause,
// half of it by chance, so that the clients of a server that restarts do not all come at
// once, and one that cuts every subscription is not asked at full speed: each that begins
// has all who wait look.
const (
	shortest = 50 * time.Millisecond
	longest  = time.Second
)

// KeepWatching watches again whenever a Watch ended, until ctx ends or the engine is
// closed. It calls failed with the error of a Watch that had not begun. If a Watch breaks
// that had begun, the next one reports that with changed(Claim{}): rule 6 of package
// engine.
func (e *Engine) KeepWatching(ctx context.Context, changed func(engine.Claim), failed func(error)) {
	for pause := shortest; ; pause = min(2*pause, longest) {
		var began atomic.Bool
		start := time.Now()
		err := e.Watch(ctx, func(c engine.Claim) {
			began.Store(true)
			changed(c)
		})
		if e.open(ctx) != nil {
			return
		}
		if !began.Load() {
			failed(err)
		} else if time.Since(start) >= longest {
			pause = shortest
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return
		case <-e.life.Done():
			return
		}
	}
}
