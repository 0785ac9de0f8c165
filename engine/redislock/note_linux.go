package redislock

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// noteSocket is the socket of a subscription. Who reads it changes. Usually it is
// rueidis, whose goroutine is parked until something comes. But while somebody
// waits for a note and has nothing else to do, that goroutine reads in its place
// (attend): a note then wakes the thread of whoever waits for it, and nobody else.
//
// Who attends takes only whole messages that it knows, and leaves everything else
// in the kernel for the reader. So a connection that breaks, an answer to a PING
// or a message of another kind are still the business of rueidis.
type noteSocket struct {
	*socket
	watch *parking // where who attends waits: for fd, and for wake
	wake  int      // an eventfd, which interrupts who attends

	turn     sync.Mutex
	frames   frames // where in a message the reader is
	idle     bool   // the reader has used all that it was given, and waits for more
	attended bool   // somebody reads in its place

	// These are of who attends.
	left   bool       // there is something for the reader
	visits pace       // of attending
	room   [2048]byte // for messages: a key has at most 128 + 5 + 512 bytes, and the rest fewer

	asleep atomic.Bool // who attends waits, or is about to
	woken  atomic.Bool // wake was written to
}

// attendBlocked is how long who attends may block without a message: as long as
// the runtime's monitor lets a thread that blocks keep its processor.
const attendBlocked = 10 * time.Millisecond

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
	s := &noteSocket{watch: watch, wake: wake, visits: newPace(true)}
	if err = watch.add(wake); err == nil {
		s.socket, err = newSocket(c, false) // last: it closes c
	}
	if err != nil {
		unix.Close(wake)
		watch.close()
		return nil, err
	}
	s.also = func() { unix.Close(wake) }
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
		if s.idle = true; s.attended {
			return false
		}
		if n, err = receive(s.fd, b, 0); waits(err) {
			return false
		}
		s.idle = false
		s.frames.feed(b[:n])
		return true
	})
	return s.read(n, err, len(b), closed)
}

// attend reads in the reader's place and hands over what comes to take, until
// over reports true: it is asked after every message and every interrupt. It also
// returns when take does not want something, and at once where it may not read.
func (s *noteSocket) attend(over func() bool, take func(message []string) bool) {
	if !s.replaceReader() {
		return
	}
	s.left = false
	defer s.restoreReader()
	if s.visits.hot() {
		if done := s.attendBlocking(over, take); done {
			return
		}
	}
	if s.watch.add(s.fd) != nil {
		return
	}
	defer s.watch.drop(s.fd)
	s.watch.wait(func() bool {
		s.asleep.Store(false)
		// What was reported before this wait began is not reported again: so it
		// goes on until nothing is there. Behind the last note may be the end of
		// the connection.
		for {
			some := s.takeAll(take)
			if s.left || s.rest(over) {
				return true
			}
			if !some {
				return false
			}
			s.asleep.Store(false)
		}
	})
}

// attendBlocking reports false if nothing has come for a while.
func (s *noteSocket) attendBlocking(over func() bool, take func(message []string) bool) bool {
	fds := [2]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN | unix.POLLRDHUP}, {Fd: int32(s.wake), Events: unix.POLLIN}}
	s.visits.yield()
	for !s.rest(over) {
		n, err := unix.Poll(fds[:], int(attendBlocked/time.Millisecond))
		s.asleep.Store(false)
		switch {
		case err == unix.EINTR:
		case err == nil && n == 0:
			return false
		case err != nil:
			return true
		default:
			if s.takeAll(take); s.left {
				return true
			}
		}
	}
	return true
}

// replaceReader makes sure that the reader reads nothing until restoreReader. It
// reports false if it may be in the middle of a message, or is replaced already.
func (s *noteSocket) replaceReader() bool {
	if s.begin() != nil {
		return false
	}
	s.turn.Lock()
	can := s.idle && !s.attended && s.frames.between() && s.parking.drop(s.fd) == nil
	if can {
		s.attended = true
		s.visits.tick(time.Now())
	}
	s.turn.Unlock()
	if !can {
		s.end() // not under turn: Close waits for the reader, and that for turn
	}
	return can
}

// restoreReader has the reader woken, if there is anything to read.
func (s *noteSocket) restoreReader() {
	s.turn.Lock()
	if s.attended = false; s.left {
		s.idle = false // nobody replaces it before it has been woken
	}
	s.parking.add(s.fd) // fails only if that is closed
	s.turn.Unlock()
	s.end()
}

// rest is to be called before waiting: interrupt does something only while
// somebody waits, so whoever makes over true and then interrupts is either seen
// here or ends the wait.
func (s *noteSocket) rest(over func() bool) bool {
	s.asleep.Store(true)
	if !over() {
		return false
	}
	s.asleep.Store(false)
	return true
}

// interrupt has who attends, if anybody, ask over.
func (s *noteSocket) interrupt() {
	if !s.asleep.Load() || s.begin() != nil {
		return
	}
	unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // not 0 in any byte order
	s.woken.Store(true)
	s.end()
}

// takeAll hands over the messages that are there, and reports whether there were
// any. What is not wanted is left for the reader.
func (s *noteSocket) takeAll(take func(message []string) bool) bool {
	if s.woken.Swap(false) {
		unix.Read(s.wake, s.room[:8])
	}
	// They are looked at before they are taken.
	n, err := receive(s.fd, s.room[:], unix.MSG_PEEK)
	if waits(err) {
		return false
	}
	used := 0
	for used < n {
		message, size := parse(s.room[used:n])
		if size == 0 || !take(message) {
			break
		}
		used += size
	}
	if used > 0 {
		receive(s.fd, s.room[:used], 0)
	}
	s.left = used == 0 || used < n // 0: the end, or an error
	return true
}

// Close implements [net.Conn].
func (s *noteSocket) Close() error {
	s.watch.close()
	return s.socket.Close()
}
