package metrics_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/metrics"
)

// flapping is an engine that does not answer some of the time.
type flapping struct {
	engine.Engine
	down atomic.Bool
}

var errDown = errors.New("no answer")

func (f *flapping) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if f.down.Load() {
		return engine.Claim{}, errDown
	}
	return f.Engine.Join(ctx, r)
}

func (f *flapping) Renew(ctx context.Context, r []engine.Renewal) ([]engine.Claim, error) {
	if f.down.Load() {
		return nil, errDown
	}
	return f.Engine.Renew(ctx, r)
}

// Close leaves the store to the other clients.
func (f *flapping) Close() error { return nil }

// Whatever clients do, the numbers add up at the end: each lease that began has ended, each
// call has got a lease or given up, and nothing is held or waits. Meanwhile they are read.
func TestNumbersAddUpAfterAStorm(t *testing.T) {
	t.Parallel()
	m := newMetrics(t, metrics.Options{NameOf: func(name string) string { return name }, MaxNames: 3})
	store := &flapping{Engine: memlock.New()}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var readers, workers sync.WaitGroup
	over := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			last := map[string]float64{}
			for {
				select {
				case <-over:
					return
				default:
				}
				for key, v := range values(m) {
					counter := !strings.HasPrefix(key, "leasehold.held ") && !strings.HasPrefix(key, "leasehold.waiting ") && !strings.HasPrefix(key, "leasehold.engine.up ") &&
						!strings.HasPrefix(key, "leasehold.trust") && !strings.HasPrefix(key, "leasehold.engine.misconfigured ")
					if counter && v < last[key] {
						t.Errorf("%s fell from %v to %v", key, last[key], v)
					}
					last[key] = v
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	readers.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(30 * time.Millisecond):
				store.down.Store(!store.down.Load() && rand.N(8) == 0)
			}
		}
	})
	var detached atomic.Int64
	for range 8 {
		workers.Go(func() {
			for range 2 {
				c, err := m.Client(store, "memory", &leasehold.Options{TTL: 300 * time.Millisecond, DeadlockAfter: 30 * time.Millisecond, IdleTimeout: rand.N(2 * time.Millisecond)})
				if err != nil {
					t.Error(err)
					return
				}
				storm(ctx, t, c, &detached)
				_ = c.Close() // what it holds is lost
			}
		})
	}
	workers.Wait()
	close(over)
	readers.Wait()
	sums := map[string]float64{}
	names := map[string]bool{}
	for v := range m.All() {
		key := v.Metric.Name
		if d := v.Distribution; d != nil {
			if len(v.Labels) > 2 {
				key += " " + v.Labels[1]
			}
			sums[key] += float64(d.Count)
			continue
		}
		sums[key] += v.Number
		if v.Metric.Name == "leasehold.granted" {
			names[v.Labels[2]] = true
		}
	}
	granted, gaveUp := sums["leasehold.granted"], sums["leasehold.gave_up"]
	if ended := sums["leasehold.hold.duration"] + float64(detached.Load()); granted == 0 || ended != granted {
		t.Errorf("%v leases began and %v ended, %d of them detached; all: %v", granted, ended, detached.Load(), sums)
	}
	if held, not := sums["leasehold.wait.duration held"], sums["leasehold.wait.duration gave_up"]; held != granted || not != gaveUp {
		t.Errorf("%v waits ended with a lease and %v without, want %v and %v", held, not, granted, gaveUp)
	}
	if sums["leasehold.held"] != 0 || sums["leasehold.waiting"] != 0 || len(names) > 4 {
		t.Errorf("got %v and the names %v after all is closed", sums, names)
	}
	if sums["leasehold.lost"] == 0 || gaveUp == 0 || sums["leasehold.engine.outages"] == 0 {
		t.Errorf("void: got %v", sums)
	}
}

// storm does what a client can do, for some time.
func storm(ctx context.Context, t *testing.T, c *leasehold.Client, detached *atomic.Int64) {
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 20 {
				a, b := string(rune('a'+rand.N(5))), string(rune('f'+rand.N(5)))
				short := c.With(leasehold.LockOptions{Wait: rand.N(200*time.Millisecond) + 1})
				var l *leasehold.Lease
				var err error
				switch rand.N(6) {
				case 0:
					l, _ = c.TryLock(ctx, a)
				case 1:
					l, _ = short.RLock(ctx, a)
				case 2:
					l, err = short.Lock(ctx, a)
					if err == nil {
						if inner, err := short.Lock(l.Context(), b); err == nil {
							_ = inner.Unlock()
						}
					}
				case 3:
					all, err := short.LockAll(ctx, a, b)
					if err == nil {
						_ = all.Unlock()
					}
				case 4:
					l, err = c.With(leasehold.LockOptions{Wait: 200 * time.Millisecond, Detached: true}).Lock(ctx, a)
					if err == nil {
						if h, _ := l.Detach(); h != "" {
							detached.Add(1)
							l, _ = c.Adopt(ctx, h)
						}
					}
				default:
					l, _ = c.With(leasehold.LockOptions{Wait: 200 * time.Millisecond, MaxHold: time.Millisecond}).Lock(ctx, a)
				}
				if l != nil && rand.N(20) > 0 { // else Close ends it
					time.Sleep(rand.N(2 * time.Millisecond))
					_ = l.Unlock()
				}
			}
		})
	}
	callers.Wait()
}
