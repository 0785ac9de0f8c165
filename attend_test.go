package leasehold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest"
)

// counted counts who is in Attend.
type counted struct {
	engine.Engine
	now, ever atomic.Int32
}

func (c *counted) Attend(over func() bool) {
	c.ever.Add(1)
	c.now.Add(1)
	defer c.now.Add(-1)
	c.Engine.(engine.Attender).Attend(over)
}

func (c *counted) Interrupt() { c.Engine.(engine.Attender).Interrupt() }

func attendee(w *world, o *Options) (*Client, *counted) {
	e := &counted{Engine: enginetest.Attending(w.store.Engine())}
	if o == nil {
		o = &Options{}
	}
	o.Clock = w.clock
	c, err := New(e, o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	synctest.Wait() // until Watch runs: before, nobody can attend
	return c, e
}

func TestWhoWaitsAloneReceivesItsNoteItself(t *testing.T) {
	bubbleOf(t, false, func(w *world) {
		a, _ := w.client(nil)
		b, e := attendee(w, nil)
		mustUnlock(t, mustLock(t, b, "free"))
		if e.ever.Load() != 0 {
			t.Error("who did not wait attended")
		}
		l := mustLock(t, a, "x")
		other := mustLock(t, b, "other") // held, not waited for
		got := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		synctest.Wait()
		if e.now.Load() != 1 {
			t.Fatalf("%d attend", e.now.Load())
		}
		mustUnlock(t, l)
		o := <-got
		if o.err != nil || e.now.Load() != 0 {
			t.Fatalf("%v; %d still attend", o.err, e.now.Load())
		}
		mustUnlock(t, o.l)
		mustUnlock(t, other)
	})
}

func TestOnlyWhoWaitsAloneAttends(t *testing.T) {
	bubbleOf(t, false, func(w *world) {
		a, _ := w.client(nil)
		b, e := attendee(w, nil)
		x, y := mustLock(t, a, "x"), mustLock(t, a, "y")
		onX := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		synctest.Wait()
		onY := async(func() (*Lease, error) { return b.Lock(context.Background(), "y") })
		behindX := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		synctest.Wait()
		if n := e.ever.Load(); n != 1 {
			t.Errorf("%d attended, one was there first", n)
		}
		// What comes for the others reaches them through who attends.
		mustUnlock(t, y)
		mustUnlock(t, (<-onY).l)
		mustUnlock(t, x)
		mustUnlock(t, (<-onX).l)
		mustUnlock(t, (<-behindX).l)
	})
}

// Every way in which a wait can end without a note must end Attend too.
func TestWhoAttendsIsInterrupted(t *testing.T) {
	cause := errors.New("enough")
	for name, end := range map[string]struct {
		lock LockOptions
		by   func(b *Client, cancel context.CancelCauseFunc)
		want error
	}{
		"by its context": {by: func(_ *Client, cancel context.CancelCauseFunc) { cancel(cause) }, want: cause},
		"by its Wait":    {lock: LockOptions{Wait: time.Minute}, by: func(*Client, context.CancelCauseFunc) {}, want: ErrHeld},
		"by Close":       {by: func(b *Client, _ context.CancelCauseFunc) { b.Close() }, want: ErrClosed},
		"by eviction": {by: func(b *Client, _ context.CancelCauseFunc) {
			line, err := b.Line(context.Background(), "x")
			if err != nil || len(line.Claims) != 2 {
				panic("nobody waits")
			}
			b.Evict(context.Background(), "x", line.Claims[1].Ticket)
		}, want: ErrEvicted},
	} {
		t.Run(name, func(t *testing.T) {
			bubbleOf(t, false, func(w *world) {
				a, _ := w.client(nil)
				b, e := attendee(w, nil)
				l := mustLock(t, a, "x")
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				got := async(func() (*Lease, error) { return b.With(end.lock).Lock(ctx, "x") })
				synctest.Wait()
				if e.now.Load() != 1 {
					t.Fatalf("%d attend", e.now.Load())
				}
				end.by(b, cancel)
				if o := <-got; !errors.Is(o.err, end.want) {
					t.Errorf("%v, want %v", o.err, end.want)
				}
				if e.now.Load() != 0 {
					t.Error("it still attends")
				}
				mustUnlock(t, l)
			})
		})
	}
}
