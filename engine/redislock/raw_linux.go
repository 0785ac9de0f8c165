package redislock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls that never block, made without telling the runtime. Telling it
// makes its monitor wake up in a process that was idle, which then looks around
// every 20 microseconds for a while: for a process that does little but wait for
// its turn that costs more than all the rest, and its neighbours too.

// send writes what there is room for.
func send(fd int, b []byte) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
	return result(n, errno)
}

// receive reads what is there.
func receive(fd int, b []byte, flags int) (int, error) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		uintptr(unix.MSG_DONTWAIT|flags), 0, 0)
	return result(n, errno)
}

func epollCtl(epoll, op, fd int, event *unix.EpollEvent) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epoll), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(event)), 0, 0)
	_, err := result(0, errno)
	return err
}

func result(n uintptr, errno syscall.Errno) (int, error) {
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}
