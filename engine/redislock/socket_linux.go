package redislock

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socket is a connection whose reader blocks in the kernel while there is much to
// do, and otherwise parks as readers do in Go.
//
// Go parks a goroutine that reads, and waits for all connections in one place.
// That is right for many of them and for long waits, but for one answer that is
// there after some ten microseconds it takes six system calls and wakes two or
// three threads. A thread that blocks in read is woken by the kernel and goes on
// at once, as after reading a file. But the runtime's monitor watches over a thread
// that blocks, which costs a process that is idle most of the time more than
// parking does.
type socket struct {
	fd            int
	local, remote net.Addr
	parking       *parking
	armed         bool // parking waits for fd: while Read blocks, nobody needs to know
	pace          pace // of reading

	mu       sync.Mutex
	users    int  // in a system call, or parked
	closed   bool // the last of them closes fd
	deadline *time.Timer
	set      int  // how often it was set
	late     bool // it has passed
	untimed  bool // deadlines are somebody else's business

}

// newSocket takes a connection over, or leaves it as it is with an error. With
// blocks its reader may block.
//
// It makes a duplicate, which is not among what Go polls: else each answer would
// wake its poller as well.
func newSocket(c net.Conn, blocks bool) (*socket, error) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported // TLS: what is waited for may have been read ahead
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	s := &socket{local: c.LocalAddr(), remote: c.RemoteAddr(), armed: true, pace: newPace(blocks)}
	if s.parking, err = newParking(); err != nil {
		return nil, err
	}
	var dup error
	if err = raw.Control(func(fd uintptr) { s.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err == nil {
		err = dup
	}
	if err != nil {
		s.parking.close()
		return nil, err
	}
	if err = s.parking.add(s.fd); err == nil {
		err = unix.SetNonblock(s.fd, false)
	}
	if err != nil {
		s.parking.close()
		unix.Close(s.fd)
		return nil, err
	}
	c.Close() // the duplicate stands
	return s, nil
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
		s.release()
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

// Read implements [net.Conn]. Only one goroutine may be in it.
func (s *socket) Read(b []byte) (n int, err error) {
	if err := s.begin(); err != nil {
		return 0, s.failed("read", err)
	}
	s.pace.tick(time.Now())
	var closed error
	if hot := s.pace.hot(); hot == s.armed {
		if s.armed = !hot; s.armed {
			closed = s.parking.add(s.fd)
		} else {
			closed = s.parking.drop(s.fd)
		}
	}
	switch {
	case closed != nil:
	case s.armed:
		closed = s.parking.wait(func() bool {
			n, err = receive(s.fd, b, 0)
			return !waits(err)
		})
	default:
		s.pace.yield()
		n, err = again(unix.Read, s.fd, b)
	}
	return s.read(n, err, len(b), closed)
}

// read ends a Read: what a system call's answer means, or that of a parking.
func (s *socket) read(n int, err error, room int, closed error) (int, error) {
	if over := s.end(); over != nil {
		closed = over
	}
	switch {
	case closed != nil:
		return 0, s.failed("read", closed)
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
		if more, err = send(s.fd, b[n:]); waits(err) {
			more, err = again(unix.Write, s.fd, b[n:])
		}
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
	// It goes first: fd must not come to mean something else while it is in it.
	s.parking.close()
	if s.users == 0 {
		return s.release()
	}
	return unix.Shutdown(s.fd, unix.SHUT_RDWR)
}

// release is Close when nobody is in a system call.
func (s *socket) release() error {
	return unix.Close(s.fd)
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
