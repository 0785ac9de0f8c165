package enginetest

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

func orphans() promise {
	return promise{"no orphans", "a claim that was given up is never held again; all clients in tight loops are served, and no claim blocks a name for a TTL", []kase{
		{"a Renew under way takes nothing that its claim has left", func(t *trial) {
			t.needsMode(engine.Exclusive)
			a, b, c := t.client(), t.client(), t.client()
			rounds := 25
			if testing.Short() {
				rounds = 8
			}
			for range rounds {
				var names [16]string // at once, or the three calls hardly ever meet
				var waits [len(names)]engine.Claim
				var calls sync.WaitGroup
				for i := range names {
					names[i] = t.name()
					first := a.hold(t.exclusive(names[i]))
					waits[i] = b.wait(t.exclusive(names[i]))
					calls.Go(func() { a.gone(first) })
				}
				for _, w := range waits {
					b.givesUp(&calls, w)
				}
				calls.Wait()
				for _, name := range names {
					c.free(name, "the holder left, and who waited left while it looked")
				}
			}
		}},
		{"a free name is taken by clients in tight loops", func(t *trial) {
			t.needsMode(engine.Exclusive)
			t.loops(8, 25)
		}},
	}}
}

// givesUp leaves a claim that waits, and is looking, as the core does it. Renews may be
// under way then; a Join is answered first, or its caller does not wait for that any
// longer.
func (a *client) givesUp(calls *sync.WaitGroup, c engine.Claim) {
	if a.t.g.Order == engine.OrderNone {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(a.t.ctx(), rand.N(2*time.Millisecond))
			defer cancel()
			_, _ = a.pollAfter(ctx, c)
			a.gone(c)
		})
		return
	}
	for range 3 { // as many as the core has under way
		calls.Go(func() { _, _ = a.pollAfter(a.t.ctx(), c) })
	}
	calls.Go(func() { a.gone(c) })
}

// gone leaves for certain, from any goroutine.
func (a *client) gone(c engine.Claim) {
	late := time.Now().Add(a.t.h.Patience)
	for {
		if _, err := a.Leave(a.t.ctx(), []engine.Claim{c}); err == nil {
			return
		} else if time.Now().After(late) {
			a.t.Errorf("Leave: %v", err)
			return
		}
	}
}

// loops lets clients join, hold and leave one name without a pause, as the core
// does it: a third of their waiting claims are given up at a moment when a Renew
// may be under way, and a new one takes its place. Each must hold so many times.
//
// A claim's TTL is far longer than the Patience, so when nobody has held for that
// long, and all wait, then only an expiry could end it.
func (t *trial) loops(clients, turns int) {
	name := t.name()
	held := make(chan struct{}, clients*turns)
	var all sync.WaitGroup
	ctx := t.Context()
	stop := make(chan struct{})
	for i := range clients {
		a := t.client()
		all.Go(func() {
			// Each third try, not each try of a turn: or all might give up at once, and
			// go on as long as the queue is never empty.
			for n, tries := 0, i; n < turns; tries++ {
				if a.loop(name, tries%3 == 0, stop) {
					n++
					held <- struct{}{}
				}
				select {
				case <-stop:
					return
				case <-ctx.Done():
					return
				default:
				}
			}
		})
	}
	defer all.Wait()
	defer close(stop)
	for n := range clients * turns {
		select {
		case <-held:
		case <-time.After(t.h.Patience):
			t.Fatalf("%d clients take turns at one name; after %d of %d turns nobody held for %v, with claims of %v: only an expiry can go on",
				clients, n, clients*turns, t.h.Patience, t.long())
		}
	}
}

// loop is one claim of loops, and reports whether it held. It ends no case.
func (a *client) loop(name string, givesUp bool, stop <-chan struct{}) (held bool) {
	c, err := a.Join(a.t.ctx(), a.t.exclusive(name))
	if err != nil {
		return false
	}
	var calls sync.WaitGroup
	defer calls.Wait()
	for pause := time.Millisecond; c.State == engine.Waiting; pause = min(2*pause, 50*time.Millisecond) {
		if givesUp {
			a.givesUp(&calls, c)
			return false
		}
		a.mu.Lock()
		more := a.more // taken before asking: a notification that comes meanwhile counts
		a.mu.Unlock()
		if now, err := a.pollAfter(a.t.ctx(), c); err == nil {
			c = now
		}
		if c.State != engine.Waiting {
			break
		}
		select {
		case <-more:
		case <-time.After(pause):
		case <-stop:
			a.gone(c)
			return false
		}
	}
	a.gone(c)
	return c.State == engine.Held
}
