package enginetest

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
)

func lifecycle() promise {
	return promise{"life cycle", "every call ends with its context, Watch can begin again, Close may come twice", []kase{
		{"a call ignores its context", func(t *trial) {
			a := t.client()
			c := a.hold(t.exclusive(t.name()))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for what, call := range map[string]func() error{
				"Renew": func() error { _, err := a.Renew(ctx, t.renewals(c)); return err },
				"Leave": func() error { _, err := a.Leave(ctx, []engine.Claim{c}); return err },
				"Line":  func() error { _, err := a.Queue(ctx, c.Name); return err },
				"Lines": func() error {
					for _, err := range a.Queues(ctx, c.Name) {
						return err
					}
					return nil
				},
				"Evict": func() error { return a.Revoke(ctx, c.Name, c.Ticket, false) },
			} {
				if err := call(); err == nil {
					t.Errorf("%s on an ended context reports no error", what)
				} else if errors.Is(err, engine.ErrRefused) {
					t.Errorf("%s on an ended context is final: %v", what, err)
				}
			}
		}},
		{"Watch ignores its context, or cannot begin again", func(t *trial) {
			e := t.h.New(t.TB)
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
		{"Close hurts twice, or a closed engine works", func(t *trial) {
			e := t.h.New(t.TB)
			ended := t.watching(t.Context(), e)
			for range 2 {
				if err := e.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
			select {
			case <-ended:
			case <-time.After(t.h.Patience):
				t.Error("Watch goes on after Close")
			}
			if c, err := e.Join(t.ctx(), t.exclusive(t.name())); err == nil {
				t.Errorf("Join of a closed engine says %v", c.State)
			}
		}},
		{"Guarantees change, or make no sense", func(t *trial) {
			e := t.h.New(t.TB)
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

// watching begins a Watch and returns when it has begun; what it returns is closed
// when that ends.
func (t *trial) watching(ctx context.Context, e engine.Engine) <-chan struct{} {
	t.Helper()
	began, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.Watch(ctx, func(engine.Claim) {
			select {
			case began <- struct{}{}:
			default:
			}
		})
	}()
	select {
	case <-began:
	case <-time.After(t.h.Patience):
		t.Fatal("Watch does not begin")
	}
	return ended
}
