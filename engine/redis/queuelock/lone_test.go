package queuelock

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// onEngines runs a test with a connection that stands and is idle.
func onEngines(t *testing.T, f func(t *testing.T, e *Engine, p *servers.Proxy)) {
	r := redis(t, nil)
	for kind, open := range engines {
		t.Run(kind, func(t *testing.T) {
			p := servers.ProxyTo(t, r.Addr)
			e := open(t, p.Addr)
			used(t, e)
			f(t, e, p)
		})
	}
}

// used makes calls until the engine has every connection that it wants.
func used(t testing.TB, e *Engine) {
	t.Helper()
	for range 20 {
		q := exclusive("warm")
		c, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, q) })
		if err != nil {
			t.Fatal(err)
		}
		leave(t, e, c)
	}
}

// TestLoneCallEndsWithItsContext leaves calls without an answer.
func TestLoneCallEndsWithItsContext(t *testing.T) {
	t.Parallel()
	calls := map[string]func(context.Context, *Engine, engine.Claim) error{
		"Join": func(ctx context.Context, e *Engine, _ engine.Claim) error {
			_, err := e.Join(ctx, exclusive("other"))
			return err
		},
		"Leave": func(ctx context.Context, e *Engine, c engine.Claim) error {
			_, err := e.Leave(ctx, []engine.Claim{c})
			return err
		},
		"Renew": func(ctx context.Context, e *Engine, c engine.Claim) error {
			_, err := e.Renew(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Second}})
			return err
		},
	}
	onEngines(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		for what, call := range calls {
			for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
				t.Run(what+" "+want.Error(), func(t *testing.T) {
					q := exclusive("held")
					q.WaitTTL = time.Minute
					held := join(t, e, q)
					used(t, e)
					p.BlackHole(true)
					defer p.BlackHole(false)
					ctx, cancel := context.WithCancel(t.Context())
					if want == context.DeadlineExceeded {
						ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
					}
					defer cancel()
					done := make(chan error, 1)
					go func() { done <- call(ctx, e, held) }()
					if want == context.Canceled {
						time.AfterFunc(20*time.Millisecond, cancel)
					}
					start := time.Now()
					if err := ended(t, done); !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
					if d := time.Since(start); d > 5*time.Second {
						t.Errorf("it took %v", d)
					}
					p.BlackHole(false)
					// Leave may have been carried out when its bytes arrived after all.
					s := leave(t, e, held)
					if s != engine.Held && !(s == engine.Gone && what == "Leave") {
						t.Errorf("afterwards left as %v", s)
					}
					leave(t, e, join(t, e, exclusive("another")))
				})
			}
		}
	})
}

// TestCallWithAnEndedContextIsNotSent would take a lock for nobody.
func TestCallWithAnEndedContextIsNotSent(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Forget()
		if _, err := e.Join(ctx, exclusive("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("Join: %v", err)
		}
		if n := p.Commands()["EVALSHA"]; n != 0 {
			t.Errorf("%d calls were sent", n)
		}
		if l, err := e.Queue(within(t), "a"); err != nil || len(l.Claims) > 0 {
			t.Errorf("the queue: %+v %v", l, err)
		}
	})
}

// TestCloseWhileALoneCallHangs also finds the goroutines that stay: see TestMain.
func TestCloseWhileALoneCallHangs(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		p.BlackHole(true)
		defer p.BlackHole(false)
		done := make(chan error, 1)
		go func() {
			_, err := e.Join(context.Background(), exclusive("a"))
			done <- err
		}()
		until(t, "the call does not begin", func() bool { return inGroups(e) == 1 })
		closed := make(chan error, 1)
		start := time.Now()
		go func() { closed <- e.Close() }()
		ended(t, closed) // the claim that may have been joined ends by its TTL
		if d := time.Since(start); d > 15*time.Second {
			t.Errorf("Close took %v", d)
		}
		if err := ended(t, done); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("Join: %v", err)
		}
		if _, err := e.Join(t.Context(), exclusive("b")); !errors.Is(err, engine.ErrClosed) {
			t.Errorf("Join after Close: %v", err)
		}
	})
}

// TestAnswersAreWhoseTheyAre would find the answer of a call that was broken
// off given to the next.
func TestAnswersAreWhoseTheyAre(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		for i := range 8 {
			used(t, e)
			p.DropReplies(i%2 == 0)
			p.BlackHole(i%2 == 1)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			q := exclusive("first " + itoa(i))
			go func() {
				_, err := e.Join(ctx, q)
				done <- err
			}()
			until(t, "the call does not begin", func() bool { return inGroups(e) == 1 })
			cancel()
			if err := ended(t, done); !errors.Is(err, context.Canceled) {
				t.Errorf("Join: %v", err)
			}
			p.BlackHole(false)
			p.DropReplies(false)
			q2 := exclusive(t.Name() + " second " + itoa(i))
			q2.Permits, q2.Limit = 3, 7
			c, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, q2) })
			if err != nil || c.Permits != 3 || c.State != engine.Held {
				t.Errorf("%+v %v", c, err)
			}
			l, err := e.Queue(within(t), q2.Name)
			if err != nil || len(l.Claims) != 1 || l.Claims[0].Ticket != c.Ticket {
				t.Errorf("joined as %+v, but the queue is %+v %v", c, l, err)
			}
		}
	})
}

// Whose context ends while the answer is on its way breaks nothing off: others
// use that connection by the time it could be.
func TestLoneConnectionOutlivesACallThatWasAnswered(t *testing.T) {
	t.Parallel()
	p := servers.ProxyTo(t, redis(t, nil).Addr)
	e := open(t, "redis://"+p.Addr)
	c := join(t, e, long("held"))
	used(t, e)
	for range 20 { // on a busy machine an answer may take longer than patience is
		before := p.Commands()["HELLO"]
		ctx, cancel := context.WithCancel(t.Context())
		p.OnCommand(func(string) { cancel() })
		_, _ = e.Renew(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Minute}})
		<-ctx.Done()
		p.OnCommand(nil)
		time.Sleep(50 * time.Millisecond) // it would be broken off meanwhile
		renew(t, e, c, time.Minute)
		if p.Commands()["HELLO"] == before {
			return
		}
	}
	t.Error("each call that was answered as its context ended cost a connection")
}
