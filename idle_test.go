package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// The client that merely keeps a name hears that somebody was refused because of
// it, and gives it back. Where that is done before the one who was refused has
// looked who holds the name, it asks once more.
func TestATryLockThatWasRefusedByAKeptNameAsksOnceMore(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{IdleTimeout: time.Minute})
		b, fb := w.client(nil)
		mustUnlock(t, mustLock(t, a, "x"))
		synctest.Wait()
		fb.set(func(f *faulty) {
			f.join = func(_ context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				defer synctest.Wait() // the answer takes as long as the notification and what it leads to
				return real()
			}
		})
		l, err := b.TryLock(context.Background(), "x")
		if err != nil {
			t.Fatalf("nobody used the name: %v", err)
		}
		if j, _, _ := fb.calls(); j != 2 {
			t.Errorf("%d joins, want 2", j)
		}
		mustUnlock(t, l)
	})
}

// Once, and only if the queue is empty: TryLock does not poll.
func TestATryLockAsksTwiceAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		gone bool // whoever refused it has left by then
		want int
	}{"held by somebody who stays": {false, 1}, "always held by another": {true, 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				a, _ := w.client(nil)
				b, fb := w.client(nil)
				var l *Lease
				fb.set(func(f *faulty) {
					f.join = func(_ context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
						l = mustLock(t, a, "x")
						if c.gone {
							defer mustUnlock(t, l)
						}
						return real()
					}
				})
				gaveUp := w.clock()
				if _, err := b.TryLock(context.Background(), "x"); !errors.Is(err, ErrHeld) {
					t.Fatalf("error %v, want ErrHeld", err)
				}
				if j, _, _ := fb.calls(); j != c.want {
					t.Errorf("%d joins, want %d", j, c.want)
				}
				if d := w.clock() - gaveUp; d != 0 {
					t.Errorf("it waited %v", d)
				}
				if !c.gone {
					mustUnlock(t, l)
				}
			})
		})
	}
}

// A client does not refuse its own TryLock by what it keeps in the other mode.
func TestWhatIsKeptDoesNotRefuseTheOtherMode(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{IdleTimeout: time.Minute})
		ctx := context.Background()
		for range 3 {
			mustUnlock(t, mustLock(t, c, "x"))
			r, err := c.TryRLock(ctx, "x")
			if err != nil {
				t.Fatalf("shared, while it is kept exclusively: %v", err)
			}
			mustUnlock(t, r)
			l, err := c.TryLock(ctx, "x")
			if err != nil {
				t.Fatalf("exclusively, while it is kept shared: %v", err)
			}
			// One that is in use is not given back.
			if _, err := c.TryRLock(ctx, "x"); !errors.Is(err, ErrHeld) || !l.Valid() {
				t.Errorf("error %v, valid %v", err, l.Valid())
			}
			mustUnlock(t, l)
		}
		// What is indeterminate is left again, and refuses nobody for long.
		mustUnlock(t, mustLock(t, c, "y"))
		f.set(func(f *faulty) { f.leave = cutLeave })
		if _, err := c.TryRLock(ctx, "y"); !errors.Is(err, ErrHeld) {
			t.Errorf("error %v, want ErrHeld", err)
		}
		f.set(func(f *faulty) { f.leave = nil })
		time.Sleep(time.Second)
		w.wantQueue("y", nil, nil)
	})
}

// The names of a LockAll that failed are free.
func TestAFailedLockAllKeepsNothing(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(&Options{IdleTimeout: time.Minute, Label: "c"})
		other, _ := w.client(&Options{Label: "other"})
		l := mustLock(t, other, "b")
		if _, err := c.TryLockAll(context.Background(), "a", "b"); !errors.Is(err, ErrHeld) {
			t.Fatal(err)
		}
		w.wantQueue("a", nil, nil)
		mustUnlock(t, l)
		synctest.Wait()
		all, err := c.LockAll(context.Background(), "a", "b")
		if err != nil {
			t.Fatal(err)
		}
		if err := all.Unlock(); err != nil {
			t.Fatal(err)
		}
		w.wantQueue("a", []string{"c"}, nil) // one that succeeded is kept
	})
}
