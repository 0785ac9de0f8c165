package leasehold

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/door"
)

// A lease that is lost says why: in its context, in Unlock and in the event.
func TestALostLeaseSaysWhy(t *testing.T) {
	deletes := func(w *world, name string, id engine.ID) {
		e := w.store.Engine()
		defer e.Close()
		if _, err := e.Leave(context.Background(), []engine.Claim{{Name: name, ID: id}}); err != nil {
			w.t.Fatal(err)
		}
	}
	var stood atomic.Int64 // how long the process stood still
	for what, c := range map[string]struct {
		options LockOptions
		lose    func(w *world, l *Lease, f *faulty)
		reason  LossReason
		also    error // of ErrRevoked and ErrMaxHold
		wraps   error
		says    string
	}{
		"no renewal is answered": {lose: func(_ *world, _ *Lease, f *faulty) {
			f.set(func(f *faulty) { f.renew = cutRenew })
			time.Sleep(time.Minute)
		}, reason: LossExpired, wraps: errCut, says: "cut"},
		"no renewal is answered, and the process stands still as well": {lose: func(_ *world, l *Lease, f *faulty) {
			f.set(func(f *faulty) { f.renew = cutRenew })
			time.Sleep(20 * time.Second)
			stood.Store(int64(time.Hour))
			l.Valid()
		}, reason: LossExpired, wraps: errCut, says: "cut"},
		"a renewal hangs, and the process stands still as well": {lose: func(_ *world, l *Lease, f *faulty) {
			f.set(func(f *faulty) {
				f.renew = func(ctx context.Context, _ []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}
			})
			time.Sleep(time.Second) // the first one, which asks for the whole TTL
			stood.Store(int64(time.Hour))
			l.Valid()
		}, reason: LossExpired},
		"somebody deletes the claim at the store": {lose: func(w *world, l *Lease, _ *faulty) {
			deletes(w, l.Name(), l.handle.Claim().ID())
			time.Sleep(20 * time.Second) // until its next renewal
		}, reason: LossDeleted, says: "deleted"},
		"somebody revokes it": {lose: func(_ *world, l *Lease, _ *faulty) { revokeNow(l); synctest.Wait() }, reason: LossRevoked, also: ErrRevoked},
		"MaxHold has passed":  {options: LockOptions{MaxHold: time.Second}, lose: func(*world, *Lease, *faulty) { time.Sleep(2 * time.Second) }, reason: LossMaxHold, also: ErrMaxHold},
		"it is not renewed":   {options: LockOptions{NoRenew: true}, lose: func(*world, *Lease, *faulty) { time.Sleep(time.Minute) }, reason: LossNotRenewed},
		"the process stands still": {lose: func(w *world, l *Lease, _ *faulty) {
			synctest.Wait()
			stood.Store(int64(time.Hour)) // nobody ticks: the clock of this client alone goes on
			l.Valid()
		}, reason: LossStopped},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				stood.Store(0)
				events := make(chan Event, 9)
				f := &faulty{Engine: w.store.Engine()}
				clock := func() time.Duration { return w.clock() + time.Duration(stood.Load()) }
				locks, err := New(&door.Engine{Engine: f, Clock: clock}, &Options{Observer: func(e Event) {
					if e.Kind == EventLost {
						events <- e
					}
				}})
				if err != nil {
					t.Fatal(err)
				}
				defer locks.Close()
				l := mustLock(t, locks.With(c.options), "x")
				ctx := l.Context()
				c.lose(w, l, f)
				check := func(where string, err error) {
					t.Helper()
					lost, ok := errors.AsType[*LostError](err)
					if !ok || lost.Reason != c.reason || !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), c.says) || c.wraps != nil && !errors.Is(err, c.wraps) {
						t.Errorf("%s: got %v, want %v", where, err, c.reason)
					}
					for _, one := range []error{ErrRevoked, ErrMaxHold} {
						if got, want := errors.Is(err, one), one == c.also; got != want {
							t.Errorf("%s: %v is %v: %v, want %v", where, err, one, got, want)
						}
					}
				}
				check("the context", context.Cause(ctx))
				check("Unlock", l.Unlock())
				synctest.Wait() // the keeper tells of a loss after others see it
				if n := len(events); n != 1 {
					t.Fatalf("got %d events, want one", n)
				}
				e := <-events
				if e.Reason != c.reason {
					t.Errorf("got an event with the reason %v, want %v", e.Reason, c.reason)
				}
				check("the event", e.Err)
			})
		})
	}
}
