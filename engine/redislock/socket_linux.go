package redislock

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a connection whose reader blocks in the kernel.
//
// Go parks a goroutine that reads, and waits for all connections in one place.
// That is right for many of them and for long waits, but for one answer that is
// there after some ten microseconds it takes six system calls and wakes two or
// three threads. A thread that blocks in read is woken by the kernel and goes on
// at once, as after reading a file. So the lane's connection and that of a
// subscription are sockets; the shared connections are not.
type socket struct {
	fd            int
	local, remote net.Addr

	mu       sync.Mutex
	users    int  // in a system call
	closed   bool // the last of them closes fd
	deadline *time.Timer
	set      int  // how often it was set
	late     bool // it has passed
	untimed  bool // deadlines are somebody else's business
}

// newSocket takes a connection over, or leaves it as it is with an error.
func newSocket(c net.Conn) (*socket, error) {
	s, err := duplicate(c)
	if err == nil {
		err = s.block(c)
	}
	return s, err
}

// block has fd block, and closes the connection that it duplicates.
func (s *socket) block(c net.Conn) error {
	if err := unix.SetNonblock(s.fd, false); err != nil {
		unix.Close(s.fd)
		return err
	}
	c.Close() // the duplicate stands
	return nil
}

// duplicate makes a socket of a connection, not blocking yet.
//
// A duplicate is not among what Go polls: else each answer would wake its poller
// as well.
func duplicate(c net.Conn) (*socket, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported // TLS: what is waited for may have been read ahead
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{local: c.LocalAddr(), remote: c.RemoteAddr()}
	var dup error
	if err := raw.Control(func(fd uintptr) { s.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	return s, dup
}

// begin keeps fd open until end.
func (s *socket) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.over(); err != nil {
		return err
	}
	s.users++
	return nil
}

// end says why what was begun must have failed, if it must.
func (s *socket) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users--; s.closed && s.users == 0 {
		unix.Close(s.fd)
	}
	return s.over()
}

func (s *socket) over() error {
	switch {
	case s.closed:
		return net.ErrClosed
	case s.late:
		return os.ErrDeadlineExceeded
	}
	return nil
}

// Read implements [net.Conn].
func (s *socket) Read(b []byte) (int, error) {
	if err := s.begin(); err != nil {
		return 0, s.failed("read", err)
	}
	n, err := again(unix.Read, s.fd, b)
	if over := s.end(); over != nil {
		return 0, s.failed("read", over)
	}
	return s.got(n, err, len(b))
}

// got is what Read makes of a system call's answer.
func (s *socket) got(n int, err error, room int) (int, error) {
	switch {
	case err != nil:
		return 0, s.failed("read", os.NewSyscallError("read", err))
	case n == 0 && room > 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements [net.Conn].
func (s *socket) Write(b []byte) (n int, err error) {
	if err := s.begin(); err != nil {
		return 0, s.failed("write", err)
	}
	for n < len(b) && err == nil {
		var more int
		more, err = again(unix.Write, s.fd, b[n:])
		n += max(0, more)
	}
	switch over := s.end(); {
	case err != nil && over != nil:
		return n, s.failed("write", over)
	case err != nil:
		return n, s.failed("write", os.NewSyscallError("write", err))
	}
	return n, nil
}

// again repeats what a signal interrupted.
func again(call func(int, []byte) (int, error), fd int, b []byte) (n int, err error) {
	for {
		if n, err = call(fd, b); err != unix.EINTR {
			return n, err
		}
	}
}

func (s *socket) failed(op string, err error) error {
	return &net.OpError{Op: op, Net: s.remote.Network(), Source: s.local, Addr: s.remote, Err: err}
}

// Close implements [net.Conn]. It ends a Read or Write that is under way.
func (s *socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.failed("close", net.ErrClosed)
	}
	s.closed = true
	if s.deadline != nil {
		s.deadline.Stop()
	}
	if s.users == 0 {
		return unix.Close(s.fd)
	}
	return unix.Shutdown(s.fd, unix.SHUT_RDWR)
}

// expire is called at the deadline. What is under way can be broken off only
// together with the connection, which is what rueidis does then anyway.
func (s *socket) expire(set int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if set != s.set {
		return // it was moved meanwhile
	}
	if s.late = true; s.users > 0 && !s.closed {
		unix.Shutdown(s.fd, unix.SHUT_RDWR)
	}
}

// ignoreDeadlines has SetDeadline do nothing from now on.
func (s *socket) ignoreDeadlines() {
	s.SetDeadline(time.Time{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untimed = true
}

// LocalAddr implements [net.Conn].
func (s *socket) LocalAddr() net.Addr { return s.local }

// RemoteAddr implements [net.Conn].
func (s *socket) RemoteAddr() net.Addr { return s.remote }

// SetDeadline implements [net.Conn].
func (s *socket) SetDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deadline != nil {
		s.deadline.Stop()
	}
	s.set++
	s.deadline, s.late = nil, false
	if !t.IsZero() && !s.untimed && !s.closed {
		set := s.set
		s.deadline = time.AfterFunc(time.Until(t), func() { s.expire(set) })
	}
	return nil
}

// SetReadDeadline implements [net.Conn] as SetDeadline.
func (s *socket) SetReadDeadline(t time.Time) error { return s.SetDeadline(t) }

// SetWriteDeadline implements [net.Conn] as SetDeadline.
func (s *socket) SetWriteDeadline(t time.Time) error { return s.SetDeadline(t) }

// noteSocket is the socket of a subscription. It blocks only where the next note
// can be expected soon: a thread that blocks keeps the runtime's monitor awake
// for ten milliseconds, which costs more than parking once.
type noteSocket struct {
	*socket
	poll  *os.File // an epoll of fd alone, which Go polls
	raw   syscall.RawConn
	armed bool // poll says when fd can be read: while this blocks, nobody needs to know

	last time.Time // when Read last returned
	soon bool      // that was within noteWait of the time before
}

// noteWait is how soon notes must follow each other to be waited for by
// blocking: a busy name goes around among a few clients.
const noteWait = 5 * time.Millisecond

func newNoteSocket(c net.Conn) (*noteSocket, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os would not have it polled
		unix.Close(fd)
		return nil, err
	}
	s := &noteSocket{poll: os.NewFile(uintptr(fd), "epoll")}
	if s.raw, err = s.poll.SyscallConn(); err == nil {
		s.socket, err = duplicate(c)
	}
	if err != nil {
		s.poll.Close()
		return nil, err
	}
	if err = s.arm(unix.EPOLL_CTL_ADD, true); err != nil {
		unix.Close(s.fd)
	} else {
		err = s.block(c)
	}
	if err != nil {
		s.poll.Close()
		return nil, err
	}
	return s, nil
}

// arm has poll watch fd or not.
func (s *noteSocket) arm(op int, armed bool) (err error) {
	var events uint32
	if armed {
		events = unix.EPOLLIN | unix.EPOLLRDHUP
	}
	outer := s.raw.Control(func(fd uintptr) {
		err = unix.EpollCtl(int(fd), op, s.fd, &unix.EpollEvent{Events: events, Fd: int32(s.fd)})
	})
	if outer != nil {
		return outer
	}
	s.armed = armed && err == nil
	return err
}

// Read implements [net.Conn]. Only one goroutine may be in it.
func (s *noteSocket) Read(b []byte) (n int, err error) {
	// Whoever was just told of a note goes first. It waits for the processor of
	// this thread, which would be free only once this goroutine parks, or the
	// runtime finds out that it blocks.
	runtime.Gosched()
	if s.armed == s.soon {
		if err := s.rearm(); err != nil {
			return 0, err
		}
	}
	if s.soon {
		n, err = s.socket.Read(b)
	} else {
		n, err = s.park(b)
	}
	now := time.Now()
	s.soon, s.last = now.Sub(s.last) < noteWait, now
	return n, err
}

func (s *noteSocket) rearm() error {
	if err := s.begin(); err != nil {
		return s.failed("read", err)
	}
	err := s.arm(unix.EPOLL_CTL_MOD, !s.soon)
	if over := s.end(); over != nil {
		err = over
	}
	if err != nil {
		return s.failed("read", err)
	}
	return nil
}

// park reads as Go does: what is there, or after waiting with its goroutine
// parked. poll is ready whenever fd is, so Go's waiting for poll is as good.
func (s *noteSocket) park(b []byte) (n int, err error) {
	if err := s.begin(); err != nil {
		return 0, s.failed("read", err)
	}
	outer := s.raw.Read(func(uintptr) bool {
		n, err = again(func(fd int, b []byte) (int, error) {
			n, _, err := unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
			return n, err
		}, s.fd, b)
		return err != unix.EAGAIN
	})
	switch over := s.end(); {
	case over != nil:
		return 0, s.failed("read", over)
	case outer != nil:
		return 0, s.failed("read", outer)
	}
	return s.got(n, err, len(b))
}

// Close implements [net.Conn].
func (s *noteSocket) Close() error {
	// poll goes first: fd must not come to mean something else while it is in it.
	return errors.Join(s.poll.Close(), s.socket.Close())
}
