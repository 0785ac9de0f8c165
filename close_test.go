package leasehold

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

// Close gives every claim up before it closes the engine, which then has nothing to
// give up: here it does nothing at all.

type unclosed struct{ *faulty }

func (unclosed) Close() error { return nil }

// remembers is a client whose engine's Close gives up nothing.
func (w *world) remembers(o Options) (*Client, *faulty) {
	w.t.Helper()
	f := &faulty{Engine: w.store.Engine()}
	c, err := New(w.timed(unclosed{f}), &o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _, _ = c.Close(), f.Engine.Close() })
	return c, f
}

func (w *world) empty(why string) {
	w.t.Helper()
	if n := w.store.Len(); n != 0 {
		w.t.Errorf("%s: %d names are taken, want none", why, n)
	}
}

// Whatever a client has: held, waited for, kept for nobody, given up and not yet left,
// re-entered, adopted, and more than one call gives up.
func TestCloseLeavesEveryClaim(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.remembers(Options{IdleTimeout: time.Hour})
		other, _ := w.client(nil)
		for i := range claims.MaxBatch + 100 {
			mustLock(t, c, fmt.Sprint(i))
		}
		mustUnlock(t, mustLock(t, c, "kept"))
		outer := mustLock(t, c.With(LockOptions{Reentrant: true}), "re-entered")
		if _, err := c.With(LockOptions{Reentrant: true}).Lock(outer.Context(), "re-entered"); err != nil {
			t.Fatal(err)
		}
		l := mustLock(t, other.With(LockOptions{Detached: true}), "adopted")
		handle, err := l.Detach()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Adopt(context.Background(), handle); err != nil {
			t.Fatal(err)
		}
		theirs := mustLock(t, other, "theirs")
		waits := async(func() (*Lease, error) { return c.Lock(context.Background(), "theirs") })
		synctest.Wait()
		// One that was given up while it waited, and whose Leave failed.
		again := mustLock(t, other, "given up")
		ctx, cancel := context.WithCancel(context.Background())
		gave := async(func() (*Lease, error) { return c.Lock(ctx, "given up") })
		synctest.Wait()
		f.set(func(f *faulty) { f.leave = cutLeave })
		cancel()
		<-gave
		synctest.Wait()
		f.set(func(f *faulty) { f.leave = nil })

		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if o := <-waits; !errors.Is(o.err, ErrClosed) {
			t.Error(o.err)
		}
		mustUnlock(t, theirs)
		mustUnlock(t, again)
		w.empty("its client was closed")
	})
}

// A Join that is under way when Close comes is cut short, and its claim left after
// that: of the caller's own goroutine and of one of the client's.
func TestCloseLeavesWhatAJoinUnderWayMakes(t *testing.T) {
	for what, answered := range map[string]bool{"answered": true, "not answered": false} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in a goroutine of its own: %v", what, own), func(t *testing.T) {
				bubble(t, func(w *world) {
					c, f := w.remembers(Options{})
					if own { // the first attempt fails, and the client makes the second
						f.set(func(f *faulty) {
							f.join = func(context.Context, engine.Request, func() (engine.Claim, error)) (engine.Claim, error) {
								return engine.Claim{}, errCut
							}
						})
					}
					late := func(ctx context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
						<-ctx.Done()
						got, err := real() // it was on its way
						if !answered {
							return engine.Claim{}, ctx.Err()
						}
						return got, err
					}
					if !own {
						f.set(func(f *faulty) { f.join = late })
					}
					got := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
					synctest.Wait()
					f.set(func(f *faulty) { f.join = late })
					time.Sleep(60 * time.Millisecond) // until the second attempt
					start := time.Now()
					if err := c.Close(); err != nil || time.Since(start) > 0 {
						t.Errorf("Close: %v after %v", err, time.Since(start))
					}
					if o := <-got; !errors.Is(o.err, ErrClosed) {
						t.Error(o.err)
					}
					w.empty("its client was closed")
				})
			})
		}
	}
}

// One that an engine holds up whatever its context says, and that arrives after
// everything: Close does not wait for ever, and the claim ends by its WaitTTL.
func TestAJoinThatOutlivesCloseMakesAClaimOfOneWaitTTL(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.remembers(Options{})
		var born time.Duration
		f.set(func(f *faulty) {
			f.join = func(_ context.Context, r engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
				time.Sleep(time.Minute)
				born = r.WaitTTL
				return real()
			}
		})
		got := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > closeBound+time.Minute {
			t.Errorf("Close took %v", took)
		}
		if o := <-got; !errors.Is(o.err, ErrClosed) {
			t.Error(o.err)
		}
		other, _ := w.client(nil)
		time.Sleep(born)
		if l, err := other.TryLock(context.Background(), "x"); err != nil {
			t.Error(err)
		} else {
			mustUnlock(t, l)
		}
	})
}

// The Leave that makes room for a TryLock is no Unlock's: Close does not wait for it, so it
// leaves the claim itself.
func TestCloseLeavesWhatMakesRoomForATry(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.remembers(Options{IdleTimeout: time.Hour})
		mustUnlock(t, mustLock(t, c, "x"))
		f.set(func(f *faulty) {
			f.leave = func(ctx context.Context, _ []engine.Claim, _ func() ([]engine.Claim, error)) ([]engine.Claim, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		})
		try := async(func() (*Lease, error) { return c.TryRLock(context.Background(), "x") })
		synctest.Wait()
		f.set(func(f *faulty) { f.leave = nil })
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if o := <-try; !errors.Is(o.err, ErrClosed) {
			t.Error(o.err)
		}
		w.empty("its client was closed")
	})
}
