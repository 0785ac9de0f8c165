package queuelock

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

func kind(name string, permits, limit int32) engine.Request {
	r := exclusive(name)
	r.Permits, r.Limit, r.WaitTTL = permits, limit, 10*time.Minute
	return r
}

// Whoever disagrees on the limit is refused, whatever form the queue has: taking
// 3 of 5 where the limit is 3 would be let in as soon as there is room for 3.
func TestClaimsOfDifferentLimitsStandInOneQueue(t *testing.T) {
	t.Parallel()
	e := newEngine(t, redis(t, nil).Addr)
	kinds := [][2]int32{{1, 1}, {1, 3}, {3, 3}, {3, 5}, {5, 5}, {1, engine.Max}, {3, engine.Max}, {engine.Max, engine.Max}}
	for _, have := range kinds {
		for _, want := range kinds {
			if have[1] == want[1] {
				continue
			}
			for _, crowd := range []int{1, 2} {
				name := fmt.Sprint(have, want, crowd)
				var first engine.Claim
				for i := range crowd {
					if c := join(t, e, kind(name, have[0], have[1])); i == 0 {
						first = c
					}
				}
				before, err := e.Queue(within(t), name)
				if err != nil || len(before.Claims) != crowd {
					t.Fatalf("%s: %+v %v", name, before, err)
				}
				nowait, replaces := kind(name, want[0], want[1]), kind(name, want[0], want[1])
				nowait.NoWait = true
				replaces.Replaces = first.ID
				for what, r := range map[string]engine.Request{"Join": kind(name, want[0], want[1]), "NoWait": nowait, "Replaces": replaces} {
					if what == "Replaces" && crowd == 1 {
						continue // then nobody is there to disagree
					}
					c, err := e.Join(within(t), r)
					var limit *engine.LimitError
					if !errors.As(err, &limit) || limit.Have != have[1] || limit.Want != want[1] {
						t.Errorf("%s: %d of %d behind %d of %d: %v %v", what, want[0], want[1], have[0], have[1], c.State, err)
					}
				}
				after, err := e.Queue(within(t), name)
				if err != nil || len(after.Claims) != crowd || after.Claims[0].Ticket != first.Ticket {
					t.Errorf("a refused Join made %+v of %+v (%v)", after, before, err)
				}
				if crowd == 1 {
					if c := join(t, e, replaces); c.State != engine.Held || c.Limit != want[1] {
						t.Errorf("replacing the only claim, %d of %d is %+v", want[0], want[1], c)
					}
				}
			}
		}
	}
}

func TestAQueueInRedisGrowsWithoutBound(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	// Queues of locks and queues of anything else are joined by different ways.
	for what, one := range map[string]engine.Request{"lock": kind("", engine.Max, engine.Max), "readers": kind("", 1, engine.Max)} {
		t.Run(what, func(t *testing.T) {
			e := newEngine(t, r.Addr)
			again := func() engine.Request {
				r := kind(what, one.Permits, one.Limit)
				r.Detached = true // else Close leaves them one by one
				return r
			}
			first := join(t, e, again())
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range (engine.MaxQueue - 1) / 8 {
						if _, err := e.Join(t.Context(), again()); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			for range (engine.MaxQueue - 1) % 8 {
				join(t, e, again())
			}
			nowait := again()
			nowait.NoWait = true
			for _, r := range []engine.Request{again(), nowait} {
				if c, err := e.Join(within(t), r); !errors.Is(err, engine.ErrRefused) {
					t.Errorf("claim %d (NoWait %v): %v %v", engine.MaxQueue+1, r.NoWait, c.State, err)
				}
			}
			if l, err := e.Queue(within(t), what); err != nil || len(l.Claims) != engine.MaxQueue || l.Claims[0].Ticket != first.Ticket {
				t.Fatalf("%d claims are in the queue, the first has the ticket %d, not %d: %v", len(l.Claims), l.Claims[0].Ticket, first.Ticket, err)
			}
			// Whoever takes another's place makes it no longer, and one that leaves
			// makes room.
			instead := again()
			instead.Replaces = first.ID
			c := join(t, e, instead)
			if _, err := e.Join(within(t), again()); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("after one was replaced: %v", err)
			}
			leave(t, e, c)
			join(t, e, again())
			if _, err := e.Join(within(t), again()); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("full again: %v", err)
			}
		})
	}
}
