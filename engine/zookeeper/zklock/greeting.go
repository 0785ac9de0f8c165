package zklock

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// greeted is a connection whose first packets are looked at as they pass: this client's
// request for a session and the server's answer. The library keeps to itself for how
// long the session was granted, believes any length that it is told, and comes back for
// ever to servers that have seen less than it has.
//
// Its fields belong to the goroutine that connects until it is done, and to the library's
// reader after that. Those of the library's writer are in watching.
type greeted struct {
	net.Conn
	link    *link
	server  string
	until   time.Time // when it must have greeted
	unabort func() bool

	asked   bool
	seen    int64  // the last transaction of which the client told it
	head    []byte // of the answer, until complete
	done    bool
	instead []byte // what the library is given for an answer that does not come

	rest     int       // bytes of the answer that the library has not read yet
	watching *watching // of a session that goes on
	awaited  bool
}

// watching holds back what a server says on a new connection of a session that goes on,
// until the library has sent its watches again: it says since when by the last answer it
// had, which it reads unguarded beside its reader (go-zookeeper/zk, pull request 35). A
// program under the race detector is so not blamed for what it has not done. The first
// answer on such a connection comes up to watchesBound later where there are no watches.
type watching struct {
	sent chan struct{} // closed when the watches are under way
	once sync.Once
}

// watchesBound is how long a session without watches is held back.
const watchesBound = 50 * time.Millisecond

// setWatches is the operation that sends watches again. It stands behind the packet's
// length and the request's number.
const setWatches = 101

// setAuth is the one that says who the user is.
const setAuth = 100

// operation is that of a request, or 0.
func operation(packet []byte) uint32 {
	if len(packet) < 12 {
		return 0
	}
	return binary.BigEndian.Uint32(packet[8:])
}

func (w *watching) passed(packet []byte) {
	if w != nil && operation(packet) == setWatches {
		w.once.Do(func() { close(w.sent) })
	}
}

func (w *watching) await() {
	if w == nil {
		return
	}
	select {
	case <-w.sent:
	case <-time.After(watchesBound):
	}
}

// The request: length and protocol version (4 bytes each), the last transaction that the
// client has seen (8), big-endian; after that time-out, session and password.
const requestLen = 16

// The answer: length, protocol version, time-out in milliseconds (4 bytes each), the
// session's number (8), the length of its password (4), big-endian; then that.
const greetingLen = 24

// maxGreeting is more than any server says. All of it is shorter than a hundred bytes.
const maxGreeting = 256

func (c *greeted) Write(b []byte) (int, error) {
	if !c.asked {
		c.asked = true
		if len(b) >= requestLen {
			c.seen = int64(binary.BigEndian.Uint64(b[8:]))
		}
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b)
	if err != nil && operation(b) == setAuth {
		// The library sends this on each new connection. It answers twice what it cannot
		// write, and the second answer would wait for ever. Once written, the request ends
		// with the connection.
		c.Close()
		return len(b), nil
	}
	c.watching.passed(b)
	return n, err
}

func (c *greeted) Read(b []byte) (int, error) {
	if len(c.instead) > 0 {
		n := copy(b, c.instead)
		c.instead = c.instead[n:]
		return n, nil
	}
	if c.done && c.rest <= 0 && !c.awaited {
		c.awaited = true
		c.watching.await()
	}
	n, err := c.Conn.Read(b)
	c.rest -= n
	if c.done {
		return n, err
	}
	c.head = append(c.head, b[:min(n, greetingLen-len(c.head))]...)
	why := c.check(err)
	switch {
	case errors.Is(why, errBack):
		c.done = true
		c.link.set(func() { c.link.back = why })
		c.link.recordFailure(c.server, why)
		c.Close()
		c.instead = expired()
		return c.Read(b)
	case why != nil:
		c.link.recordSilence(c.server, errors.Is(err, os.ErrDeadlineExceeded))
		switch {
		case errors.Is(err, net.ErrClosed): // this client did that, and the server nothing
		case errors.Is(why, errMute):
			c.link.recordMute(c.server, true)
		default:
			c.link.recordFailure(c.server, why)
		}
		return 0, why
	}
	if len(c.head) == greetingLen {
		c.done = true
		c.unabort()
		s := grant{
			id:      int64(binary.BigEndian.Uint64(c.head[12:])),
			timeout: time.Duration(int32(binary.BigEndian.Uint32(c.head[8:]))) * time.Millisecond,
		}
		c.rest += 4 + int(binary.BigEndian.Uint32(c.head))
		c.link.set(func() {
			c.link.greeting = s
			clear(c.link.silent)
			if s.id == c.link.session.id {
				c.watching = &watching{sent: make(chan struct{})}
			}
		})
	}
	return n, nil
}

// refusal is what a server does instead of greeting a client.
type refusal struct{ error }

var (
	errMute         = errors.New("it accepts connections and says nothing: it is stopped or cut off, or is not ZooKeeper")
	errClosed error = refusal{errors.New("it closes the connection: it has no majority or no room, speaks TLS (zookeepers://), or is not ZooKeeper")}
)

// check says why what was read of an answer is none.
func (c *greeted) check(err error) error {
	switch {
	case len(c.head) >= 4:
		length := binary.BigEndian.Uint32(c.head)
		switch {
		case c.head[0] == 0x15 && c.head[1] == 3: // an alert
			return refusal{errors.New("it speaks TLS: use zookeepers://")}
		case length < greetingLen-4 || length > maxGreeting:
			return refusal{fmt.Errorf("it is not ZooKeeper: it says %q", c.head[:4])}
		case len(c.head) == greetingLen && binary.BigEndian.Uint32(c.head[20:]) > length-(greetingLen-4):
			return refusal{errors.New("it is not ZooKeeper: its answer is none")}
		}
		return err
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, net.ErrClosed):
		return errMute
	case err != nil && c.seen > 0 && len(c.head) == 0:
		// It refuses who has seen more than it has, without a word.
		if now, err := c.link.committed(c.server, c.until); err == nil && now < c.seen {
			return fmt.Errorf("%w: they are at transaction %#x, and this client has seen %#x; a new session begins, and tokens may be lower than those before", errBack, now, c.seen)
		}
		return errClosed
	case errors.Is(err, io.EOF):
		return errClosed
	}
	return err
}

func (c *greeted) Close() error {
	c.unabort()
	return c.Conn.Close()
}

// SetReadDeadline keeps the bound of the greeting: the library takes its deadline off after
// the first four bytes.
func (c *greeted) SetReadDeadline(t time.Time) error {
	if !c.done && (t.IsZero() || t.After(c.until)) {
		t = c.until
	}
	return c.Conn.SetReadDeadline(t)
}

// untrusted says what a handshake that failed was for.
func untrusted(err error) error {
	switch header := (tls.RecordHeaderError{}); {
	case errors.As(err, &header):
		return fmt.Errorf("it speaks no TLS there: %w", err)
	case errors.Is(err, io.EOF):
		return fmt.Errorf("it closes the connection in TLS's handshake: it speaks no TLS there, or wants another certificate: %w", err)
	}
	return fmt.Errorf("TLS: %w", err)
}
