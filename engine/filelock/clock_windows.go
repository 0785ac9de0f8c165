package filelock

import (
	"time"

	"golang.org/x/sys/windows"
)

// knowsBoot: not here. Deadlines of an earlier boot could be taken for those
// of this one, but only of claims that outlive their client: all others ended
// with the processes of that boot. So there are no detached claims.
const knowsBoot = false

// bootClock is GetTickCount64: the same for all processes, counting sleep, in
// steps of ten to sixteen milliseconds.
func bootClock() (boot [16]byte, clock func() time.Duration, err error) {
	return boot, windows.DurationSinceBoot, nil
}
