package boottime

import "time"

var start = time.Now()

// now is Go's monotonic clock. On Windows it reads the interrupt time, which goes
// on while the machine sleeps. The wall clock takes no part.
func now() time.Duration { return time.Since(start) }
