package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is mach_continuous_time, which goes on while the machine sleeps, and which nobody
// sets or slews. Go's monotonic clock is mach_absolute_time, which stops.
func now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC_RAW, &ts) // cannot fail: it is there since macOS 10.12
	return time.Duration(ts.Nano())
}
