// Package boottime is the clock that leases are measured with: time elapsed,
// including time the machine spent suspended. Go's monotonic clock stops while
// a Linux machine is suspended, so a lease measured with it would still look
// valid to a laptop that slept through its end.
package boottime

import "time"

// Now is the time elapsed since some fixed moment of this boot. It never goes
// back. On Linux it is CLOCK_BOOTTIME, the same for every process of the
// machine; elsewhere it is the larger of the monotonic and the wall clock's
// progress since this process began, and means nothing to another process.
func Now() time.Duration { return now() }
