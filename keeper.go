package leasehold

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	// never is a time that does not come.
	never time.Duration = math.MaxInt64

	// tick bounds the keeper's sleep while it has anything to keep: timers
	// stop while a machine is suspended, so the clock must be looked at.
	tick = time.Second
)

// keep is the one watchdog of a client: it tells the machine that time passes.
// It never calls the engine itself: an engine that hangs must not delay the
// loss of a lease.
func (k *core) keep() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	drift := k.drift()
	for kicked := false; ; {
		k.mu.Lock()
		if k.closed {
			k.unlock()
			return
		}
		now := k.now()
		if d := k.drift(); (d - drift).Abs() > tick {
			drift = d // somebody stepped the wall clock
			k.machine.RenewAll(now)
		}
		planned := k.asleep
		k.asleep = 0 // awake: nobody need wake it for what it finds itself
		k.machine.Tick(now)
		k.carryOutLocked(nil)
		wake := never
		if due, ok := k.machine.Due(); ok {
			wake = min(due, now+tick)
		}
		if kicked && planned > now {
			// The claim that asked for this time may be gone. The next one will ask
			// for about the same, and one look in vain costs less than being woken
			// by each.
			wake = min(wake, planned)
		}
		k.asleep = wake
		k.unlock()
		timer.Reset(max(0, wake-now))
		kicked = false
		select {
		case <-timer.C:
		case <-k.kick:
			kicked = true
		case <-k.life.Done():
			return
		}
	}
}

// wakeLocked has the keeper look earlier than it planned, if it must.
func (k *core) wakeLocked() {
	if due, ok := k.machine.Due(); ok && due < k.asleep {
		k.asleep = due
		select {
		case k.kick <- struct{}{}:
		default:
		}
	}
}

// drift is how far the wall clock is from the time elapsed.
func (k *core) drift() time.Duration {
	return time.Duration(time.Now().Round(0).UnixNano()) - k.now()
}

// jitter is a part of d by chance, so that many clients do not come back at the
// same moment.
func jitter(d time.Duration) time.Duration { return rand.N(d) }
