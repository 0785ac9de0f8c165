package redislock

import "time"

// Calls on the lane and in groups do not wait for their contexts: that takes a
// timer or a channel for each, and a timer that is set for each call wakes a
// thread for each call. Instead one timer, which runs only while there are
// calls, looks every tick at whose context has ended. A healthy server answers
// in a fraction of a tick, so that only delays the cancellation of calls that a
// server leaves without an answer.
const (
	tick    = 50 * time.Millisecond
	longest = int(10 * time.Second / tick) // for a call, whatever its deadline
)

// guard has the calls under way looked after.
func (e *server) guard() {
	if !e.guarded.Load() && e.guarded.CompareAndSwap(false, true) {
		time.AfterFunc(tick, e.look)
	}
}

func (e *server) look() {
	e.overdueLane()
	if flying := e.overdueGroup(); flying || e.busy.Load() > 0 {
		time.AfterFunc(tick, e.look)
		return
	}
	e.guarded.Store(false)
	if e.busy.Load() > 0 {
		e.guard() // it came in between and saw us still at it
	}
}
