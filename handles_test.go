package leasehold

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/handle"
)

// promising is an engine that promises something else.
type promising struct {
	engine.Engine
	change func(*engine.Guarantees)
}

func (p promising) Guarantees() engine.Guarantees {
	g := p.Engine.Guarantees()
	p.change(&g)
	return g
}

// detached is the handle of a lease of "x" that c obtained and detached.
func detached(t *testing.T, c *Client) Handle {
	t.Helper()
	l, err := c.With(LockOptions{Detached: true}).Lock(context.Background(), "x")
	if err != nil {
		t.Fatal(err)
	}
	h, err := l.Detach()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// forged is a handle in which somebody changed something.
func forged(t *testing.T, h Handle, change func(*handle.Body)) Handle {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(string(h), handle.Prefix))
	if err != nil {
		t.Fatal(err)
	}
	var b handle.Body
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	change(&b)
	if raw, err = json.Marshal(b); err != nil {
		t.Fatal(err)
	}
	return Handle(handle.Prefix + base64.RawURLEncoding.EncodeToString(raw))
}

// Whoever holds the secret can end the claim anyway; but a lease that says it is
// something else than its claim lets others of its process in, or sends a token
// to the resource that nobody was given.
func TestForgedHandleIsNotAdopted(t *testing.T) {
	for name, change := range map[string]func(*handle.Body){
		"no name":                           func(b *handle.Body) { b.Name = "" },
		"another name":                      func(b *handle.Body) { b.Name = "y" },
		"a name that is too long":           func(b *handle.Body) { b.Name = strings.Repeat("x", engine.MaxName+1) },
		"no ID":                             func(b *handle.Body) { b.Secret = "" },
		"an ID that is none":                func(b *handle.Body) { b.Secret = engine.ID{}.Secret() },
		"no permits":                        func(b *handle.Body) { b.Permits = 0 },
		"permits below zero":                func(b *handle.Body) { b.Permits = math.MinInt32 },
		"more permits than the limit":       func(b *handle.Body) { b.Limit = 1 },
		"fewer permits than the claim has":  func(b *handle.Body) { b.Permits = 1 },
		"a limit that is not the name's":    func(b *handle.Body) { b.Permits, b.Limit = 3, 3 },
		"no TTL":                            func(b *handle.Body) { b.TTL = 0 },
		"a TTL below zero":                  func(b *handle.Body) { b.TTL = math.MinInt64 },
		"a TTL above all":                   func(b *handle.Body) { b.TTL = math.MaxInt64 },
		"a TTL above what the engine gives": func(b *handle.Body) { b.TTL = time.Minute + 1 },
		"no token":                          func(b *handle.Body) { b.Token = 0 },
		"a token that comes later":          func(b *handle.Body) { b.Token += 1 << engine.HandoffBits },
		"the token of somebody before":      func(b *handle.Body) { b.Token -= 1 << engine.HandoffBits },
		"the last token":                    func(b *handle.Body) { b.Token = math.MaxInt64 },
		"a token above all":                 func(b *handle.Body) { b.Token = math.MaxUint64 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, err := New(w.timed(promising{w.store.Engine(), func(g *engine.Guarantees) { g.MaxTTL = time.Minute }}), &Options{})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				h := detached(t, c)
				if l, err := c.Adopt(context.Background(), forged(t, h, change)); err == nil {
					t.Errorf("adopted: token %v, %v left", l.Token(), l.Remaining())
					mustUnlock(t, l)
					return
				}
				l, err := c.Adopt(context.Background(), h) // it has cost the owner nothing
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				mustUnlock(t, l)
			})
		})
	}
}

func TestAdoptNeedsAnEngineWithDetachedClaims(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		h := detached(t, a)
		b, err := New(w.timed(promising{w.store.Engine(), func(g *engine.Guarantees) { g.Detach = false }}), &Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		_, err = b.Adopt(context.Background(), h)
		if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "this engine has no detached claims") {
			t.Error(err)
		}
		l, err := a.Adopt(context.Background(), h)
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, l)
	})
}

// The options of the client that adopts are those of a client that locks.
func TestAdoptRefusesOptionsThatNoLockMayHave(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		h := detached(t, c)
		for name, o := range map[string]LockOptions{
			"MaxHold is over first": {MinHold: time.Hour, MaxHold: time.Minute},
			"MinHold below zero":    {MinHold: -1},
			"MaxHold below zero":    {MaxHold: -1},
		} {
			if l, err := c.With(o).Adopt(context.Background(), h); err == nil {
				t.Errorf("%s: adopted", name)
				l.Unlock()
				h = detached(t, c)
			}
		}
		l, err := c.Adopt(context.Background(), h)
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, l)
	})
}

// A lease of which another handle is open is not to be had elsewhere as well.
func TestDetachOfALeaseThatWasReentered(t *testing.T) {
	for name, innerFirst := range map[string]bool{"the inner one stays": true, "the outer one stays": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, _ := w.client(nil)
				b, _ := w.client(nil)
				c := a.With(LockOptions{Detached: true, Reentrant: true})
				outer := mustLock(t, c, "x")
				inner, err := c.Lock(outer.Context(), "x")
				if err != nil {
					t.Fatal(err)
				}
				gone, stays := outer, inner
				if !innerFirst {
					gone, stays = inner, outer
				}
				for _, l := range []*Lease{outer, inner} {
					if h, err := l.Detach(); !errors.Is(err, errors.ErrUnsupported) || h != "" {
						t.Fatalf("while both are open: %v", err)
					}
					if !l.Valid() {
						t.Fatal("the refused Detach has ended it")
					}
				}
				mustUnlock(t, gone)
				if !stays.Valid() {
					t.Fatal("ended with the other")
				}
				h, err := stays.Detach()
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Lock(outer.Context(), "x"); err == nil {
					t.Error("re-entered what was given away")
				}
				l, err := b.Adopt(context.Background(), h)
				if err != nil {
					t.Fatal(err)
				}
				if l.Token() != outer.Token() {
					t.Errorf("token %v, want %v", l.Token(), outer.Token())
				}
				time.Sleep(time.Hour)
				mustUnlock(t, l)
				w.wantQueue("x", nil, nil)
			})
		})
	}
}

// What the engine does not grant is said where it was chosen, not by the engine
// later.
func TestTTLAboveTheEnginesMost(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		short := promising{w.store.Engine(), func(g *engine.Guarantees) { g.MaxTTL = 10 * time.Second }}
		says := func(what string, err error) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), "is above this engine's 10s") {
				t.Errorf("%s: %v", what, err)
			}
		}
		for name, o := range map[string]*Options{
			"DefaultTTL asked for": {TTL: DefaultTTL}, "a nanosecond more": {TTL: 10*time.Second + 1},
		} {
			c, err := New(w.timed(short), o)
			says(name, err)
			if err == nil {
				c.Close()
			}
		}
		c, err := New(w.timed(short), &Options{TTL: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		long := c.With(LockOptions{TTL: 10*time.Second + 1})
		_, err = long.Lock(ctx, "x")
		says("Lock", err)
		_, err = long.TryLock(ctx, "x")
		says("TryLock", err)
		_, err = long.LockAll(ctx, "x", "y")
		says("LockAll", err)
		w.wantQueue("x", nil, nil)
		mustUnlock(t, mustLock(t, c, "x"))
	})
}

// TestHandleIsAdoptedOnceAtATime: an answer to the Renew of one Adopt may be older
// than the Unlock of the other, and would be a lease of a name that is free.
func TestHandleIsAdoptedOnceAtATime(t *testing.T) {
	bubble(t, func(w *world) {
		a, f := w.client(nil)
		b, _ := w.client(nil)
		h := detached(t, a)
		answered := make(chan struct{})
		f.set(func(f *faulty) {
			f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				f.set(func(f *faulty) { f.renew = nil })
				got, err := real()
				<-answered
				return got, err
			}
		})
		slow := async(func() (*Lease, error) { return a.Adopt(context.Background(), h) })
		synctest.Wait()
		l, err := a.Adopt(context.Background(), h)
		if err != nil {
			close(answered)
			o := <-slow
			if o.err != nil {
				t.Fatal(o.err)
			}
			if _, err := a.Adopt(context.Background(), h); err == nil {
				t.Error("adopted what is adopted")
			}
			mustUnlock(t, o.l)
			w.wantQueue("x", nil, nil)
			return
		}
		mustUnlock(t, l)
		other := mustLock(t, b, "x")
		close(answered)
		if o := <-slow; o.err == nil && o.l.Valid() && other.Valid() {
			t.Error("two hold x")
		}
	})
}

// Nor meanwhile another is.
func TestHandleIsAdoptedOnceAtATimeAmongOthers(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		slow := detached(t, c)
		l, err := c.With(LockOptions{Detached: true}).Lock(context.Background(), "y")
		if err != nil {
			t.Fatal(err)
		}
		other, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		answered := make(chan struct{})
		f.set(func(f *faulty) {
			f.renew = func(_ context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				if rs[0].Name == "x" {
					<-answered
				}
				return real()
			}
		})
		first := async(func() (*Lease, error) { return c.Adopt(context.Background(), slow) })
		synctest.Wait()
		if l, err = c.Adopt(context.Background(), other); err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, l)
		again := async(func() (*Lease, error) { return c.Adopt(context.Background(), slow) })
		synctest.Wait()
		if len(again) == 0 {
			t.Error("it is asked for while it is asked for already")
		} else if o := <-again; !errors.Is(o.err, errAdopted) {
			t.Errorf("got %v, want %v", o.err, errAdopted)
		}
		close(answered)
		o := <-first
		if o.err != nil {
			t.Fatal(o.err)
		}
		mustUnlock(t, o.l)
	})
}

// A refusal is the engine's answer: it is not taken for one that does not answer.
func TestAdoptSaysWhatTheEngineRefused(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		c, f := w.client(&Options{Observer: h.observe})
		handle := detached(t, c)
		refusal := engine.Refuse("this server is too old")
		f.set(func(f *faulty) {
			f.renew = func(context.Context, []engine.Renewal, func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				return nil, refusal
			}
		})
		if _, err := c.Adopt(context.Background(), handle); !errors.Is(err, refusal) || errors.Is(err, ErrUnavailable) {
			t.Errorf("Adopt says %v", err)
		}
		if e := h.of(EventEngineDown); len(e) > 0 {
			t.Errorf("the Observer is told that the engine is down: %v", e)
		}
		f.set(func(f *faulty) { f.renew = nil })
	})
}

// TestMinHoldIsNotDetached: a handle does not say until when the name must stay
// taken, so whoever adopted it could free the name before that.
func TestMinHoldIsNotDetached(t *testing.T) {
	for name, o := range map[string]LockOptions{
		"detached":     {MinHold: time.Minute, Detached: true},
		"not detached": {MinHold: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, _ := w.client(nil)
				l := mustLock(t, c.With(o), "x")
				if h, err := l.Detach(); !errors.Is(err, errors.ErrUnsupported) || h != "" {
					t.Fatalf("Detach: %v", err)
				}
				mustUnlock(t, l)
				if _, err := c.TryLock(context.Background(), "x"); !errors.Is(err, ErrHeld) {
					t.Errorf("before MinHold has passed: %v", err)
				}
			})
		})
	}
}
