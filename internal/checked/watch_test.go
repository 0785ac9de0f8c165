package checked

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// cut is an engine whose subscriptions do as they are told.
type cut struct {
	asked
	at    []time.Time
	watch func(ctx context.Context, n int, changed func(engine.Claim)) error
}

func (c *cut) Watch(ctx context.Context, changed func(engine.Claim)) error {
	c.at = append(c.at, time.Now())
	return c.watch(ctx, len(c.at), changed)
}

// A subscription that broke begins again soon, however often; one that does not begin
// is tried again less and less often, and that is told.
func TestAWatchThatBrokeBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fails = 20 // from the 4th to the 23rd
		c := &cut{}
		c.watch = func(ctx context.Context, n int, changed func(engine.Claim)) error {
			if n > 3 && n <= 3+fails {
				return errSaid
			}
			changed(engine.Claim{})
			if n < 30 {
				time.Sleep(time.Minute)
				return errors.New("it broke")
			}
			<-ctx.Done()
			return ctx.Err()
		}
		ctx, cancel := context.WithCancel(t.Context())
		begun, failed, ended := 0, 0, make(chan struct{})
		go func() {
			defer close(ended)
			New(c).KeepWatching(ctx, func(engine.Claim) { begun++ }, func(err error) {
				if failed++; !errors.Is(err, errSaid) {
					t.Error(err)
				}
			})
		}()
		time.Sleep(time.Hour)
		synctest.Wait()
		cancel()
		<-ended
		if begun != 10 || failed != fails {
			t.Errorf("%d subscriptions began and %d failed, want 10 and %d", begun, failed, fails)
		}
		for i := range len(c.at) - 1 {
			pause := c.at[i+1].Sub(c.at[i])
			most := min(shortest<<max(0, i-2), longest) // the pause before doubles with each that failed
			if n := i + 1; n <= 3 || n > 3+fails {
				pause, most = pause-time.Minute, shortest
			}
			if pause < most/2 || pause > most {
				t.Errorf("after subscription %d a pause of %v, want %v to %v", i+1, pause, most/2, most)
			}
		}
	})
}

// That a subscription does not begin is told from the first one on.
func TestAFirstWatchThatFailsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := &cut{watch: func(context.Context, int, func(engine.Claim)) error { return errSaid }}
		var told error
		New(c).KeepWatching(ctx, func(engine.Claim) {}, func(err error) {
			told = err
			cancel()
		})
		if n := len(c.at); n != 1 || !errors.Is(told, errSaid) {
			t.Errorf("told %v after %d subscriptions, want %v after the first", told, n, errSaid)
		}
	})
}

// A server that cuts each subscription as soon as it began is not asked at full speed.
func TestASubscriptionThatIsCutAtOnceIsNotAskedForAtFullSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cut{}
		c.watch = func(_ context.Context, _ int, changed func(engine.Claim)) error {
			changed(engine.Claim{})
			return errors.New("it broke")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		New(c).KeepWatching(ctx, func(engine.Claim) {}, func(err error) { t.Error(err) })
		if n := len(c.at); n < 60 || n > 130 {
			t.Errorf("%d subscriptions in a minute, want one or two a second", n)
		}
	})
}

// Close ends a Watch, one that waits to begin again, and whatever the engine makes of
// it the answer is engine.ErrClosed.
func TestCloseEndsWatching(t *testing.T) {
	for what, watch := range map[string]func(context.Context, int, func(engine.Claim)) error{
		"under way": func(ctx context.Context, _ int, changed func(engine.Claim)) error {
			changed(engine.Claim{})
			<-ctx.Done()
			return ctx.Err()
		},
		"failing": func(context.Context, int, func(engine.Claim)) error { return errSaid },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cut{watch: watch}
				e := New(c)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					e.KeepWatching(t.Context(), func(engine.Claim) {}, func(error) {})
				}()
				synctest.Wait()
				closed := time.Now()
				_ = e.Close()
				<-ended
				if took := time.Since(closed); took != 0 {
					t.Errorf("it went on for %v after Close", took)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		e := New(&asked{})
		said := make(chan error)
		go func() { said <- e.Watch(t.Context(), func(engine.Claim) {}) }()
		synctest.Wait()
		_ = e.Close()
		if err := <-said; !errors.Is(err, engine.ErrClosed) {
			t.Error(err)
		}
	})
}
