package leasehold

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// Each test in this file is a schedule that once broke the core, and says what
// must hold now.

// hangs until ctx ends, without arriving
func hangRenew(ctx context.Context, _ []engine.Renewal, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func within(t *testing.T, d time.Duration, ch chan outcome, what string) outcome {
	t.Helper()
	select {
	case o := <-ch:
		return o
	case <-time.After(d):
		t.Errorf("%s: no answer after %v", what, d)
		return outcome{}
	}
}

// A context of a detached lease does not re-enter what was given away.
func TestDetachedLeaseIsNotReentered(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{Label: "a"})
		b, _ := w.client(&Options{Label: "b"})
		all, err := a.With(LockOptions{Detached: true}).LockAll(context.Background(), "x", "y")
		if err != nil {
			t.Fatal(err)
		}
		h, err := all.Leases()[0].Detach() // x goes to b
		if err != nil {
			t.Fatal(err)
		}
		lb, err := b.Adopt(context.Background(), h)
		if err != nil {
			t.Fatal(err)
		}
		again, err := a.With(LockOptions{Wait: time.Second, Reentrant: true}).Lock(all.Context(), "x")
		if err == nil {
			t.Errorf("a holds x again (valid %v) while b holds it (valid %v)", again.Valid(), lb.Valid())
			again.Unlock()
			synctest.Wait()
			time.Sleep(20 * time.Second)
			t.Logf("after a's Unlock, b's lease: valid %v, Unlock %v", lb.Valid(), lb.Unlock())
		}
		all.Unlock()
	})
}

// A lease that was re-entered with MinHold and is unlocked last leaves the local
// queue its claim.
func TestReenteredMinHoldKeepsTheLocalQueue(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		l1 := mustLock(t, c, "x")
		l2, err := c.With(LockOptions{MinHold: time.Second, Reentrant: true}).Lock(l1.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		q := async(func() (*Lease, error) { return c.Lock(ctx, "x") })
		synctest.Wait()
		l1.Unlock()
		l2.Unlock()
		if o := within(t, time.Hour, q, "queued local caller"); o.l != nil {
			o.l.Unlock()
		}
	})
}

// MinHold of the outer lease counts when a re-entered one is unlocked last.
func TestInnerLeaseDoesNotEndMinHold(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(&Options{Label: "a"})
		l1, err := c.With(LockOptions{MinHold: time.Minute}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		l2, err := reentrant(c).Lock(l1.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		l1.Unlock()
		l2.Unlock()
		w.wantQueue("x", []string{"a"}, nil)
	})
}

// One hung Renew right after Lock does not lose the lease.
func TestOneHungRenewDoesNotLoseTheLease(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil) // TTL 30 s
		var n atomic.Int32
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				if n.Add(1) == 1 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return real()
			}
		})
		l := mustLock(t, c, "x")
		time.Sleep(9 * time.Second)
		if !l.Valid() {
			t.Errorf("lost although only one Renew was swallowed; renewals tried: %d", n.Load())
		}
		l.Unlock()
	})
}

// The same for a waiter and its place.
func TestOneHungRenewDoesNotLoseThePlace(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{Label: "a"})
		b, fb := w.client(&Options{Label: "b"})
		c, _ := w.client(&Options{Label: "c"})
		l := mustLock(t, a, "x")
		synctest.Wait() // the subscriptions have begun
		var n atomic.Int32
		fb.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				if n.Add(1) == 1 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return real()
			}
		})
		qb := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		time.Sleep(100 * time.Millisecond)
		qc := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		time.Sleep(20 * time.Second)
		held, waiting := w.line("x")
		if len(waiting) != 2 || waiting[0] != "b" {
			t.Errorf("b came first, and one Renew was swallowed: held %v, waiting %v", held, waiting)
		}
		l.Unlock()
		for range 2 {
			select {
			case o := <-qb:
				o.l.Unlock()
			case o := <-qc:
				o.l.Unlock()
			}
		}
	})
}

// A NoRenew lease that had to wait begins with its full TTL.
func TestNoRenewIsRaisedFromWaiting(t *testing.T) {
	bubble(t, func(w *world) {
		a, fa := w.client(&Options{Label: "a"})
		b, fb := w.client(&Options{Label: "b"})
		fb.set(func(f *faulty) { f.deaf = true })
		l := mustLock(t, a, "x")
		q := async(func() (*Lease, error) { return b.With(LockOptions{NoRenew: true}).Lock(context.Background(), "x") })
		time.Sleep(5 * time.Second)
		_ = fa
		l.Unlock()
		o := within(t, time.Minute, q, "waiter")
		if o.err != nil {
			t.Fatal(o.err)
		}
		if r := o.l.Remaining(); r < 29*time.Second {
			t.Errorf("NoRenew lease of TTL 30s begins with %v", r)
		}
		o.l.Unlock()
	})
}

// FailFast: the cancelled context of one caller does not fail the others.
func TestCancelledCallerDoesNotFailItsSiblings(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{FailFast: true})
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				select {
				case <-time.After(time.Second):
					return real()
				case <-ctx.Done():
					return engine.Claim{}, ctx.Err()
				}
			}
		})
		ctx, cancel := context.WithCancel(context.Background())
		qa := async(func() (*Lease, error) { return c.Lock(ctx, "x") })
		synctest.Wait()
		qb := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		cancel()
		<-qa
		if o := within(t, time.Minute, qb, "sibling"); o.err != nil {
			t.Errorf("the sibling's context is alive and the engine answers: %v (is context.Canceled: %v)", o.err, errors.Is(o.err, context.Canceled))
		} else if o.l != nil {
			o.l.Unlock()
		}
	})
}

// TryLock of a NoRenew or detached lease answers when Renew fails.
func TestTryLockThatCannotBeRaisedAnswers(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		f.set(func(f *faulty) { f.renew = cutRenew })
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		q := async(func() (*Lease, error) { return c.With(LockOptions{NoRenew: true}).TryLock(ctx, "x") })
		if o := within(t, 10*time.Minute, q, "TryLock, NoRenew"); o.l != nil {
			o.l.Unlock()
		}
	})
}

// Close that overtakes the Leave of an Unlock does not make a proven hold lost.
func TestCloseDuringUnlockLeavesTheTruth(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		l := mustLock(t, c, "x")
		first := true
		f.set(func(f *faulty) {
			f.leave = func(ctx context.Context, cs []engine.Claim, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				if first {
					first = false
					time.Sleep(100 * time.Millisecond)
				} else {
					defer time.Sleep(200 * time.Millisecond) // the answer is late
				}
				return real()
			}
		})
		done := make(chan error)
		go func() { done <- l.Unlock() }()
		synctest.Wait()
		go c.Close()
		if err := <-done; errors.Is(err, ErrLost) {
			t.Errorf("a proven hold: %v", err)
		}
	})
}

// MinHold: the keeper's Leave that overtakes Unlock's Renew is no loss.
func TestEndOfMinHoldDuringUnlockIsNoLoss(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		l, err := c.With(LockOptions{MinHold: time.Second}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(950 * time.Millisecond)
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				time.Sleep(300 * time.Millisecond)
				return real()
			}
		})
		if err := l.Unlock(); errors.Is(err, ErrLost) {
			t.Errorf("a proven hold: %v", err)
		}
	})
}

// The same with the keeper's Leave failing: it is tried again, and the claim is
// forgotten in the end.
func TestLeaveAfterMinHoldIsRetried(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		l, err := c.With(LockOptions{MinHold: time.Second}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(950 * time.Millisecond)
		var n atomic.Int32
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) (cs []engine.Claim, err error) {
				cs, err = real()
				time.Sleep(52 * time.Millisecond) // keptTill passes meanwhile
				return
			}
			f.leave = func(ctx context.Context, cs []engine.Claim, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				if n.Add(1) < 3 {
					return nil, errCut
				}
				return real()
			}
		})
		t.Log(l.Unlock())
		time.Sleep(2 * time.Minute)
		c.core.mu.Lock()
		if m, _ := c.core.machine.Len(); m > 0 {
			t.Errorf("%d claims remembered for ever, %d Leaves tried", m, n.Load())
		}
		c.core.mu.Unlock()
	})
}

// Readers who queued before a local writer get in together.
func TestReadersBeforeALocalWriterGetInTogether(t *testing.T) {
	bubble(t, func(w *world) {
		other, _ := w.client(nil)
		c, f := w.client(nil)
		block := mustLock(t, other, "x")
		var rs []chan outcome
		for range 5 {
			rs = append(rs, async(func() (*Lease, error) { return c.RLock(context.Background(), "x") }))
			synctest.Wait()
		}
		qw := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		block.Unlock()
		synctest.Wait()
		in := 0
		var ls []*Lease
		for _, r := range rs {
			select {
			case o := <-r:
				in++
				ls = append(ls, o.l)
			default:
			}
		}
		j, _, _ := f.calls()
		if in != 5 {
			t.Errorf("%d of 5 readers who came before the writer hold (%d Joins)", in, j)
		}
		for _, l := range ls {
			l.Unlock()
		}
		(<-qw).l.Unlock()
		for _, r := range rs[in:] {
			(<-r).l.Unlock()
		}
	})
}

// Keep and TryLock: none fails, also not when the token has no room for one more
// hand off.
func TestKeptClaimIsNotKeptBeyondItsHandoffs(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(&Options{IdleTimeout: time.Minute})
		for i := range 3000 {
			l, err := c.TryLock(context.Background(), "x")
			if err != nil {
				t.Fatalf("TryLock %d: %v", i, err)
			}
			l.Unlock()
		}
	})
}

// Keep: the TryLock of a caller that holds something takes what is kept idle.
func TestActorTakesWhatIsKept(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(&Options{IdleTimeout: time.Minute})
		mustUnlock(t, mustLock(t, c, "a"))
		b := mustLock(t, c, "b")
		l, err := c.TryLock(b.Context(), "a")
		if err != nil {
			t.Errorf("nobody holds a: %v", err)
		} else {
			l.Unlock()
		}
		b.Unlock()
	})
}

// Detach that finds the lease lost: Unlock says so too, and a revoked claim is
// left.
func TestDetachOfALostLeaseSaysSo(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{Label: "a"})
		f.set(func(f *faulty) { f.deaf = true })
		l, err := c.With(LockOptions{Detached: true}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		e := w.store.Engine()
		defer e.Close()
		if err := e.Revoke(context.Background(), "x", l.Token().Ticket(), false); err != nil {
			t.Fatal(err)
		}
		_, err = l.Detach()
		if !errors.Is(err, ErrLost) {
			t.Fatal(err)
		}
		if err := l.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("Detach said lost, Unlock says %v", err)
		}
		time.Sleep(time.Second)
		w.wantQueue("x", nil, nil)
	})
}

// An engine slower than the first TTL of a claim, and that obeys its context, can
// be locked.
func TestSlowEngineThatObeysItsContextIsLocked(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		slow := func(ctx context.Context) error {
			select {
			case <-time.After(4 * time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				if err := slow(ctx); err != nil {
					return engine.Claim{}, err
				}
				return real()
			}
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				if err := slow(ctx); err != nil {
					return nil, err
				}
				return real()
			}
		})
		l, err := c.With(LockOptions{Wait: 10 * time.Minute}).Lock(context.Background(), "x")
		if err != nil {
			j, _, _ := f.calls()
			t.Errorf("%v (%d Joins)", err, j)
			return
		}
		l.Unlock()
	})
}

// MinHold of more than engine.MaxTTL is kept by several renewals.
func TestMinHoldMayBeLongerThanADay(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(&Options{Label: "a"})
		l, err := c.With(LockOptions{MinHold: 48 * time.Hour}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Hour)
		w.wantQueue("x", []string{"a"}, nil)
	})
}

// Close keeps what MinHold has to keep, also if the lease is still open.
func TestCloseKeepsMinHold(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(&Options{Label: "a"})
		if _, err := c.With(LockOptions{MinHold: time.Minute}).Lock(context.Background(), "x"); err != nil {
			t.Fatal(err)
		}
		c.Close()
		w.wantQueue("x", []string{"a"}, nil)
	})
}

// An error comes without a lease.
func TestErrUpgradeComesAlone(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		r, _ := c.RLock(context.Background(), "x")
		l, err := c.Lock(r.Context(), "x")
		if err != nil && l != nil {
			t.Errorf("%v comes with %p, whose Unlock panics", err, l)
		}
		r.Unlock()
	})
}

// Valid and Remaining count MaxHold.
func TestRemainingEndsWithMaxHold(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		l, _ := c.With(LockOptions{MaxHold: time.Second}).Lock(context.Background(), "x")
		time.Sleep(500 * time.Millisecond)
		if r := l.Remaining(); r > 500*time.Millisecond {
			t.Errorf("MaxHold leaves 500ms, Remaining says %v", r)
		}
		l.Unlock()
	})
}

// A reply that the claim waits, after it was held, proves no lease.
func TestWaitingReplyProvesNoLease(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 3 * time.Second})
		l := mustLock(t, c, "x")
		f.set(func(f *faulty) {
			f.renew = func(ctx context.Context, rs []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				cs, err := real()
				for i := range cs {
					cs[i].State = engine.Waiting
				}
				return cs, err
			}
		})
		time.Sleep(10 * time.Second)
		if l.Valid() {
			t.Error("valid 10 s after the last reply that said Held, TTL 3 s")
		}
		l.Unlock()
	})
}

// A former Join's error does not explain a new one.
func TestOldErrorDoesNotBlameTheEngine(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		f.set(func(f *faulty) {
			f.join = func(context.Context, engine.Request, func() (engine.Claim, error)) (engine.Claim, error) {
				return engine.Claim{}, errCut
			}
			f.leave = cutLeave
		})
		_, err := c.With(LockOptions{Wait: time.Second}).Lock(context.Background(), "x")
		t.Log(err)
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				select {
				case <-time.After(200 * time.Millisecond):
					return real()
				case <-ctx.Done():
					return engine.Claim{}, ctx.Err()
				}
			}
		})
		_, err = c.With(LockOptions{Wait: 100 * time.Millisecond}).Lock(context.Background(), "x")
		if errors.Is(err, errCut) {
			t.Errorf("this Join was not cut, only slow: %v", err)
		}
		f.set(func(f *faulty) { f.leave = nil })
	})
}

// An abandoned claim whose Leave is indeterminate is replaced by the next Join.
func TestOrphanOfACancelledWaiterIsReplaced(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		c, f := w.client(nil)
		l := mustLock(t, a, "x")
		f.set(func(f *faulty) { f.leave = cutLeave })
		if _, err := c.With(LockOptions{Wait: 2 * time.Second}).Lock(context.Background(), "x"); err == nil {
			t.Fatal("held")
		}
		time.Sleep(10 * time.Millisecond)
		q := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		f.mu.Lock()
		r := f.joins[len(f.joins)-1]
		f.mu.Unlock()
		if r.Replaces == (engine.ID{}) {
			t.Error("the next Join does not replace the claim whose Leave is indeterminate")
		}
		start := w.clock()
		l.Unlock()
		o := <-q
		t.Logf("held %v after the queue had room", w.clock()-start)
		f.set(func(f *faulty) { f.leave = nil })
		o.l.Unlock()
	})
}

// One client does not adopt one handle twice.
func TestHandleIsAdoptedOnce(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		l, err := c.With(LockOptions{Detached: true}).Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		h, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		l1, err1 := c.Adopt(context.Background(), h)
		l2, err2 := c.Adopt(context.Background(), h)
		if err1 != nil || err2 != nil {
			return
		}
		time.Sleep(40 * time.Second)
		t.Errorf("both adopted; after 40 s valid: %v %v", l1.Valid(), l2.Valid())
		l1.Unlock()
		time.Sleep(40 * time.Second)
		t.Logf("then: %v", l2.Valid())
		l2.Unlock()
	})
}

// A lock that goes around is held for a moment each time. To wake the keeper for
// each of these claims costs more than the claims do: it must stay set for the
// first of them, although that has gone.
func TestTheKeeperIsNotWokenForEveryHold(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		alarm := func() time.Duration {
			k := b.core
			k.mu.Lock()
			defer k.mu.Unlock()
			return k.asleep
		}
		hold := func() {
			l := mustLock(t, a, "x")
			got := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
			synctest.Wait()
			mustUnlock(t, l)
			mustUnlock(t, (<-got).l)
			synctest.Wait()
		}
		hold()
		first := alarm()
		if first > w.clock()+claims.RaiseAfter {
			t.Fatalf("the keeper looks again at %v, it is %v", first, w.clock())
		}
		for range 10 {
			time.Sleep(claims.RaiseAfter / 20)
			hold()
			if now := alarm(); now != first {
				t.Fatalf("woken for another: it looks again at %v, not at %v", now, first)
			}
		}
		time.Sleep(2 * time.Second)
		if now := alarm(); now != never {
			t.Errorf("nothing to keep, and it looks again at %v; it is %v", now, w.clock())
		}
	})
}

// A Join that was cancelled can arrive behind the Leave that gives it up: on
// another connection. Nobody holds or renews what it then makes.
func TestJoinThatArrivesBehindItsLeaveIsLeftAgain(t *testing.T) {
	bubble(t, func(w *world) {
		a, f := w.client(nil)
		b, _ := w.client(nil)
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				<-ctx.Done()
				go func() {
					time.Sleep(300 * time.Millisecond)
					real()
				}()
				return engine.Claim{}, ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := a.Lock(ctx, "x"); err == nil {
			t.Fatal("held")
		}
		time.Sleep(400 * time.Millisecond) // it has arrived now
		start := w.clock()
		mustUnlock(t, mustLock(t, b, "x"))
		if d := w.clock() - start; d > 500*time.Millisecond {
			t.Errorf("the name was nobody's for %v", d)
		}
		_, _, before := f.calls()
		time.Sleep(time.Minute)
		if _, _, leaves := f.calls(); leaves > before+4 {
			t.Errorf("left %d times more", leaves-before)
		}
	})
}

// One that never arrives is left a few times more, and then forgotten.
func TestJoinThatNeverArrivesIsForgotten(t *testing.T) {
	bubble(t, func(w *world) {
		a, f := w.client(nil)
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
				<-ctx.Done()
				return engine.Claim{}, ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := a.Lock(ctx, "x"); err == nil {
			t.Fatal("held")
		}
		time.Sleep(time.Minute)
		if _, _, leaves := f.calls(); leaves < 2 || leaves > 20 {
			t.Errorf("left %d times", leaves)
		}
		a.core.mu.Lock()
		defer a.core.mu.Unlock()
		if n, m := a.core.machine.Len(); n > 0 || m > 0 {
			t.Error("it is still remembered")
		}
	})
}
