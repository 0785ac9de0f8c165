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
)

// slowJoins makes each Join take a second.
func slowJoins(f *faulty) {
	f.join = func(_ context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
		time.Sleep(time.Second)
		return real()
	}
}

func TestLockAllAsksForFreeNamesAtOnce(t *testing.T) {
	for name, near := range map[string]bool{"far": false, "near": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.near = near
				c, f := w.client(nil)
				f.set(slowJoins)
				began := time.Now()
				all, err := c.LockAll(context.Background(), "c", "a", "b")
				if err != nil {
					t.Fatal(err)
				}
				want := time.Second // of three Joins at the same time
				if near {
					want *= 3 // nothing is gained there, so one is asked for after the other
				}
				if took := time.Since(began); took != want {
					t.Errorf("three Joins of a second took %v, want %v", took, want)
				}
				for i, l := range all.Leases() {
					if name := string(rune('a' + i)); l.Name() != name {
						t.Errorf("lease %d is of %q, want %q", i, l.Name(), name)
					}
				}
				// A caller under the last of them holds all.
				if _, err := c.TryLock(all.Leases()[2].Context(), "a"); !errors.Is(err, ErrReentry) {
					t.Errorf("TryLock of the first name under the last lease: %v", err)
				}
				if err := all.Unlock(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Nobody holds a later name who waits for an earlier one: that is the order which
// excludes a cycle.
func TestLockAllHoldsNothingBehindTheNameItWaitsFor(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		a, fa := w.client(&Options{Label: "a", IdleTimeout: time.Minute}) // nor for nobody
		b, _ := w.client(&Options{Label: "b"})
		held := mustLock(t, b, "2")
		var all *Leases
		done := async(func() (_ *Lease, err error) {
			all, err = a.LockAll(ctx, "1", "2", "3", "4")
			return nil, err
		})
		synctest.Wait()
		w.wantQueue("1", []string{"a"}, nil)
		w.wantQueue("2", []string{"b"}, []string{"a"})
		w.wantQueue("3", nil, nil)
		w.wantQueue("4", nil, nil)
		fa.set(func(f *faulty) {
			last := f.joins[len(f.joins)-1]
			if last.Name != "2" || last.NoWait || len(last.Owner.Holds) != 1 || last.Owner.Holds[0].Name != "1" {
				t.Errorf("it waits with %+v", last)
			}
			f.joins = nil
		})
		mustUnlock(t, held)
		if o := <-done; o.err != nil {
			t.Fatal(o.err)
		}
		fa.set(func(f *faulty) {
			if len(f.joins) != 2 || len(f.joins[1].Owner.Holds) != 3 {
				t.Errorf("behind the name it waited for it asked by %+v", f.joins)
			}
		})
		if err := all.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// For contended names asking for all at once is work for nothing.
func TestLockAllAsksForContendedNamesInTurn(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		a, fa := w.client(nil)
		b, _ := w.client(nil)
		tries := func() (n int) {
			fa.set(func(f *faulty) {
				for _, r := range f.joins {
					if r.NoWait {
						n++
					}
				}
				f.joins = nil
			})
			return n
		}
		ask := func() {
			l := mustLock(t, b, "2")
			if _, err := a.With(LockOptions{Wait: time.Millisecond}).LockAll(ctx, "1", "2", "3"); !errors.Is(err, ErrHeld) {
				t.Fatal(err)
			}
			mustUnlock(t, l)
		}
		ask()
		if n := tries(); n != 3 {
			t.Errorf("%d tries, want 3", n)
		}
		ask()
		if n := tries(); n != 0 {
			t.Errorf("%d tries just after one was refused", n)
		}
		time.Sleep(probePause)
		ask()
		if n := tries(); n != 3 {
			t.Errorf("%d tries a pause later, want 3", n)
		}
		time.Sleep(probePause)
		all, err := a.With(LockOptions{MinHold: time.Minute}).LockAll(ctx, "1", "2", "3")
		if err != nil {
			t.Fatal(err)
		}
		if n := tries(); n != 0 {
			t.Errorf("%d tries with MinHold, which would keep what is given back", n)
		}
		if err := all.Unlock(); err != nil {
			t.Error(err)
		}
	})
}

// The tries of a call that goes on are nobody's events, and ask nobody who holds.
func TestLockAllReportsOneEnd(t *testing.T) {
	bubble(t, func(w *world) {
		ctx := context.Background()
		var gaveUp atomic.Int32
		a, fa := w.client(&Options{Observer: func(e Event) {
			if e.Kind == EventGaveUp {
				gaveUp.Add(1)
			}
		}})
		b, _ := w.client(nil)
		held := mustLock(t, b, "2")
		done := async(func() (*Lease, error) {
			all, err := a.LockAll(ctx, "1", "2")
			if err == nil {
				err = all.Unlock()
			}
			return nil, err
		})
		synctest.Wait()
		mustUnlock(t, held)
		if o := <-done; o.err != nil || gaveUp.Load() != 0 || fa.looks() != 0 {
			t.Errorf("%v; %d gave up, %d looks", o.err, gaveUp.Load(), fa.looks())
		}
		time.Sleep(probePause)
		held = mustLock(t, b, "2")
		_, err := a.TryLockAll(ctx, "1", "2")
		if by, ok := errors.AsType[*HeldError](err); !ok || len(by.By) != 1 || gaveUp.Load() != 1 {
			t.Errorf("%v; %d gave up", err, gaveUp.Load())
		}
		mustUnlock(t, held)
	})
}

// An engine that is silent until the caller's time is up is the reason.
func TestLockAllOfASilentEngine(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		f.set(func(f *faulty) {
			f.join = func(ctx context.Context, _ engine.Request, _ func() (engine.Claim, error)) (engine.Claim, error) {
				<-ctx.Done()
				return engine.Claim{}, ctx.Err()
			}
		})
		for range 20 { // a call that goes on after its end may by chance give the same reason
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			began := time.Now()
			_, err := c.LockAll(ctx, "1", "2")
			if took := time.Since(began); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) || took > time.Second+sayBound {
				t.Errorf("after %v: %v", took, err)
			}
			cancel()
			time.Sleep(2 * probePause) // the next call asks at once again
		}
	})
}

// A name that was refused before the context ended is part of the end: the error names it, and says
// how the context ended.
func TestLockAllSaysHowItsContextEnded(t *testing.T) {
	for _, c := range []struct {
		what string
		end  func(cancel context.CancelFunc)
		is   error
		held bool
	}{
		{"cancelled", func(cancel context.CancelFunc) { cancel() }, context.Canceled, false},
		{"too late", func(context.CancelFunc) { time.Sleep(time.Minute) }, context.DeadlineExceeded, true},
	} {
		t.Run(c.what, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, f := w.client(nil)
				b, _ := w.client(nil)
				held := mustLock(t, b, "1")
				f.set(func(f *faulty) { // the second name's node is stopped
					f.join = func(ctx context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
						if r.Name == "2" {
							<-ctx.Done()
							return engine.Claim{}, ctx.Err()
						}
						return real()
					}
				})
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				done := async(func() (*Lease, error) {
					_, err := a.LockAll(ctx, "1", "2")
					return nil, err
				})
				synctest.Wait()
				c.end(cancel)
				if o := <-done; !errors.Is(o.err, c.is) || errors.Is(o.err, ErrHeld) != c.held || !strings.Contains(o.err.Error(), `"1"`) {
					t.Error(o.err)
				}
				mustUnlock(t, held)
			})
		})
	}
}
