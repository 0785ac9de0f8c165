package filelock

import (
	"time"

	"golang.org/x/sys/windows"
)

// knowsBoot: not here. Deadlines of an earlier boot could be taken for those
// of this one, but only of claims that outlive their client: all others ended
// with the processes of that boot. So there are no detached claims.
const knowsBoot = false

// minTTL keeps the steps of the clock below a holder's margin, which is 1 % of its TTL and
// 7 ms. A deadline is up to 16 ms early if it is counted from the last step, and the
// holder's own clock may have finer ones. Below about 0.9 s two could then hold.
const minTTL = 2 * time.Second

// bootClock is GetTickCount64: the same for all processes, counting sleep, in
// steps of ten to sixteen milliseconds.
func bootClock() (boot [16]byte, clock func() time.Duration, err error) {
	return boot, windows.DurationSinceBoot, nil
}
