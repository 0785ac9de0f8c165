package redislock

import (
	"runtime"
	"sync/atomic"
	"testing"

	"leasehold/engine"
)

// attendee is an engine whose Watch tells who called changed.
type attendee struct {
	*Engine
	began chan struct{} // a subscription
	heard chan bool     // whether it was by who attends
}

func newAttendee(t *testing.T, e *Engine) *attendee {
	a := &attendee{Engine: e, began: make(chan struct{}, 100), heard: make(chan bool, 100)}
	go e.Watch(t.Context(), func(c engine.Claim) {
		if c.ID == (engine.ID{}) {
			a.began <- struct{}{}
			return
		}
		a.heard <- attends()
	})
	<-a.began
	return a
}

// attends says whether this goroutine is in Attend.
func attends() bool {
	pc := make([]uintptr, 50)
	frames := runtime.CallersFrames(pc[:runtime.Callers(1, pc)])
	for more := true; more; {
		var f runtime.Frame
		if f, more = frames.Next(); f.Function == "leasehold/engine/redislock.(*Engine).Attend" {
			return true
		}
	}
	return false
}

// next waits for a claim that another holds, and says by whom it heard of that.
// How it waits is up to the caller.
func (a *attendee) next(t *testing.T, other *Engine, wait func(over func() bool)) bool {
	t.Helper()
	c := join(t, other, exclusive("x"))
	mine := join(t, a, exclusive("x"))
	var over atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait(over.Load)
	}()
	leave(t, other, c)
	by := <-a.heard
	over.Store(true)
	a.Interrupt()
	<-done
	leave(t, a, mine)
	return by
}

func TestEngineIsAttended(t *testing.T) {
	r := redis(t, nil)
	other := open(t, "redis://"+r.Addr).(*Engine)
	c := connect(t, r.Addr)
	attendsSoon := func(t *testing.T, a *attendee) {
		t.Helper()
		until(t, "nobody ever attends", func() bool {
			return a.next(t, other, func(over func() bool) {
				for !over() {
					a.Attend(over)
				}
			})
		})
	}
	t.Run("opened by its URL", func(t *testing.T) {
		a := newAttendee(t, open(t, "redis://"+r.Addr).(*Engine))
		attendsSoon(t, a)
		if a.next(t, other, func(func() bool) {}) {
			t.Error("who does not attend hears it from who does")
		}
		if err := c.Do(t.Context(), c.B().ClientKill().TypePubsub().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		<-a.began
		attendsSoon(t, a) // on another connection
	})
	t.Run("with the caller's client", func(t *testing.T) {
		a := newAttendee(t, newEngine(t, r.Addr))
		for range 10 {
			if a.next(t, other, a.Attend) {
				t.Error("it cannot be attended")
			}
		}
	})
}
