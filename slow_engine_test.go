package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// A handle may come back to the client that gave it away while a renewal of
// before is still under way. That one's answer belongs to the claim that was
// detached: counted off from the adopted one, it would end its renewals.
func TestAnswerOfBeforeDetachDoesNotEndTheRenewalsOfAdopt(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		l := mustLock(t, c.With(LockOptions{Detached: true}), "x")
		synctest.Wait()
		late := make(chan struct{})
		f.set(func(f *faulty) {
			f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				got, err := real()
				<-late
				return got, err
			}
		})
		time.Sleep(DefaultTTL/3 + time.Second)
		synctest.Wait() // a renewal is under way
		f.set(func(f *faulty) { f.renew = nil })
		h, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		back, err := c.Adopt(context.Background(), h)
		if err != nil {
			t.Fatal(err)
		}
		close(late)
		time.Sleep(3 * DefaultTTL)
		if !back.Valid() {
			t.Error("the adopted lease was not renewed")
		}
		_ = back.Unlock()
	})
}

// The engine is asked to keep the name for the rest of MinHold. Unlock and Close
// wait for that as long as for any release, and not for a TTL.
func TestUnlockUnderMinHoldIsBoundedWhereTheEngineHangs(t *testing.T) {
	for _, end := range []string{"Unlock", "Close"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, func(w *world) {
				const ttl = 10 * time.Minute
				c, f := w.client(&Options{TTL: ttl})
				l := mustLock(t, c.With(LockOptions{MinHold: time.Hour}), "x")
				time.Sleep(time.Second) // raised to the full TTL
				f.set(func(f *faulty) { f.renew = hangRenew })
				begun := time.Now()
				unlocked := make(chan error, 1)
				go func() { unlocked <- l.Unlock() }()
				synctest.Wait()
				if end == "Close" {
					_ = c.Close()
				}
				err := <-unlocked
				if took := time.Since(begun); took > releaseBound+closeBound {
					t.Errorf("%s took %v", end, took)
				}
				if !errors.Is(err, ErrUnknown) {
					t.Errorf("Unlock: %v, want ErrUnknown", err)
				}
			})
		})
	}
}

// Close waits for a Detach that is under way: its handle is good, and an error that says otherwise
// has the caller drop it.
func TestCloseLeavesADetachItsEngine(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		l := mustLock(t, c.With(LockOptions{Detached: true}), "x")
		answer := make(chan struct{})
		f.set(func(f *faulty) {
			f.renew = func(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				<-answer
				return real()
			}
		})
		done := make(chan error, 1)
		go func() {
			_, err := l.Detach()
			done <- err
		}()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		close(answer)
		if err := <-done; err != nil {
			t.Errorf("Detach beside Close: %v", err)
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	})
}
