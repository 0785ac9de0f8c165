package httplock

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"leasehold/internal/remote"
)

// A server that is stopped, or that no packet reaches any more, refuses nothing: a call waits
// for its whole bound. So if nothing at all came from a server for silentAfter, a call asks it
// whether it lives, over another connection. Without an answer within livesWithin every call to
// it ends, with an error: nothing was learned, and whoever called asks again, elsewhere.
//
// A server that answers that question is slow, and its calls go on. A wrong guess costs a
// repetition: the calls that end may all be repeated (see mayRepeat).
const (
	silentAfter = time.Second
	livesWithin = 2 * time.Second // Engine.livesWithin, which tests set
)

// course is one server, from the moment at which calls go to it until they go to the next.
type course struct {
	base   string
	number int
	heard  atomic.Int64    // when it last answered something, in nanoseconds since the engine began
	asked  atomic.Bool     // somebody is asking whether it lives
	silent context.Context // ends if it does not
	give   context.CancelCauseFunc
}

func (e *Engine) newCourse(number int) *course {
	c := &course{base: e.bases[number%len(e.bases)], number: number}
	c.silent, c.give = context.WithCancelCause(context.Background())
	e.hears(c) // it is given the time that every server has
	return c
}

// leave has later calls go to the next server.
func (e *Engine) leave(c *course) {
	if e.at.CompareAndSwap(c, e.newCourse(c.number+1)) && len(e.bases) > 1 {
		if unsubscribe := e.unsubscribe.Load(); unsubscribe != nil {
			(*unsubscribe)(errMoved)
		}
	}
	e.brief.CloseIdleConnections() // what ended one of them has perhaps ended all
}

// mayRepeat reports whether a call may end before it is certain that nobody will answer it. A
// Join is repeated by its ID, and a repeated Renew, Leave or look changes no more than one. A
// Watch has a bound of its own for silence. A repeated Revoke would say that there is no claim.
func mayRepeat(path string) bool { return path != remote.PathWatch && path != remote.PathRevoke }

// guard ends a call, by end, if its server answers nothing. ctx ends with the call.
func (e *Engine) guard(ctx context.Context, c *course, end context.CancelCauseFunc) (over func()) {
	forget := context.AfterFunc(c.silent, func() { end(context.Cause(c.silent)) })
	var look *time.Timer
	look = time.AfterFunc(time.Hour, func() {
		if ctx.Err() != nil || c.silent.Err() != nil {
			return
		}
		if e.since(c) >= silentAfter && c.asked.CompareAndSwap(false, true) {
			if c.silent.Err() == nil { // another call may have found that it is, since this one looked
				if err := e.lives(c); err != nil && e.life.Err() == nil {
					e.leave(c)
					c.give(err)
				}
			}
			c.asked.Store(false)
		}
		look.Reset(silentAfter)
	})
	look.Reset(silentAfter) // not before look is set: it looks again by itself
	return func() {
		look.Stop()
		forget()
	}
}

// since is how long c has answered nothing.
func (e *Engine) since(c *course) time.Duration {
	return time.Since(e.began) - time.Duration(c.heard.Load())
}

// hears notes that c has answered.
func (e *Engine) hears(c *course) { c.heard.Store(int64(time.Since(e.began))) }

// lives asks a server whether it lives. Any answer says so, also one that refuses.
func (e *Engine) lives(c *course) error {
	ctx, cancel := context.WithTimeoutCause(e.life, e.livesWithin, fmt.Errorf("no answer within %v", e.livesWithin))
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/livez", nil)
	if err != nil {
		return err
	}
	a, err := e.probe.Do(r)
	if err != nil {
		return fmt.Errorf("it answers nothing, not even that it lives: %w", causeOf(ctx, bare(err)))
	}
	a.Body.Close()
	e.hears(c)
	return nil
}
