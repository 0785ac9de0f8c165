package zklock

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is the connection to the servers, and what is known of the session on it.
// The client library makes both anew by itself; nothing of ours may hang on its
// calls, which take no context: see ask.
type link struct {
	conn    *zk.Conn
	life    context.Context // ends when the link is closed
	servers []string
	ended   <-chan zk.Event // closed when the library's goroutines have ended

	mu       sync.Mutex
	greeting session       // what the last server that was reached said
	session  session       // the current one; zero after it expired
	up       bool          // a server serves it
	changed  chan struct{} // closed and replaced with every change
	failure  error         // why the last attempt to connect failed
}

// session is one session: its number, never used again, and for how long the
// server keeps it without hearing of this client.
type session struct {
	id      int64
	timeout time.Duration
}

// dialTimeout bounds each attempt to reach one server.
const dialTimeout = time.Second

// connect begins to connect, in the background. heard is told of every event, by
// one goroutine at a time, and must not block.
func connect(life context.Context, o *Options, heard func(zk.Event)) (*link, error) {
	l := &link{life: life, servers: o.Servers, changed: make(chan struct{})}
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if o.TLS != nil {
		dial = secured(dial, o.TLS)
	}
	conn, ended, err := zk.Connect(o.Servers, o.Session,
		zk.WithHostProvider(&hosts{}),
		zk.WithLogger(logger{l}), zk.WithLogInfo(false),
		zk.WithEventCallback(func(ev zk.Event) {
			l.hear(ev)
			heard(ev)
		}),
		zk.WithDialer(func(network, address string, timeout time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(context.Background(), timeout)
			defer cancel()
			c, err := dial(ctx, network, address)
			if err != nil {
				l.set(func() { l.failure = err })
				return nil, err
			}
			return &greeted{Conn: c, link: l, bound: o.Session / 3}, nil
		}))
	if err != nil {
		return nil, err
	}
	l.conn, l.ended = conn, ended
	return l, nil
}

// secured has a dialer speak TLS.
func secured(dial dialer, config *tls.Config) dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		plain, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		config := config.Clone()
		if config.ServerName == "" {
			config.ServerName, _, _ = net.SplitHostPort(address)
		}
		c := tls.Client(plain, config)
		if err := c.HandshakeContext(ctx); err != nil {
			plain.Close()
			return nil, fmt.Errorf("TLS with %s: %w", address, err)
		}
		return c, nil
	}
}

type dialer = func(ctx context.Context, network, address string) (net.Conn, error)

func (l *link) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

// hear keeps track of the session. It is called before whoever waits for an answer
// on that session is answered.
func (l *link) hear(ev zk.Event) {
	if ev.Type != zk.EventSession {
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		l.set(func() { l.session, l.up, l.failure = l.greeting, true, nil })
	case zk.StateExpired:
		l.set(func() { l.session, l.up = session{}, false })
	case zk.StateDisconnected:
		l.set(func() { l.up = false })
	}
}

func (l *link) current() (s session, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.up
}

// await is the current session, as soon as a server serves one.
func (l *link) await(ctx context.Context) (session, error) {
	for {
		l.mu.Lock()
		s, up, changed, failure := l.session, l.up, l.changed, l.failure
		l.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return session{}, l.away(context.Cause(ctx), failure)
		}
		if up {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

func (l *link) away(why, failure error) error {
	if failure == nil {
		return fmt.Errorf("zookeeper: %w", why)
	}
	return fmt.Errorf("zookeeper: no server of %s serves this client (the last attempt: %w): %w", strings.Join(l.servers, ","), failure, why)
}

// ask makes one request beside its caller, who waits for the answer until ctx ends.
// A request that nobody waits for any more goes on until the server answers or the
// connection breaks, which it does at the latest when two thirds of the session's
// time passed in silence; what it made by then is its own business (see make).
//
// Under the life of the engine nobody waits beside it: the caller is a goroutine that
// ends with the connection.
func ask[T any](ctx context.Context, l *link, request func(*zk.Conn) (T, error)) (answer T, err error) {
	if _, err := l.await(ctx); err != nil {
		return answer, err // not queued: it would be sent whenever a server is back
	}
	if ctx == l.life {
		return request(l.conn)
	}
	type answered struct {
		answer T
		err    error
	}
	done := make(chan answered, 1)
	go func() {
		a, err := request(l.conn)
		done <- answered{a, err}
	}()
	select {
	case a := <-done:
		return a.answer, a.err
	case <-ctx.Done():
		return answer, fmt.Errorf("zookeeper: no answer yet: %w", context.Cause(ctx))
	}
}

// unclear: whether the request was carried out is not known.
func unclear(err error) bool {
	for _, known := range []error{zk.ErrNoNode, zk.ErrNodeExists, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrInvalidACL,
		zk.ErrNotEmpty, zk.ErrNoChildrenForEphemerals, zk.ErrBadArguments, zk.ErrAuthFailed} {
		if errors.Is(err, known) {
			return false
		}
	}
	return true
}

// close ends the session and waits for the library's goroutines.
func (l *link) close() {
	l.conn.Close() // bounded by itself: a second, two without a server
	late := time.After(closeBound)
	for {
		select {
		case _, more := <-l.ended:
			if !more {
				return
			}
		case <-late:
			return
		}
	}
}

const closeBound = 3 * time.Second

// greeted is a connection whose first packet, the server's answer to the request
// for a session, is looked at as it passes: the library keeps to itself for how long
// the session was granted, and lets a server that does not answer keep it waiting
// for many times that.
type greeted struct {
	net.Conn
	link  *link
	bound time.Duration
	head  []byte // until complete; owned by the goroutine that connects
	done  bool
}

// The packet: length, protocol version, time-out in milliseconds (4 bytes each) and
// the session's number (8), big-endian; after that its password.
const greetingLen = 20

func (c *greeted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.done {
		if c.head = append(c.head, b[:min(n, greetingLen-len(c.head))]...); len(c.head) == greetingLen {
			c.done = true
			s := session{
				id:      int64(binary.BigEndian.Uint64(c.head[12:])),
				timeout: time.Duration(int32(binary.BigEndian.Uint32(c.head[8:]))) * time.Millisecond,
			}
			c.link.set(func() { c.link.greeting = s })
		}
	}
	return n, err
}

func (c *greeted) SetReadDeadline(t time.Time) error {
	if most := time.Now().Add(c.bound); !c.done && t.After(most) {
		t = most
	}
	return c.Conn.SetReadDeadline(t)
}

// hosts offers the servers in turn, by the names they were given by: a name that
// moves to another address is looked up again. The library shuffles them once.
type hosts struct {
	mu      sync.Mutex
	servers []string
	next    int
	tried   int // since one was connected to
}

func (h *hosts) Init(servers []string) error {
	h.servers = servers
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

// Next has the library pause for a second whenever all were tried.
func (h *hosts) Next() (server string, pause bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.next%len(h.servers)]
	pause = h.tried > 0 && h.tried%len(h.servers) == 0
	h.next++
	h.tried++
	return server, pause
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

// logger drops what the library logs: who uses an engine hears of it by errors. Its
// words about a failed attempt are kept for them.
type logger struct{ link *link }

func (g logger) Printf(format string, args ...any) {
	if strings.HasPrefix(format, "authentication failed") || strings.HasPrefix(format, "error in resending") {
		err := fmt.Errorf(format, args...)
		g.link.set(func() { g.link.failure = err })
	}
}
