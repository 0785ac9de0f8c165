//go:build linux && !(amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package boottime

import (
	"time"

	"golang.org/x/sys/unix"
)

// now leaves the width of a Timespec on 32-bit machines to package unix.
func now() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail, see the 64-bit one
	return time.Duration(ts.Nano())
}
