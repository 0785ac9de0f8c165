package enginetest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"leasehold/engine"
)

func exclusion() promise {
	return promise{"exclusion", "the permits of the held claims never exceed the limit", []kase{
		{"a second client waits", func(t *trial) {
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
		{"one holds at a time under contention", func(t *trial) {
			t.needsMode(engine.Exclusive)
			t.crowd(func(name string) engine.Request { return t.exclusive(name) }, 1)
		}},
		{"no more than the limit hold under contention", func(t *trial) {
			t.needsMode(engine.Permits)
			t.crowd(func(name string) engine.Request { return t.want(name, 1, 3) }, 3)
		}},
	}}
}

// crowd lets six clients lock one name ten times each and counts who is inside.
func (t *trial) crowd(want func(string) engine.Request, most int32) {
	var inside atomic.Int32
	var clients sync.WaitGroup
	var mu sync.Mutex
	var wrong []string
	var longest time.Duration // from a Join to the Leave
	notification := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	name := t.name()
	for range 6 {
		a := t.client()
		clients.Go(func() {
			for range 10 {
				start := t.h.Now()
				ok := a.turn(want(name), &inside, most, notification)
				mu.Lock()
				longest = max(longest, t.h.Now()-start)
				mu.Unlock()
				if !ok {
					return
				}
			}
		})
	}
	clients.Wait()
	if len(wrong) == 0 {
		return
	}
	if longest >= t.long() {
		t.tooSlow(strings.Join(wrong, "\n")) // a claim may have ended while its client was away
	}
	t.Fatal(strings.Join(wrong, "\n"))
}

// turn holds a claim for a moment and leaves it, unless it never holds. It ends no
// case: its goroutine is not the case's.
func (a *client) turn(r engine.Request, inside *atomic.Int32, most int32, wrong func(format string, args ...any)) (held bool) {
	c, err := a.Join(a.t.ctx(), r)
	held = err == nil && c.State == engine.Held
	if err == nil && !held {
		c, held = a.eventually(c)
	}
	if !held {
		wrong("a waiting claim never holds: %v, %v", c.State, err)
		return false
	}
	if n := inside.Add(1); n > most {
		wrong("%d claims hold at once, the limit is %d", n, most)
	}
	time.Sleep(100 * time.Microsecond) // long enough for another to be seen
	inside.Add(-1)
	if _, err := a.Leave(a.t.ctx(), []engine.Claim{c}); err != nil {
		wrong("Leave: %v", err)
	}
	return true
}
