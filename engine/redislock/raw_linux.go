package redislock

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// System calls that never wait, made without telling the runtime. Told of one, it
// wakes the monitor of a process that was idle, which then looks around every
// twenty microseconds for a while: in a process that does little but wait for its
// turn, and for whoever shares its processors (docs/design.md, section 11).

// send writes what there is room for.
func send(fd int, b []byte) (int, error) {
	return raw(unix.SYS_SENDTO, fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// receive reads what is there.
func receive(fd int, b []byte, flags int) (int, error) {
	return raw(unix.SYS_RECVFROM, fd, b, unix.MSG_DONTWAIT|flags)
}

func raw(call uintptr, fd int, b []byte, flags int) (int, error) {
	n, _, errno := syscall.RawSyscall6(call, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), uintptr(flags), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// waits reports that a call would have had to wait.
func waits(err error) bool { return err == unix.EAGAIN || err == unix.EINTR }

func epollControl(epoll, op, fd int, event *unix.EpollEvent) error {
	_, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_CTL, uintptr(epoll), uintptr(op), uintptr(fd), uintptr(unsafe.Pointer(event)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
