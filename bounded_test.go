package leasehold

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type boundedKey struct{}

// over says that Done is closed and Err as wanted, whichever is asked first.
func over(t *testing.T, b context.Context, want error) {
	t.Helper()
	select {
	case <-b.Done():
	default:
		t.Error("Done is open")
	}
	if err := b.Err(); err != want {
		t.Errorf("Err: %v, want %v", err, want)
	}
}

func alive(t *testing.T, b context.Context) {
	t.Helper()
	select {
	case <-b.Done():
		t.Error("Done is closed")
	default:
	}
	if err := b.Err(); err != nil {
		t.Errorf("Err: %v", err)
	}
}

// TestBoundedEnds ends one in each way, with Done asked for before, after, or
// only once Err has spoken.
func TestBoundedEnds(t *testing.T) {
	for name, c := range map[string]struct {
		want   error
		parent time.Duration // its own bound, if it has one
		end    func(b *bounded, cancel func())
	}{
		"at its deadline":       {context.DeadlineExceeded, 0, func(*bounded, func()) { time.Sleep(time.Second) }},
		"long after it":         {context.DeadlineExceeded, 0, func(*bounded, func()) { time.Sleep(time.Hour) }},
		"at its parent's":       {context.DeadlineExceeded, time.Second / 2, func(*bounded, func()) { time.Sleep(time.Second / 2) }},
		"with its parent":       {context.Canceled, 0, func(_ *bounded, cancel func()) { cancel() }},
		"by end":                {context.Canceled, 0, func(b *bounded, _ func()) { b.end() }},
		"by end, twice":         {context.Canceled, 0, func(b *bounded, _ func()) { b.end(); b.end() }},
		"by end, parent later":  {context.Canceled, 0, func(b *bounded, cancel func()) { b.end(); cancel() }},
		"before its deadline":   {nil, 0, func(*bounded, func()) { time.Sleep(time.Second - 1) }},
		"before its parent's":   {nil, time.Second / 2, func(*bounded, func()) { time.Sleep(time.Second/2 - 1) }},
		"not by a later parent": {context.DeadlineExceeded, 2 * time.Second, func(*bounded, func()) { time.Sleep(time.Second) }},
	} {
		for when, ask := range map[string]func(b *bounded) <-chan struct{}{
			"Done asked before":    func(b *bounded) <-chan struct{} { return b.Done() },
			"Done asked after":     func(*bounded) <-chan struct{} { return nil },
			"Err asked before too": func(b *bounded) <-chan struct{} { b.Err(); return nil },
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					parent, cancel := context.WithCancel(t.Context())
					defer cancel()
					if c.parent > 0 {
						p, stop := context.WithTimeout(parent, c.parent)
						defer stop()
						parent = p
					}
					b := withBound(parent, context.Background(), time.Second)
					defer b.end()
					done := ask(b)
					c.end(b, cancel)
					synctest.Wait()
					if done == nil {
						if err := b.Err(); err != c.want {
							t.Errorf("Err, before Done was asked for: %v, want %v", err, c.want)
						}
					} else if b.Done() != done {
						t.Error("Done is another channel")
					}
					if c.want == nil {
						alive(t, b)
					} else {
						over(t, b, c.want)
					}
					b.end()
					synctest.Wait()
					if want := c.want; want == nil {
						over(t, b, context.Canceled)
					} else {
						over(t, b, want) // the first reason stays
					}
				})
			})
		}
	}
}

func TestBoundedDeadlineIsTheEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := time.Now()
		for parent, want := range map[time.Duration]time.Duration{time.Second: time.Second, time.Hour: time.Minute} {
			ctx, cancel := context.WithTimeout(t.Context(), parent)
			b := withBound(ctx, context.Background(), time.Minute)
			if at, ok := b.Deadline(); !ok || !at.Equal(now.Add(want)) {
				t.Errorf("%v %v, want %v", at.Sub(now), ok, want)
			}
			b.end()
			cancel()
		}
		b := withBound(context.Background(), context.Background(), time.Minute)
		if at, ok := b.Deadline(); !ok || !at.Equal(now.Add(time.Minute)) {
			t.Errorf("%v %v", at.Sub(now), ok)
		}
		b.end()
	})
}

// TestBoundedWakesWhoWaits waits for Done before it ends: the channel that was
// handed out must be the one that closes.
func TestBoundedWakesWhoWaits(t *testing.T) {
	for name, end := range map[string]func(b *bounded, cancel func()){
		"at the deadline": func(*bounded, func()) {},
		"by the parent":   func(_ *bounded, cancel func()) { cancel() },
		"by end":          func(b *bounded, _ func()) { b.end() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				b := withBound(ctx, context.Background(), time.Second)
				defer b.end()
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() { <-b.Done() })
				}
				synctest.Wait()
				end(b, cancel)
				all.Wait()
				if b.Err() == nil {
					t.Error("Done is closed, and Err is nil")
				}
			})
		})
	}
}

// TestBoundedEndsWithTheSecond: whoever asked for Done before, and who asks after.
func TestBoundedEndsWithTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		also, cancel := context.WithCancel(t.Context())
		before, after := withBound(t.Context(), also, time.Minute), withBound(t.Context(), also, time.Minute)
		defer before.end()
		defer after.end()
		done := before.Done()
		alive(t, before)
		cancel()
		<-done
		over(t, before, context.Canceled)
		over(t, after, context.Canceled)
		<-after.Done()
	})
}

// TestBoundedAsParent makes contexts from one. They must end with it, keep its
// error, and leave no goroutine: synctest waits for all, and so does TestMain.
func TestBoundedAsParent(t *testing.T) {
	ends := map[string]struct {
		want error
		end  func(b *bounded, cancel func())
	}{
		"at the deadline": {context.DeadlineExceeded, func(*bounded, func()) { time.Sleep(time.Second) }},
		"by the parent":   {context.Canceled, func(_ *bounded, cancel func()) { cancel() }},
		"by end":          {context.Canceled, func(b *bounded, _ func()) { b.end() }},
	}
	for name, c := range ends {
		for _, asked := range []bool{false, true} {
			t.Run(map[bool]string{false: name, true: name + ", Done asked for before"}[asked], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					b := withBound(ctx, context.Background(), time.Second)
					defer b.end()
					if asked {
						b.Done()
					}
					child, stop := context.WithCancel(b)
					defer stop()
					later, stop2 := context.WithTimeout(b, time.Hour)
					defer stop2()
					cause, stop3 := context.WithCancelCause(b)
					defer stop3(nil)
					ran := make(chan struct{})
					context.AfterFunc(b, func() { close(ran) })
					synctest.Wait()
					for _, x := range []context.Context{child, later, cause} {
						alive(t, x)
					}
					c.end(b, cancel)
					synctest.Wait()
					for _, x := range []context.Context{child, later, cause} {
						over(t, x, c.want)
						if err := context.Cause(x); err != c.want {
							t.Errorf("Cause: %v", err)
						}
					}
					select {
					case <-ran:
					default:
						t.Error("AfterFunc has not run")
					}
				})
			})
		}
	}
	t.Run("ended already", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := withBound(t.Context(), context.Background(), time.Second)
			b.end()
			child, stop := context.WithCancel(b)
			defer stop()
			over(t, child, context.Canceled)
			ran := make(chan struct{})
			context.AfterFunc(b, func() { close(ran) })
			<-ran
		})
	})
	t.Run("without a goroutine that waits", func(t *testing.T) {
		b := withBound(t.Context(), context.Background(), time.Hour)
		before := runtime.NumGoroutine()
		for range 100 {
			_, stop := context.WithCancel(b)
			defer stop()
			defer context.AfterFunc(b, func() {})()
		}
		if n := runtime.NumGoroutine() - before; n > 50 {
			t.Errorf("%d goroutines more", n)
		}
		b.end()
	})
	t.Run("a child does not end it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := withBound(t.Context(), context.Background(), time.Second)
			defer b.end()
			child, stop := context.WithCancel(b)
			stop()
			over(t, child, context.Canceled)
			if undo := context.AfterFunc(b, func() { t.Error("AfterFunc ran though it was stopped") }); !undo() {
				t.Error("AfterFunc could not be stopped")
			}
			alive(t, b)
		})
	})
}

func TestBoundedPassesValuesThrough(t *testing.T) {
	ctx := context.WithValue(t.Context(), boundedKey{}, "value")
	b := withBound(ctx, context.Background(), time.Minute)
	defer b.end()
	for range 2 { // before and after Done was asked for
		if v := b.Value(boundedKey{}); v != "value" {
			t.Errorf("%v", v)
		}
		if v := b.Value("absent"); v != nil {
			t.Errorf("%v", v)
		}
		b.Done()
	}
	type key struct{}
	child := context.WithValue(b, key{}, 1)
	if v := child.Value(boundedKey{}); v != "value" {
		t.Errorf("%v", v)
	}
}

// TestBoundedKeepsTheCause of a parent that was cancelled with one.
func TestBoundedKeepsTheCause(t *testing.T) {
	why := errors.New("why")
	for _, asked := range []bool{false, true} {
		ctx, cancel := context.WithCancelCause(t.Context())
		b := withBound(ctx, context.Background(), time.Minute)
		if asked {
			b.Done()
		}
		cancel(why)
		if err := context.Cause(b); err != why {
			t.Errorf("Done asked for before, %v: %v", asked, err)
		}
		b.end()
	}
}

// TestBoundedByManyAtOnce is for the race detector.
func TestBoundedByManyAtOnce(t *testing.T) {
	for range 100 {
		ctx, cancel := context.WithCancel(t.Context())
		b := withBound(ctx, context.Background(), time.Minute)
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				switch i {
				case 0:
					b.end()
				case 1:
					cancel()
				case 2:
					b.Value(boundedKey{})
				case 3:
					b.Deadline()
				default:
					b.Err()
					<-b.Done()
					if b.Err() == nil {
						t.Error("Done is closed, and Err is nil")
					}
				}
			})
		}
		all.Wait()
		cancel()
	}
}

func TestBoundedCostsNothingUntilDone(t *testing.T) {
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		b := withBound(ctx, context.Background(), time.Minute)
		b.Deadline()
		if b.Err() != nil {
			t.Error("it has ended")
		}
		b.end()
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// Package context panics, in a goroutine of its own, where a child's parent is
// done and has no error. A call's own children (a bound of the client library's)
// often end at the same moment as the call.
func TestBoundedThatEndedHasAnError(t *testing.T) {
	b := withBound(t.Context(), context.Background(), time.Minute)
	done := b.Done()
	b.end()
	<-done
	if err := b.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("done, with the error %v, want %v", err, context.Canceled)
	}
}
