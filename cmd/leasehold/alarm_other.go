//go:build !linux

package main

import (
	"time"

	"leasehold/internal/boottime"
)

// alarm is a timer by package boottime. Timers may stop while a machine is
// suspended, so this one looks at the clock every second.
type alarm struct {
	fire  chan struct{}
	moved chan time.Duration
	done  chan struct{}
	set   time.Duration
}

func newAlarm() (*alarm, error) {
	a := &alarm{fire: make(chan struct{}, 1), moved: make(chan time.Duration), done: make(chan struct{})}
	go func() {
		var at time.Duration
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		for {
			select {
			case at = <-a.moved:
			case <-timer.C:
			case <-a.done:
				return
			}
			left := time.Hour
			if at != 0 {
				if left = at - boottime.Now(); left <= 0 {
					at, left = 0, time.Hour
					select {
					case a.fire <- struct{}{}:
					default:
					}
				}
			}
			timer.Reset(min(left, time.Second))
		}
	}()
	return a, nil
}

func (a *alarm) c() <-chan struct{} { return a.fire }

// at sets the moment. One that has passed fires at once.
func (a *alarm) at(t time.Duration) {
	if t != a.set {
		a.set = t
		a.moved <- max(1, t)
	}
}

func (a *alarm) stop() { close(a.done) }
