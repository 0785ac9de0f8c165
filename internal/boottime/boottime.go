// Package boottime is the clock that leases are measured with: time elapsed,
// including time the machine spent suspended. Go's monotonic clock stops while
// a Linux machine or a Mac is suspended, so a lease measured with it would still
// look valid to a laptop that slept through its end.
package boottime

import "time"

// Now is the time elapsed since some fixed moment. It never goes back. It means
// nothing to another process, but for those of the same Linux machine.
//
// Linux, macOS and Windows have a clock that counts suspension and that nobody
// sets. Elsewhere Now adds to the monotonic clock what the wall clock has gone
// ahead of it. A wall clock that is stepped forward ends leases early there. One that
// is stepped back by some time, before a suspension was seen, hides that much of it.
func Now() time.Duration { return now() }
