//go:build linux && (amd64 || arm64 || loong64 || mips64 || mips64le || ppc64 || ppc64le || riscv64 || s390x)

package boottime

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// now makes the raw system call. It returns at once, so the scheduler need not
// be told that this goroutine may block: that costs as much as the call, and a
// local hand-over of a lease reads the clock once.
func now() time.Duration {
	var ts unix.Timespec
	// It cannot fail: the clock exists since Linux 2.6.39, the pointer is ours.
	_, _, _ = unix.RawSyscall(unix.SYS_CLOCK_GETTIME, unix.CLOCK_BOOTTIME, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
