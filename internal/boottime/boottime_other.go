//go:build !linux

package boottime

import (
	"sync/atomic"
	"time"
)

var (
	start = time.Now()
	most  atomic.Int64
)

// now takes the larger of two clocks: the monotonic one may stop during
// suspension, the wall clock may be stepped. A step forward ends leases early,
// which is safe; a step back is hidden by the monotonic clock and by most.
func now() time.Duration {
	t := time.Now()
	wall := t.Round(0).Sub(start.Round(0))
	d := int64(max(t.Sub(start), wall))
	for {
		m := most.Load()
		if d <= m {
			return time.Duration(m)
		}
		if most.CompareAndSwap(m, d) {
			return time.Duration(d)
		}
	}
}
