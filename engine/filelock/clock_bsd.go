//go:build darwin || freebsd

package filelock

import (
	"time"

	"golang.org/x/sys/unix"
)

// knowsBoot: not here. Deadlines of an earlier boot could be taken for those
// of this one, but only of claims that outlive their client: all others ended
// with the processes of that boot. So there are no detached claims.
const knowsBoot = false

const minTTL = 0 // the clock has no steps to speak of

// bootClock is CLOCK_MONOTONIC, which every process of the machine shares. On
// macOS it goes on while the machine sleeps; on FreeBSD it does not, so that
// there claims last longer by that time. That is safe: a holder's own clock
// ends its trust, not this one.
func bootClock() (boot [16]byte, clock func() time.Duration, err error) {
	return boot, func() time.Duration {
		var ts unix.Timespec
		// It cannot fail: the clock exists, the pointer is ours.
		_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
		return time.Duration(ts.Nano())
	}, nil
}
