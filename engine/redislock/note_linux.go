package redislock

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// noteSocket is the socket of a subscription. Who reads it changes: usually
// rueidis, whose goroutine is parked until something comes; but while somebody
// waits for a note and has nothing else to do, that goroutine reads (attend). A
// note then wakes the thread of whoever waits for it, and nobody else: no poller,
// no reader, no hop from one goroutine to another.
type noteSocket struct {
	*socket
	watch *parking // of who attends: of fd, and of wake
	wake  int      // an eventfd, which interrupts who attends

	turn     sync.Mutex
	frames   frames      // how far into a message the reader is
	idle     bool        // the reader has used all it was given, and waits for more
	attended bool        // by another than the reader
	visits   pace        // of attending
	woken    atomic.Bool // wake says so
	asleep   atomic.Bool // who attends is in a system call, or parked
}

// attendBound is how long somebody attends in the kernel without a note.
const attendBound = 10 * time.Millisecond

func newNoteSocket(c net.Conn) (*noteSocket, error) {
	watch, err := newParking()
	if err != nil {
		return nil, err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		watch.close()
		return nil, err
	}
	s := &noteSocket{watch: watch, wake: wake, visits: pace{gap: 4 * hotWithin}}
	if s.socket, err = newSocket(c); err != nil {
		watch.close()
		unix.Close(wake)
		return nil, err
	}
	s.also = func() { unix.Close(s.wake) }
	if err = errors.Join(watch.add(wake, true), watch.add(s.fd, false)); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Read implements [net.Conn]. Only one goroutine may be in it.
func (s *noteSocket) Read(b []byte) (n int, err error) {
	if err := s.begin(); err != nil {
		return 0, s.failed("read", err)
	}
	closed := s.parking.wait(func() bool {
		s.turn.Lock()
		defer s.turn.Unlock()
		s.idle = true
		if s.attended {
			return false
		}
		n, err = receive(s.fd, b, 0)
		if err == unix.EAGAIN || err == unix.EINTR {
			return false
		}
		s.idle = false
		s.frames.feed(b[:max(n, 0)])
		return true
	})
	if over := s.end(); over != nil {
		closed = over
	}
	if closed != nil {
		return 0, s.failed("read", closed)
	}
	return s.got(n, err, len(b))
}

// attend reads in the reader's place, and takes whole messages for as long as
// take wants them, until over, an interruption with over, or attendBound.
func (s *noteSocket) attend(over func() bool, take func(message []string) bool) {
	if s.begin() != nil {
		return
	}
	defer s.end()
	s.turn.Lock()
	ok := s.idle && !s.attended && s.frames.between() && s.parking.set(s.fd, false) == nil
	if ok {
		s.attended = true
		s.visits.tick(time.Now())
	}
	s.turn.Unlock()
	if !ok {
		return
	}
	defer func() {
		s.turn.Lock()
		defer s.turn.Unlock()
		s.attended = false
		s.parking.set(s.fd, true)
	}()
	if s.visits.hot() {
		fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN | unix.POLLRDHUP}, {Fd: int32(s.wake), Events: unix.POLLIN}}
		for {
			s.asleep.Store(true)
			if over() {
				s.asleep.Store(false)
				return
			}
			s.visits.yield()
			n, err := unix.Poll(fds, int(attendBound/time.Millisecond))
			s.asleep.Store(false)
			if err == unix.EINTR {
				continue
			}
			if n == 0 {
				break
			}
			if err != nil || !s.takeAll(take) {
				return
			}
		}
	}
	if s.watch.set(s.fd, true) != nil {
		return
	}
	defer s.watch.set(s.fd, false)
	s.watch.wait(func() bool {
		s.asleep.Store(false)
		if !s.takeAll(take) {
			return true
		}
		s.asleep.Store(true)
		if over() {
			s.asleep.Store(false)
			return true
		}
		return false
	})
}

// takeAll takes the messages that are there. It reports false if there is
// something that is not wanted here.
func (s *noteSocket) takeAll(take func(message []string) bool) bool {
	var room [2048]byte
	if s.woken.Swap(false) {
		unix.Read(s.wake, room[:8])
	}
	// Looked at before it is taken: what is not wanted here, or not whole,
	// is left to the reader.
	n, err := receive(s.fd, room[:], unix.MSG_PEEK)
	if err == unix.EAGAIN || err == unix.EINTR {
		return true
	}
	if n <= 0 {
		return false
	}
	used := 0
	for used < n {
		message, size := parse(room[used:n])
		if size == 0 || !take(message) {
			break
		}
		used += size
	}
	if used > 0 {
		receive(s.fd, room[:used], 0)
	}
	return used == n
}

// interrupt has who attends look whether it is over.
func (s *noteSocket) interrupt() {
	if s.asleep.Load() && s.begin() == nil {
		s.woken.Store(true)
		unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		s.end()
	}
}

// Close implements [net.Conn].
func (s *noteSocket) Close() error {
	s.watch.close()
	return s.socket.Close()
}
