package leasehold

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

func TestReenteringFollowsTheContext(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{Label: "c"})
		c = reentrant(c)
		outer := mustLock(t, c, "x")
		inner, err := c.Lock(outer.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if inner.Token() != outer.Token() || !inner.Valid() {
			t.Error("the inner lease is another hold")
		}
		reader, err := c.RLock(inner.Context(), "x")
		if err != nil {
			t.Fatalf("RLock under one's own Lock: %v", err)
		}
		if j, _, _ := f.calls(); j != 1 {
			t.Errorf("%d joins", j)
		}
		// In any order; the claim ends with the last.
		mustUnlock(t, outer)
		mustUnlock(t, outer)
		if outer.Valid() || !inner.Valid() {
			t.Error("outer still valid, or inner not")
		}
		w.wantQueue("x", []string{"c"}, nil)
		mustUnlock(t, reader)
		mustUnlock(t, inner)
		w.wantQueue("x", nil, nil)
		// A context whose lease has ended holds nothing any more.
		again, err := c.Lock(context.WithoutCancel(inner.Context()), "x")
		if err != nil || again.Token() <= inner.Token() {
			t.Fatalf("token %v, error %v", again.Token(), err)
		}
		mustUnlock(t, again)
	})
}

func TestUpgradeIsRefusedAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		l, err := c.RLock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		start := w.clock()
		for _, c := range []*Client{c, reentrant(c)} {
			if _, err := c.Lock(l.Context(), "x"); !errors.Is(err, ErrUpgrade) {
				t.Error(err)
			}
		}
		if w.clock() != start {
			t.Error("it waited")
		}
		again, err := reentrant(c).RLock(l.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, again)
		mustUnlock(t, l)
	})
}

// A caller that holds something must not queue behind a local claim, and shows
// others what it holds.
func TestActorJoinsForItself(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		a := mustLock(t, c, "a")
		b := mustLock(t, c, "b")
		got := async(func() (*Lease, error) { return c.Lock(a.Context(), "b") })
		synctest.Wait()
		queue, err := c.Queue(context.Background(), "b")
		if err != nil || len(queue.Claims) != 2 {
			t.Fatalf("%+v, %v: the actor is not in the engine's queue", queue, err)
		}
		want := []engine.Hold{{Name: "a", Ticket: a.Token().Ticket()}}
		if holds := queue.Claims[1].Owner.Holds; !reflect.DeepEqual(holds, want) {
			t.Errorf("holds %v, want %v", holds, want)
		}
		mustUnlock(t, b)
		o := <-got
		if o.err != nil {
			t.Fatal(o.err)
		}
		mustUnlock(t, o.l)
		mustUnlock(t, a)
		// Any number of holds fits the owner's bound.
		ctx := context.Background()
		for i := range 60 {
			l, err := c.Lock(ctx, strings.Repeat(fmt.Sprint(i%10), 100)+fmt.Sprint(i))
			if err != nil {
				t.Fatal(err)
			}
			ctx = l.Context()
		}
		for _, r := range f.joins {
			if n := len(r.Owner.Text()); n > engine.MaxOwner {
				t.Fatalf("an owner of %d bytes", n)
			}
		}
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		boom := errors.New("boom")
		if err := c.Do(context.Background(), "x", func(context.Context, *Lease) error { return boom }); !errors.Is(err, boom) || errors.Is(err, ErrLost) {
			t.Error(err)
		}
		w.wantQueue("x", nil, nil)
		func() {
			defer func() { recover() }()
			c.Do(context.Background(), "x", func(context.Context, *Lease) error { panic("boom") })
		}()
		w.wantQueue("x", nil, nil)
		ctx, cancel := context.WithCancelCause(context.Background())
		err := c.Do(ctx, "x", func(ctx context.Context, l *Lease) error {
			cancel(boom)
			<-ctx.Done()
			if !l.Valid() {
				t.Error("the caller's context ended the lease")
			}
			return context.Cause(ctx)
		})
		if !errors.Is(err, boom) {
			t.Error(err)
		}
		dl, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		err = c.Do(dl, "x", func(ctx context.Context, l *Lease) error {
			if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Minute {
				t.Error("the deadline is gone")
			}
			f.set(func(f *faulty) { f.renew = cutRenew })
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(err, ErrLost) {
			t.Error(err)
		}
	})
}

func TestHoldOptions(t *testing.T) {
	ctx := context.Background()
	t.Run("MaxHold ends the lease although renewals succeed", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			l, err := c.With(LockOptions{MaxHold: time.Minute}).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute - time.Nanosecond)
			synctest.Wait()
			if !l.Valid() {
				t.Error("ended early")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if l.Valid() || !errors.Is(context.Cause(l.Context()), ErrMaxHold) {
				t.Error("not ended")
			}
			if err := l.Unlock(); !errors.Is(err, ErrMaxHold) || !errors.Is(err, ErrLost) {
				t.Error(err)
			}
			synctest.Wait()
			w.wantQueue("x", nil, nil)
		})
	})
	t.Run("NoRenew begins with its full TTL and is never renewed", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, f := w.client(&Options{TTL: time.Minute})
			l, err := c.With(LockOptions{NoRenew: true}).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			if l.Remaining() != trustOf(time.Minute) {
				t.Errorf("begins with %v", l.Remaining())
			}
			synctest.Wait() // a renewal asked for before it was delivered may be on its way
			_, before, _ := f.calls()
			<-l.Context().Done()
			if _, after, _ := f.calls(); after != before {
				t.Errorf("renewed %d times", after-before)
			}
			if err := l.Unlock(); !errors.Is(err, ErrLost) {
				t.Error(err)
			}
		})
	})
	t.Run("MinHold keeps the name after Unlock", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(&Options{Label: "c"})
			other, _ := w.client(nil)
			l, err := c.With(LockOptions{MinHold: time.Minute}).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			start := w.clock()
			mustUnlock(t, l)
			if l.Valid() {
				t.Error("the lease did not end")
			}
			if _, err := other.TryLock(ctx, "x"); !errors.Is(err, ErrHeld) {
				t.Error(err)
			}
			next := mustLock(t, other, "x")
			if d := w.clock() - start; d < time.Minute || d > time.Minute+time.Second {
				t.Errorf("free after %v", d)
			}
			mustUnlock(t, next)
		})
	})
	t.Run("MinHold outlives its process", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(&Options{Label: "c"})
			other, _ := w.client(nil)
			l, err := c.With(LockOptions{MinHold: time.Minute}).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			start := w.clock()
			mustUnlock(t, l)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			next := mustLock(t, other, "x")
			if d := w.clock() - start; d < time.Minute || d > time.Minute+time.Second {
				t.Errorf("free after %v", d)
			}
			mustUnlock(t, next)
		})
	})
	t.Run("MinHold beyond the engine's longest TTL lasts while its client is open", func(t *testing.T) {
		for name, c := range map[string]struct {
			close    func(*Client, *Lease) error
			from, to time.Duration
		}{
			"open":                 {func(_ *Client, l *Lease) error { return l.Unlock() }, 5 * time.Minute, 5*time.Minute + time.Second},
			"closed after Unlock":  {func(c *Client, l *Lease) error { return errors.Join(l.Unlock(), c.Close()) }, time.Minute, time.Minute + time.Second},
			"closed before Unlock": {func(c *Client, _ *Lease) error { return c.Close() }, time.Minute, time.Minute + time.Second},
		} {
			t.Run(name, func(t *testing.T) {
				bubble(t, func(w *world) {
					brief := promising{w.store.Engine(), func(g *engine.Guarantees) { g.MaxTTL = time.Minute }}
					keeps, err := New(w.timed(brief), nil)
					if err != nil {
						t.Fatal(err)
					}
					w.t.Cleanup(func() { keeps.Close() })
					other, _ := w.client(nil)
					l, err := keeps.With(LockOptions{MinHold: 5 * time.Minute}).Lock(ctx, "x")
					if err != nil {
						t.Fatal(err)
					}
					start := w.clock()
					if err := c.close(keeps, l); err != nil {
						t.Error(err)
					}
					next := mustLock(t, other, "x")
					if d := w.clock() - start; d < c.from || d > c.to {
						t.Errorf("free after %v, want from %v to %v", d, c.from, c.to)
					}
					mustUnlock(t, next)
				})
			})
		}
	})
	t.Run("a hold longer than MinHold ends at Unlock", func(t *testing.T) {
		bubble(t, func(w *world) {
			c, _ := w.client(nil)
			l, err := c.With(LockOptions{MinHold: time.Minute}).Lock(ctx, "x")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			mustUnlock(t, l)
			w.wantQueue("x", nil, nil)
		})
	})
}

func TestDetachAndAdopt(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		a, _ := w.client(&Options{Label: "a", TTL: 10 * time.Second})
		b, _ := w.client(&Options{Label: "b", TTL: time.Minute})
		l, err := a.With(LockOptions{Detached: true}).Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		if l.Valid() || l.Unlock() != nil {
			t.Error("the lease goes on here")
		}
		for _, text := range []string{fmt.Sprint(h), fmt.Sprintf("%v %+v %#v %q", h, h, h, h)} {
			if strings.Contains(text, string(h)) {
				t.Error("the handle is in a log line")
			}
		}
		var log strings.Builder
		for _, to := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
			slog.New(to).Info("detached", "handle", h, slog.Group("group", "handle", h))
		}
		if strings.Contains(log.String(), string(h)) || strings.Count(log.String(), "handle (secret)") != 4 {
			t.Errorf("logs have the handle: %s", log.String())
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		w.wantQueue("x", []string{"a"}, nil)
		l2, err := b.Adopt(ctx, h)
		if err != nil {
			t.Fatal(err)
		}
		if l2.Token() != l.Token() || l2.Name() != "x" {
			t.Errorf("token %v, want %v", l2.Token(), l.Token())
		}
		time.Sleep(time.Hour) // renewed by b
		if !l2.Valid() {
			t.Error("not renewed")
		}
		h2, err := l2.Detach()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if _, err := b.Adopt(ctx, h2); !errors.Is(err, ErrLost) {
			t.Errorf("after its TTL: %v", err)
		}
		for _, bad := range []Handle{"", "x", "leasehold1.", "leasehold1.e30", h2[:20], h2 + "x"} {
			if _, err := b.Adopt(ctx, bad); err == nil {
				t.Errorf("adopted %q", string(bad))
			}
		}
		plain := mustLock(t, b, "y")
		if _, err := plain.Detach(); !errors.Is(err, errors.ErrUnsupported) {
			t.Error(err)
		}
		mustUnlock(t, plain)
		l3, err := b.With(LockOptions{Detached: true}).Lock(ctx, "z")
		if err != nil {
			t.Fatal(err)
		}
		h3, err := l3.Detach()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Revoke(ctx, "z", l3.Token().Ticket()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Adopt(ctx, h3); !errors.Is(err, ErrRevoked) {
			t.Error(err)
		}
		synctest.Wait() // who adopts a revoked lease frees its room
		w.wantQueue("z", nil, nil)
		if l3, err = b.With(LockOptions{Detached: true}).Lock(ctx, "z"); err != nil {
			t.Fatal(err)
		}
		if h3, err = l3.Detach(); err != nil {
			t.Fatal(err)
		}
		l4, err := b.Adopt(ctx, h3)
		if err != nil {
			t.Fatal(err)
		}
		mustUnlock(t, l4)
		w.wantQueue("z", nil, nil)
	})
}

func TestLockAllNeverDeadlocks(t *testing.T) {
	bubble(t, func(w *world) {
		var wg sync.WaitGroup
		shared := 0
		for i := range 2 {
			c, _ := w.client(nil)
			names := []string{"a", "b"}
			if i == 1 {
				names = []string{"b", "a", "b"}
			}
			wg.Go(func() {
				for range 10_000 {
					all, err := c.LockAll(context.Background(), names...)
					if err != nil {
						t.Error(err)
						return
					}
					shared++
					if err := all.Unlock(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if shared != 20_000 {
			t.Errorf("counted %d of 20,000", shared)
		}
	})
}

func TestLockAllIsAllOrNothing(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		a, fa := w.client(&Options{Label: "a"})
		b, _ := w.client(&Options{Label: "b"})
		l := mustLock(t, b, "2")
		if _, err := a.With(LockOptions{Wait: time.Second}).LockAll(ctx, "3", "1", "2"); !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		synctest.Wait()
		w.wantQueue("1", nil, nil)
		w.wantQueue("2", []string{"b"}, nil)
		mustUnlock(t, l)
		_, _, before := fa.calls()
		all, err := a.LockAll(ctx, "3", "1", "2")
		if err != nil {
			t.Fatal(err)
		}
		if leases := all.Leases(); len(leases) != 3 || !all.Valid() || all.Remaining() <= 0 {
			t.Errorf("got %d leases, valid %v, %v left; want 3", len(leases), all.Valid(), all.Remaining())
		}
		in, err := reentrant(a).Lock(all.Context(), "2")
		if err != nil {
			t.Fatalf("re-entering: %v", err)
		}
		mustUnlock(t, in)
		if err := all.Unlock(); err != nil {
			t.Error(err)
		}
		if _, _, after := fa.calls(); after-before != 1 {
			t.Errorf("%d leaves for three names", after-before)
		}
		// Losing one ends the context of all.
		if all, err = a.LockAll(ctx, "1", "2"); err != nil {
			t.Fatal(err)
		}
		if err := b.Revoke(ctx, "2", all.Leases()[1].Token().Ticket()); err != nil {
			t.Fatal(err)
		}
		<-all.Context().Done()
		if !errors.Is(context.Cause(all.Context()), ErrRevoked) || all.Valid() || all.Remaining() != 0 {
			t.Error(context.Cause(all.Context()))
		}
		if err := all.Unlock(); !errors.Is(err, ErrRevoked) {
			t.Error(err)
		}
		synctest.Wait()
		w.wantQueue("1", nil, nil)
		w.wantQueue("2", nil, nil)
		if none, err := a.LockAll(ctx); err != nil || none.Unlock() != nil {
			t.Error("no names at all")
		}
	})
}

func TestTenThousandLeasesShareRenewals(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 30 * time.Second})
		var leases []*Lease
		for i := range 10_000 {
			leases = append(leases, mustLock(t, c, fmt.Sprint("name ", i)))
			if i%100 == 0 {
				time.Sleep(150 * time.Millisecond) // taken over a beat and a half, not at once
			}
		}
		time.Sleep(20 * time.Second)
		_, before, _ := f.calls()
		time.Sleep(100 * time.Second) // ten renewals of each
		_, after, _ := f.calls()
		if n := after - before; n > 10*10_000/claims.MaxTick {
			t.Errorf("%d calls for ten renewals of 10,000 leases", n)
		}
		for _, l := range leases {
			if !l.Valid() {
				t.Fatal("lost")
			}
		}
	})
}

func TestEveryEventIsCounted(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		var mu sync.Mutex
		counts := map[EventKind]int{}
		var waited, held time.Duration
		var log bytes.Buffer
		logger := LogTo(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		c, f := w.client(&Options{TTL: 10 * time.Second, Observer: func(e Event) {
			mu.Lock()
			defer mu.Unlock()
			counts[e.Kind]++
			if e.Kind == EventHandoff {
				waited += e.Waited
			}
			if e.Kind == EventReleased {
				held += e.Held
			}
			logger(e)
		}})
		other, _ := w.client(nil)
		// Held once, handed off nine times.
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				l := mustLock(t, c, "x")
				time.Sleep(10 * time.Millisecond)
				mustUnlock(t, l)
			})
		}
		wg.Wait()
		if waited != 450*time.Millisecond || held != 100*time.Millisecond {
			t.Errorf("waited %v and held %v in all, want 450 ms and 100 ms", waited, held)
		}
		// Gave up twice.
		block := mustLock(t, other, "x")
		c.TryLock(ctx, "x")
		c.With(LockOptions{Wait: time.Second}).Lock(ctx, "x")
		mustUnlock(t, block)
		// Renewed, the engine down, lost, up again.
		l := mustLock(t, c, "y")
		time.Sleep(5 * time.Second)
		f.set(func(f *faulty) { f.renew = cutRenew })
		<-l.Context().Done()
		l.Unlock()
		synctest.Wait()
		// Revoked.
		l = mustLock(t, other, "z")
		if err := c.RevokeNow(ctx, "z", l.Token().Ticket()); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		want := map[EventKind]int{EventHeld: 2, EventHandoff: 9, EventReleased: 10, EventGaveUp: 2, EventLost: 1, EventRevoke: 1, EventEngineDown: 1, EventEngineUp: 1}
		for kind, n := range want {
			if counts[kind] != n {
				t.Errorf("%v: %d events, want %d", kind, counts[kind], n)
			}
		}
		if n := counts[EventRenewed]; n < 2 || n > 4 {
			t.Errorf("%d renewals in 5 s at TTL 10 s", n)
		}
		for _, text := range []string{"level=ERROR", "leasehold: lost", "level=WARN", "name=y", "leasehold: engine up"} {
			if !strings.Contains(log.String(), text) {
				t.Errorf("the log does not say %q:\n%s", text, log.String())
			}
		}
	})
}

func TestTokensAreTextInJSON(t *testing.T) {
	in := struct{ T Token }{1805961216000000037}
	b, err := json.Marshal(in)
	if err != nil || string(b) != `{"T":"1805961216000000037"}` {
		t.Fatalf("%s, %v", b, err)
	}
	out := in
	out.T = 0
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Fatalf("%v, %v", out, err)
	}
	if err := json.Unmarshal([]byte(`{"T":"9223372036854775807"}`), &out); err != nil || out.T != 1<<63-1 {
		t.Errorf("the last token is %v, %v", out.T, err)
	}
	if err := json.Unmarshal([]byte(`{"T":"9223372036854775808"}`), &out); err == nil {
		t.Error("a token of 2^63")
	}
}
