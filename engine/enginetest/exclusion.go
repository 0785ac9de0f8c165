package enginetest

import (
	"sync"
	"sync/atomic"
	"time"

	"leasehold/engine"
)

func exclusion() promise {
	return promise{"exclusion", "units of held claims never exceed the limit", []kase{
		{"a second client holds as well", func(t *trial) {
			t.needsMode(engine.Exclusive)
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			b.is(second, engine.Waiting, "the first claim is held")
			c.taken(name, "one claim is held and one waits")
			a.is(first, engine.Held, "nothing ended it")
			a.leave(first)
			second = b.awaits(second)
			c.taken(name, "the second claim is held")
			b.leave(second)
			c.free(name, "everybody left")
		}},
		{"two hold under contention", func(t *trial) {
			t.needsMode(engine.Exclusive)
			t.crowd(func(name string) engine.Request { return t.exclusive(name) }, 1)
		}},
		{"too many hold under contention", func(t *trial) {
			t.needsMode(engine.Units)
			t.crowd(func(name string) engine.Request { return t.want(name, 1, 3) }, 3)
		}},
	}}
}

// crowd lets six clients lock one name ten times each and counts who is inside.
func (t *trial) crowd(want func(string) engine.Request, most int32) {
	var inside atomic.Int32
	var clients sync.WaitGroup
	name := t.name()
	for range 6 {
		a := t.client()
		clients.Go(func() {
			for range 10 {
				// Helpers that end the case must not run here: this is not
				// the case's goroutine.
				c, err := a.Join(t.ctx(), want(name))
				held := err == nil && c.State == engine.Held
				if err == nil && !held {
					c, held = a.eventually(c)
				}
				if !held {
					t.Errorf("a waiting claim never holds: %v, %v", c.State, err)
					return
				}
				if n := inside.Add(1); n > most {
					t.Errorf("%d claims hold at once, the limit is %d", n, most)
				}
				time.Sleep(100 * time.Microsecond) // long enough for another to be seen
				inside.Add(-1)
				if _, err := a.Leave(t.ctx(), []engine.Claim{c}); err != nil {
					t.Errorf("Leave: %v", err)
				}
			}
		})
	}
	clients.Wait()
}
