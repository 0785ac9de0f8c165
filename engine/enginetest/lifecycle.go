package enginetest

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
)

func lifecycle() promise {
	return promise{"life cycle", "Watch ends with its context and can begin again; the declared guarantees do not change", []kase{
		{"Watch ends with its context and can begin again", func(t *trial) {
			e := checked.New(t.h.New(t.TB))
			t.Cleanup(func() {
				if err := e.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
			for range 3 {
				ctx, cancel := context.WithCancel(t.Context())
				began, ended := make(chan struct{}, 64), make(chan error, 1)
				go func() {
					ended <- e.Watch(ctx, func(engine.Claim) {
						select {
						case began <- struct{}{}:
						default:
						}
					})
				}()
				select {
				case <-began:
				case err := <-ended:
					t.Fatalf("Watch ended with %v before its context", err)
				case <-time.After(t.h.Patience):
					t.Fatal("Watch does not begin")
				}
				cancel()
				select {
				case err := <-ended:
					if !errors.Is(err, context.Canceled) {
						t.Fatalf("Watch ended with %v, want its context's error", err)
					}
				case <-time.After(t.h.Patience):
					t.Fatal("Watch goes on after its context ended")
				}
			}
		}},
		{"Guarantees are constant and make sense", func(t *trial) {
			e := checked.New(t.h.New(t.TB))
			t.Cleanup(func() { _ = e.Close() })
			g := e.Guarantees()
			if g != t.g {
				t.Errorf("one client promises %+v, another %+v", t.g, g)
			}
			if g.Modes&(engine.Exclusive|engine.Shared|engine.Permits) == 0 {
				t.Error("no mode is declared")
			}
			if g.MaxTTL != 0 && g.MaxTTL < g.MinTTL || g.MinTTL < 0 || g.MinTTL > engine.MaxTTL || g.MaxTTL > engine.MaxTTL {
				t.Errorf("TTLs from %v to %v", g.MinTTL, g.MaxTTL)
			}
		}},
	}}
}
