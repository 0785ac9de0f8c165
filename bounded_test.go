package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestBoundedEnds(t *testing.T) {
	for name, c := range map[string]struct {
		parent func() (context.Context, context.CancelFunc)
		want   error
	}{
		"at its deadline": {func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }, context.DeadlineExceeded},
		"at the parent's, before": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(context.Background(), time.Second)
		}, context.DeadlineExceeded},
		"with the parent": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(context.Background())
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := c.parent()
				defer cancel()
				b := withBound(parent, time.Minute)
				defer b.end()
				if err := b.Err(); err != nil {
					t.Fatal(err)
				}
				<-b.Done() // a bubble's time goes on until it is closed
				if err := b.Err(); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
				if at, ok := b.Deadline(); !ok || c.want == context.DeadlineExceeded && time.Now().Before(at) {
					t.Errorf("deadline %v, now %v", at, time.Now())
				}
			})
		})
	}
}

// A child of a bounded context ends with it, and its wait leaves no goroutine
// behind once the child is cancelled: goleak looks.
func TestBoundedAsParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withBound(t.Context(), time.Second)
		defer b.end()
		child, cancel := context.WithCancel(b)
		defer cancel()
		<-child.Done()
		if err := child.Err(); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func TestBoundedMakesNothingUntilDone(t *testing.T) {
	ctx := context.Background()
	n := testing.AllocsPerRun(100, func() {
		b := withBound(ctx, time.Minute)
		_ = b.Err()
		b.end()
	})
	if n > 1 {
		t.Errorf("%v pieces of memory, want one", n)
	}
}

// Package context panics, in a goroutine of its own, where a child's parent is
// done and has no error. A call's own children (a bound of the client library's)
// often end at the same moment as the call.
func TestBoundedThatEndedHasAnError(t *testing.T) {
	b := withBound(t.Context(), time.Minute)
	done := b.Done()
	b.end()
	<-done
	if err := b.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("done, with the error %v, want %v", err, context.Canceled)
	}
}
