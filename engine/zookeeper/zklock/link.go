package zklock

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is the connection to the servers, and what is known of the session on it.
// The client library makes both anew by itself; nothing of ours may hang on its
// calls, which take no context: see ask.
type link struct {
	conn   *zk.Conn
	life   context.Context // ends when the link is closed
	hosts  *hosts
	dial   dialer
	ended  <-chan zk.Event // closed when the library's goroutines have ended
	greets context.Context // ends what connects, and no connection that serves
	abort  context.CancelFunc

	mu       sync.Mutex
	greeting grant            // what the last server that was reached said
	session  grant            // the current one; zero after it expired
	former   grant            // the one before
	up       bool             // a server serves it
	changed  chan struct{}    // closed and replaced with every change
	failures map[string]error // by server: why it does not serve this client, since one did
	silent   map[string]int   // by server: how many greetings in a row did not come in time, since one came
	back     error            // the servers have lost what this client had seen
}

// grant is one session: its number, never used again, and for how long the
// server keeps it without hearing of this client.
type grant struct {
	id      int64
	timeout time.Duration
}

// connect begins to connect, in the background. heard is told of every event, by
// one goroutine at a time, and must not block.
func connect(life context.Context, o *Options, session time.Duration, received func(zk.Event)) *link {
	l := &link{life: life, dial: o.dialer(), hosts: &hosts{}, changed: make(chan struct{}), failures: map[string]error{}, silent: map[string]int{}}
	l.greets, l.abort = context.WithCancel(context.Background())
	conn, ended, _ := zk.Connect(o.Servers, session, // which fails only without a server
		zk.WithHostProvider(l.hosts),
		zk.WithLogger(logger{l}), zk.WithLogInfo(false),
		zk.WithMaxBufferSize(maxAnswer),
		zk.WithEventCallback(func(ev zk.Event) {
			l.receive(ev)
			received(ev)
		}),
		zk.WithDialer(func(network, server string, _ time.Duration) (net.Conn, error) {
			return l.reach(network, server)
		}))
	l.conn, l.ended = conn, ended
	return l
}

// maxAnswer bounds what a server may have this client read at once: a hundred times what
// the longest queue takes.
const maxAnswer = 64 << 20

// leastGreeting is how long a lone server has to greet at first.
const leastGreeting = time.Second

// firstRound is how long a server has to greet while others could be tried, at first.
const firstRound = 500 * time.Millisecond

// patience is how long a server has to greet. One that is stopped accepts connections and
// says nothing, and one that starts may lose a connection and never answer it: at first it
// has little time. Each greeting in a row that did not come in time doubles it, for servers
// that are slow, up to 32 times and however short the session: a session that ended
// meanwhile gives way to a new one. Connections that are refused do not: after an outage the time is short.
func (l *link) patience(server string) time.Duration {
	first := leastGreeting
	if l.hosts.Len() > 1 {
		first = firstRound
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return first << min(l.silent[server], 5)
}

// recordSilence counts greetings that did not come in time. A server that refuses or closes
// a connection begins anew: another process may answer the next.
func (l *link) recordSilence(server string, silent bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if silent {
		l.silent[server]++
	} else {
		delete(l.silent, server)
	}
}

// reach connects to one server.
func (l *link) reach(network, server string) (net.Conn, error) {
	until := time.Now().Add(l.patience(server))
	ctx, cancel := context.WithDeadline(l.greets, until)
	defer cancel()
	l.set(func() { l.failures[server] = cmp.Or(l.failures[server], errors.New("no connection yet")) })
	c, err := l.dial(ctx, network, server)
	if err != nil {
		l.recordSilence(server, ctx.Err() != nil)
		l.recordFailure(server, err)
		return nil, err
	}
	l.recordMute(server, false)
	g := &greeted{Conn: c, link: l, server: server, until: until}
	g.unabort = context.AfterFunc(l.greets, func() { c.Close() })
	return g, nil
}

// recordFailure keeps why a server does not serve this client.
func (l *link) recordFailure(server string, why error) {
	if op := (*net.OpError)(nil); errors.As(why, &op) {
		why = op.Err // without the address
	}
	l.set(func() { l.failures[server] = why })
}

// recordMute keeps that a server has said nothing yet, unless it said something before, which
// tells more. That it closed connections tells no more than that it is silent, once its
// greeting is late.
func (l *link) recordMute(server string, late bool) {
	l.set(func() {
		before := l.failures[server]
		if _, refused := errors.AsType[refusal](before); !refused || late && before == errClosed {
			l.failures[server] = errMute
		}
	})
}

// dialer is how servers are connected to.
func (o *Options) dialer() dialer {
	dial := o.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	if o.TLS != nil {
		dial = secured(dial, o.TLS)
	}
	return dial
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
			return nil, untrusted(err)
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
func (l *link) receive(ev zk.Event) {
	if ev.Type != zk.EventSession {
		return
	}
	switch ev.State {
	case zk.StateHasSession:
		l.set(func() { l.session, l.up, l.failures = l.greeting, true, map[string]error{} })
	case zk.StateExpired:
		l.set(func() { l.former, l.session, l.up = l.session, grant{}, false })
	case zk.StateDisconnected:
		l.set(func() { l.up = false })
	}
}

func (l *link) current() (s grant, up bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session, l.up
}

// lasts reports whether a session is the current one. Whoever has an answer of a later
// session sees that one here: see receive.
func (l *link) lasts(s grant) bool {
	now, _ := l.current()
	return now.id == s.id
}

// expired is the session that the library was told of last that it has ended.
func (l *link) expired() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.former.id
}

// await is the current session, as soon as a server serves one.
func (l *link) await(ctx context.Context) (grant, error) {
	for {
		l.mu.Lock()
		s, up, changed := l.session, l.up, l.changed
		l.mu.Unlock()
		if err := ctx.Err(); err != nil {
			return grant{}, l.away(context.Cause(ctx))
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

// away says of each server why it does not serve this client, and why alone while one does.
func (l *link) away(why error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	each := make([]string, 0, len(l.failures))
	for _, server := range slices.Sorted(maps.Keys(l.failures)) {
		each = append(each, fmt.Sprintf("%s: %v", server, l.failures[server]))
	}
	if len(each) == 0 {
		return fmt.Errorf("zookeeper: %w", why)
	}
	return fmt.Errorf("zookeeper: no server serves this client (%s): %w", strings.Join(each, "; "), why)
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
		return answer, l.away(fmt.Errorf("no answer yet: %w", context.Cause(ctx)))
	}
}

// unclear: whether the request was carried out is not known.
func indeterminate(err error) bool {
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
	l.abort()
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

// logger drops what the library logs: who uses an engine hears of it by errors. That a
// server let nobody in is kept for them.
type logger struct{ link *link }

func (g logger) Printf(format string, args ...any) {
	if strings.HasPrefix(format, "error in resending") {
		g.link.recordFailure(g.link.conn.Server(), fmt.Errorf(format, args...))
	}
}
