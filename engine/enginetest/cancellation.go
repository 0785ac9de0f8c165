package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"leasehold/engine"
)

func cancellation() promise {
	return promise{"cancellation", "a cancelled Join and a Leave leave no claim behind; a late Join leaves an orphan that ends after its WaitTTL", []kase{
		{"a Join cancelled on its way leaves at most its WaitTTL", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			for range 30 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.Int64N(int64(2*time.Millisecond))))
				r := t.brief(t.exclusive(name))
				_, _ = a.Join(ctx, r)
				cancel()
				// The Join may have taken its connection with it: then nothing was learned, and the
				// core repeats the Leave.
				for try := 1; ; try++ {
					_, err := a.Leave(t.ctx(), []engine.Claim{{Name: name, ID: r.ID}})
					if err == nil {
						break
					}
					if try == 5 || errors.Is(err, engine.ErrRefused) {
						t.Fatalf("Leave: %v", err)
					}
				}
				second := b.join(t.exclusive(name))
				if second.State == engine.Waiting {
					// The Join was on the wire and has arrived after its Leave:
					// an orphan, which the deadline it was born with ends.
					t.h.Sleep(2 * r.WaitTTL)
					second = b.awaits(second)
				}
				b.leave(second)
			}
		}},
		{"a Join that arrives after its Leave ends by its WaitTTL", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			r := t.brief(t.exclusive(name))
			a.leave(engine.Claim{Name: name, ID: r.ID})
			orphan := a.join(r)
			second := b.join(t.exclusive(name))
			t.lapse(a, orphan)
			b.awaits(second)
		}},
		{"a waiting claim that is cancelled delays no other", func(t *trial) {
			t.needsFIFO()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			third := c.wait(t.exclusive(name))
			b.leave(second)
			a.leave(first)
			c.awaits(third)
		}},
	}}
}
