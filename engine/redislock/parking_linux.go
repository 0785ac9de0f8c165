package redislock

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// parking is where goroutines wait for descriptors that are not among what Go
// polls itself: an epoll of them, which Go polls. It is ready whenever one of
// them is, so waiting for it is as good.
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

// add has it wait for fd. What is there already is reported too.
func (p *parking) add(fd int) error {
	return p.control(unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(fd)})
}

// drop has it wait for fd no longer. To wait for no events instead would not do:
// an epoll remembers what it has reported, and does not report it again when fd is
// waited for again, as nobody asks this epoll itself.
func (p *parking) drop(fd int) error { return p.control(unix.EPOLL_CTL_DEL, fd, nil) }

func (p *parking) control(op, fd int, event *unix.EpollEvent) (err error) {
	outer := p.raw.Control(func(epoll uintptr) { err = epollControl(int(epoll), op, fd, event) })
	if outer != nil {
		return outer
	}
	return err
}

// wait calls f until it reports true, first at once and then whenever there may
// be something. Only one goroutine may wait. An error says that the parking was
// closed.
func (p *parking) wait(f func() bool) error {
	return p.raw.Read(func(uintptr) bool { return f() })
}

func (p *parking) close() error { return p.file.Close() }
