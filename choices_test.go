package leasehold

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// A view of a client has the choices that were made for it, and no others.
func TestWithReplacesTheChoices(t *testing.T) {
	all := LockOptions{TTL: time.Minute, Wait: time.Hour, MinHold: time.Second, MaxHold: 2 * time.Second,
		NoRenew: true, Detached: true, Reentrant: true, Label: "l"}
	c := &Client{}
	view := c.With(all)
	if got := view.LockOptions(); got != all {
		t.Errorf("got %+v, want %+v", got, all)
	}
	if got := view.With(LockOptions{}).LockOptions(); got != (LockOptions{}) {
		t.Errorf("got %+v, want none: a choice that was made cannot be taken back", got)
	}
	if view.LockOptions() != all || c.LockOptions() != (LockOptions{}) {
		t.Error("With changed its receiver")
	}
}

func TestOptionsOutOfBoundsAreRefused(t *testing.T) {
	bubble(t, func(w *world) {
		for _, o := range []Options{{IdleTimeout: -1}, {TTL: time.Nanosecond}, {TTL: 48 * time.Hour}, {TTL: -time.Second}} {
			if c, err := New(w.store.Engine(), &o); err == nil {
				t.Errorf("%+v", o)
				c.Close()
			}
		}
		c, _ := w.client(nil)
		if _, err := c.With(LockOptions{Wait: -1}).Lock(context.Background(), "x"); err == nil || !strings.Contains(err.Error(), "TryLock") {
			t.Errorf("a Wait below zero: %v", err)
		}
		if _, err := c.With(LockOptions{TTL: time.Nanosecond}).Lock(context.Background(), "x"); err == nil {
			t.Error("a TTL of a nanosecond")
		}
	})
}

// An engine on sessions grants less than the default, which nobody asked for.
func TestATTLThatIsNotGivenIsNoReasonToRefuse(t *testing.T) {
	bubble(t, func(w *world) {
		for _, c := range []struct{ least, most, given, want time.Duration }{
			{0, 0, 0, DefaultTTL},
			{0, time.Hour, 0, DefaultTTL},
			{0, 10 * time.Second, 0, 10 * time.Second},
			{0, 10 * time.Second, 5 * time.Second, 5 * time.Second},
			{0, 10 * time.Second, DefaultTTL, 0}, // asked for, and refused
			{time.Minute, 0, 0, time.Minute},
			{time.Second, 0, time.Second, time.Second},
			{2 * time.Second, 0, time.Second, 0}, // not raised
		} {
			locks, err := New(promising{w.store.Engine(), func(g *engine.Guarantees) { g.MinTTL, g.MaxTTL = c.least, c.most }}, &Options{TTL: c.given})
			if (err != nil) != (c.want == 0) {
				t.Errorf("%+v: %v", c, err)
			}
			if err != nil {
				continue
			}
			if got := locks.core.opts.TTL; got != c.want {
				t.Errorf("%+v: %v", c, got)
			}
			locks.Close()
		}
	})
}

// The longest time there is means for ever, and must not overflow into the past.
func TestAHoldForEverLasts(t *testing.T) {
	for name, o := range map[string]LockOptions{
		"MaxHold": {MaxHold: math.MaxInt64},
		"MinHold": {MinHold: math.MaxInt64},
		"both":    {MinHold: math.MaxInt64, MaxHold: math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				c, _ := w.client(&Options{Label: "c"})
				l := mustLock(t, c.With(o), "x")
				time.Sleep(time.Hour)
				mustUnlock(t, l)
				time.Sleep(time.Hour)
				var held []string
				if o.MinHold > 0 {
					held = []string{"c"}
				}
				w.wantQueue("x", held, nil)
			})
		})
	}
}

func TestNoLocalHandoffMakesEveryLeaseAClaim(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{NoLocalHandoff: true})
		l := mustLock(t, c, "x")
		next := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		mustUnlock(t, l)
		o := <-next
		if o.err != nil {
			t.Fatal(o.err)
		}
		mustUnlock(t, o.l)
		if j, _, _ := f.calls(); j != 2 {
			t.Errorf("%d joins", j)
		}
	})
}

func TestDoSaysWhatUnlockSays(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		boom := errors.New("boom")
		err := c.Do(context.Background(), "x", func(context.Context, *Lease) error {
			f.set(func(f *faulty) { f.leave = cutLeave })
			return boom
		})
		if !errors.Is(err, boom) || !errors.Is(err, ErrUnknown) {
			t.Error(err)
		}
		f.set(func(f *faulty) { f.leave = nil })
	})
}

func TestDoEndsWithItsContext(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		boom := errors.New("boom")
		ctx, cancel := context.WithCancelCause(context.Background())
		err := c.Do(ctx, "x", func(ctx context.Context, _ *Lease) error {
			cancel(boom)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Hour):
				return nil
			}
		})
		if !errors.Is(err, boom) {
			t.Error(err)
		}
	})
}

func TestARevocationThatFailedIsNoEvent(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		c, _ := w.client(&Options{Observer: h.observe})
		if err := c.Revoke(context.Background(), "x", 1); !errors.Is(err, engine.ErrNoClaim) {
			t.Error(err)
		}
		if e := h.of(EventRevoke); len(e) != 0 {
			t.Errorf("%+v", e)
		}
	})
}

func TestCloseGivesUpWhatIsHeldAndKeepsMinHold(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		c, _ := w.client(&Options{Label: "c", IdleTimeout: time.Hour})
		mustLock(t, c, "held")
		mustUnlock(t, mustLock(t, c, "kept"))
		if _, err := c.With(LockOptions{MinHold: time.Minute}).Lock(ctx, "long"); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		w.wantQueue("held", nil, nil)
		w.wantQueue("kept", nil, nil)
		time.Sleep(time.Minute - time.Second)
		w.wantQueue("long", []string{"c"}, nil)
		time.Sleep(2 * time.Second)
		w.wantQueue("long", nil, nil)
	})
}

// An error says once which library it is from.
func TestATTLThatIsRefusedIsNamedOnce(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		_, of := c.With(LockOptions{TTL: engine.MaxTTL + 1}).Lock(t.Context(), "x")
		_, all := New(w.store.Engine(), &Options{TTL: engine.MaxTTL + 1})
		for _, err := range []error{of, all} {
			if !errors.Is(err, engine.ErrRefused) || strings.Count(err.Error(), "leasehold:") != 1 || !strings.HasPrefix(err.Error(), "leasehold: ") {
				t.Errorf("%v", err)
			}
		}
	})
}
