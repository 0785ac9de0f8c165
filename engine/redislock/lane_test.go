package redislock

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/servers"
)

// laneEngines are the two kinds of lane: a client of its own with one socket,
// and a connection of the caller's client.
var laneEngines = map[string]func(t testing.TB, addr string) *Engine{
	"of Open": func(t testing.TB, addr string) *Engine { return open(t, "redis://"+addr).(*Engine) },
	"of New":  newEngine,
}

// onLanes runs a test with the lane open and idle.
func onLanes(t *testing.T, f func(t *testing.T, e *Engine, p *servers.Proxy)) {
	r := redis(t, nil)
	for kind, open := range laneEngines {
		t.Run(kind, func(t *testing.T) {
			p := servers.ProxyTo(t, r.Addr)
			e := open(t, p.Addr)
			laneOpens(t, e)
			f(t, e, p)
		})
	}
}

// laneOpens makes calls until one went by the lane.
func laneOpens(t testing.TB, e *Engine) {
	t.Helper()
	until(t, "the lane does not open", func() bool {
		leave(t, e, join(t, e, exclusive("warm")))
		e.lane.mu.Lock()
		defer e.lane.mu.Unlock()
		return e.lane.state == laneOpen
	})
}

// inLane says that a call is under way in the lane.
func inLane(e *Engine) bool {
	e.lane.using.Lock()
	defer e.lane.using.Unlock()
	return e.lane.ctx != nil
}

func TestLaneIsWhatItShouldBe(t *testing.T) {
	onLanes(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		e.lane.mu.Lock()
		own := e.lane.own
		e.lane.mu.Unlock()
		if own != (e.own != nil) {
			t.Errorf("own connection: %v", own)
		}
	})
}

// TestLaneCallEndsWithItsContext leaves calls on the lane without an answer.
func TestLaneCallEndsWithItsContext(t *testing.T) {
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
	onLanes(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		for what, call := range calls {
			for _, want := range []error{context.Canceled, context.DeadlineExceeded} {
				t.Run(what+" "+want.Error(), func(t *testing.T) {
					q := exclusive("held")
					q.WaitTTL = time.Minute
					held := join(t, e, q)
					laneOpens(t, e)
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
						until(t, "the call does not go by the lane", func() bool { return inLane(e) })
						cancel()
					}
					start := time.Now()
					if err := ended(t, done); !errors.Is(err, want) {
						t.Errorf("%v, want %v", err, want)
					}
					if d := time.Since(start); d > 3*time.Second {
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

// TestLaneCallWithAnEndedContextIsNotSent would take a lock for nobody.
func TestLaneCallWithAnEndedContextIsNotSent(t *testing.T) {
	onLanes(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.Forget()
		if _, err := e.Join(ctx, exclusive("a")); !errors.Is(err, context.Canceled) {
			t.Errorf("Join: %v", err)
		}
		if n := p.Commands()["EVALSHA"]; n != 0 {
			t.Errorf("%d calls were sent", n)
		}
		if l, err := e.Line(within(t), "a"); err != nil || len(l.Claims) > 0 {
			t.Errorf("the line: %+v %v", l, err)
		}
	})
}

// TestCloseWhileALaneCallHangs also finds the goroutines that stay: see TestMain.
func TestCloseWhileALaneCallHangs(t *testing.T) {
	onLanes(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		p.BlackHole(true)
		defer p.BlackHole(false)
		done := make(chan error, 1)
		go func() {
			_, err := e.Join(context.Background(), exclusive("a"))
			done <- err
		}()
		until(t, "the call does not go by the lane", func() bool { return inLane(e) })
		closed := make(chan error, 1)
		start := time.Now()
		go func() { closed <- e.Close() }()
		ended(t, closed) // the claim that may have been joined ends by its TTL
		if d := time.Since(start); d > 8*time.Second {
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

func TestLaneThatBreaksIsReplaced(t *testing.T) {
	onLanes(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		t.Run("while it is idle", func(t *testing.T) {
			for range 5 {
				p.Reset()
				leave(t, e, join(t, e, exclusive("a")))
				c := join(t, e, exclusive("a"))
				p.Reset()
				if s, err := e.Leave(within(t), []engine.Claim{c}); err == nil && s[0].State != engine.Held {
					t.Errorf("left as %v", s[0].State)
				} else if err != nil {
					e.Leave(within(t), []engine.Claim{c})
				}
				laneOpens(t, e)
			}
		})
		t.Run("in the middle of a call", func(t *testing.T) {
			for i := range 5 {
				laneOpens(t, e)
				p.BlackHole(true)
				q := exclusive("b")
				done := make(chan error, 1)
				go func() {
					c, err := e.Join(within(t), q)
					if err == nil && c.State != engine.Held {
						err = errors.New(c.State.String())
					}
					done <- err
				}()
				until(t, "the call does not go by the lane", func() bool { return inLane(e) })
				p.Reset()
				p.BlackHole(false)
				if err := ended(t, done); err != nil {
					t.Errorf("Join %d: %v", i, err)
				}
				leave(t, e, engine.Claim{Name: q.Name, ID: q.ID})
			}
		})
		t.Run("after its request has arrived", func(t *testing.T) {
			// A second answer of "absent" must not be the first that is heard.
			for range 5 {
				laneOpens(t, e)
				c := join(t, e, exclusive("c"))
				p.LoseReply("EVALSHA")
				cs, err := e.Leave(within(t), []engine.Claim{c})
				if err == nil && cs[0].State != engine.Held {
					t.Errorf("left as %v", cs[0].State)
				}
			}
		})
	})
}

// TestLaneAnswersAreWhoseTheyAre would find the answer of a call that was broken
// off given to the next.
func TestLaneAnswersAreWhoseTheyAre(t *testing.T) {
	onLanes(t, func(t *testing.T, e *Engine, p *servers.Proxy) {
		for i := range 8 {
			laneOpens(t, e)
			p.DropReplies(i%2 == 0)
			p.BlackHole(i%2 == 1)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			q := exclusive("first " + itoa(i))
			go func() {
				_, err := e.Join(ctx, q)
				done <- err
			}()
			until(t, "the call does not go by the lane", func() bool { return inLane(e) })
			cancel()
			if err := ended(t, done); !errors.Is(err, context.Canceled) {
				t.Errorf("Join: %v", err)
			}
			p.BlackHole(false)
			p.DropReplies(false)
			q2 := exclusive("second " + itoa(i))
			q2.Units, q2.Limit = 3, 7
			c, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, q2) })
			if err != nil || c.Units != 3 || c.State != engine.Held {
				t.Errorf("%+v %v", c, err)
			}
			l, err := e.Line(within(t), q2.Name)
			if err != nil || len(l.Claims) != 1 || l.Claims[0].Ticket != c.Ticket {
				t.Errorf("joined as %+v, but the line is %+v %v", c, l, err)
			}
		}
	})
}

// until waits for what no channel tells.
func until(t testing.TB, not string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(not)
		}
	}
}

// ended is the error a channel tells, unless nothing does.
func ended(t testing.TB, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
		return nil
	}
}
