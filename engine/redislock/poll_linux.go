package redislock

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// parking is an epoll of one descriptor, which Go polls. A goroutine can be
// parked until that can be read, although it is not among what Go polls itself.
type parking struct {
	file *os.File
	raw  syscall.RawConn
}

func newParking() (*parking, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os would not have it polled
		unix.Close(fd)
		return nil, err
	}
	p := &parking{file: os.NewFile(uintptr(fd), "epoll")}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		p.file.Close()
		return nil, err
	}
	return p, nil
}

// add has it wait for fd, or not yet.
func (p *parking) add(fd int, on bool) error { return p.control(unix.EPOLL_CTL_ADD, fd, on) }

// set has it wait for fd from now on, or no longer.
func (p *parking) set(fd int, on bool) error { return p.control(unix.EPOLL_CTL_MOD, fd, on) }

func (p *parking) control(op, fd int, on bool) (err error) {
	event := unix.EpollEvent{Fd: int32(fd)}
	if on {
		event.Events = unix.EPOLLIN | unix.EPOLLRDHUP
	}
	outer := p.raw.Control(func(epoll uintptr) { err = epollCtl(int(epoll), op, fd, &event) })
	if outer != nil {
		return outer
	}
	return err
}

// wait calls f until it reports true, first at once and then whenever there may
// be something to read. An error is that of a parking that was closed.
func (p *parking) wait(f func() bool) error {
	return p.raw.Read(func(uintptr) bool { return f() })
}

func (p *parking) close() error { return p.file.Close() }
