package leasehold

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
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
	for what, c := range map[string]struct {
		options LockOptions
		lose    func(w *world, l *Lease, f *faulty)
		reason  LossReason
		also    error
		says    string
	}{
		"no renewal is answered": {lose: func(_ *world, _ *Lease, f *faulty) {
			f.set(func(f *faulty) { f.renew = cutRenew })
			time.Sleep(time.Minute)
		}, reason: LossExpired, says: "cut"},
		"somebody deletes the claim at the store": {lose: func(w *world, l *Lease, _ *faulty) {
			deletes(w, l.Name(), l.handle.Claim().ID())
			time.Sleep(20 * time.Second) // until its next renewal
		}, reason: LossDeleted, says: "deleted"},
		"somebody revokes it": {lose: func(_ *world, l *Lease, _ *faulty) { revokeNow(l); synctest.Wait() }, reason: LossRevoked, also: ErrRevoked},
		"MaxHold has passed":  {options: LockOptions{MaxHold: time.Second}, lose: func(*world, *Lease, *faulty) { time.Sleep(2 * time.Second) }, reason: LossMaxHold, also: ErrMaxHold},
		"it is not renewed":   {options: LockOptions{NoRenew: true}, lose: func(*world, *Lease, *faulty) { time.Sleep(time.Minute) }, reason: LossNotRenewed},
		"the process stands still": {lose: func(w *world, l *Lease, _ *faulty) {
			// Nobody ticks: the clock of this client alone goes on.
			k := l.core
			k.mu.Lock()
			now := k.now
			k.now = func() time.Duration { return now() + time.Hour }
			k.mu.Unlock()
			l.Valid()
		}, reason: LossStopped},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(w *world) {
				var events []Event
				locks, f := w.client(&Options{Observer: func(e Event) {
					if e.Kind == EventLost {
						events = append(events, e)
					}
				}})
				l := mustLock(t, locks.With(c.options), "x")
				ctx := l.Context()
				c.lose(w, l, f)
				check := func(where string, err error) {
					t.Helper()
					lost, ok := errors.AsType[*LostError](err)
					if !ok || lost.Reason != c.reason || !errors.Is(err, ErrLost) || !strings.Contains(err.Error(), c.says) || c.also != nil && !errors.Is(err, c.also) {
						t.Errorf("%s: got %v, want %v", where, err, c.reason)
					}
				}
				check("the context", context.Cause(ctx))
				check("Unlock", l.Unlock())
				if len(events) != 1 || events[0].Reason != c.reason {
					t.Errorf("got the events %+v, want one with the reason %v", events, c.reason)
				} else {
					check("the event", events[0].Err)
				}
			})
		})
	}
}
