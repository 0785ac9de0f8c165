package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// link is a client of the library, and the connection that its calls share.
type link struct {
	redis rueidis.Client
	conn  atomic.Pointer[net.Conn] // nil: calls have several
}

// lone is the connection that all calls of a client share, where there is one and
// Dial made it.
//
// While one caller at a time uses it, the library writes and reads in the caller's
// goroutine. A lock and unlock take a sixth longer with a goroutine beside the
// caller's, and a quarter longer in the library's own way of letting a caller go (a
// context with Done and no deadline): medians in turns, two cores, loopback, where
// one run in three shows no difference. But then it does not see that a context is
// cancelled. So one timer looks at the contexts of all calls while any is under way. It
// breaks the connection off for one that has ended, as the library does at a deadline:
// only this caller uses it, or others who ask again. (To be told by each context took an
// eighth of the client's time for a lock and unlock.)
type lone struct {
	options rueidis.ClientOption
	bound   time.Duration            // renewal, or longer in a test
	stands  atomic.Bool              // a call was answered, and none failed since
	ended   atomic.Pointer[net.Conn] // the last connection that led to a replica

	mu      sync.Mutex
	link    *link            // by which calls go
	calls   map[*timely]bool // under way; true: its context had ended when it was looked at last
	looking bool

	under int // calls under way, of every kind
	apart int // calls in turn since calls overlapped on the connection; settled: none did, or a new one was asked for
}

// settled is how many calls in turn show that callers are one at a time again.
const settled = 64

// enter begins a call over a link, and reports whether callers are one at a time again on one
// where calls have overlapped.
func (l *lone) enter() (by *link, again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under++
	switch {
	case l.under > 1:
		l.apart = 0
	case l.apart < settled && l.stands.Load():
		l.apart++
		again = l.apart == settled
	}
	return l.link, again
}

func (l *lone) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.under--
}

func (l *lone) close() {
	l.mu.Lock()
	by := l.link
	l.mu.Unlock()
	by.redis.Close()
}

// enter begins a call that may be alone, and returns what makes it: node, or what stands for
// it where there is one server. Then it returns the connection too, or nil if one has to be made.
func (c *Client) enter(ctx context.Context, node rueidis.Client) (rueidis.Client, *net.Conn) {
	if c.lone == nil {
		return node, nil
	}
	by, again := c.lone.enter()
	if again {
		by = c.renew(ctx, by)
	}
	conn := by.conn.Load()
	if conn == c.lone.ended.Load() {
		conn = nil
	}
	return by.redis, conn
}

func (c *Client) leave() {
	if c.lone != nil {
		c.lone.leave()
	}
}

// renewal bounds how long a call waits for a new link.
const renewal = 100 * time.Millisecond

// renew has calls go by a new link, and returns that. The library changes a connection for
// good when calls overlap on it: goroutines of its own write and read from then on, which
// takes a lone caller half as long again.
//
// The old connection stands until the library has set up the new one. A server at its
// maxclients refuses that, and so does one whose password has changed: without the old one
// the client could not renew, and would lose its leases. Then the old one stays, until
// calls have overlapped once more.
func (c *Client) renew(ctx context.Context, old *link) *link {
	ctx, cancel := context.WithTimeout(ctx, c.lone.bound)
	defer cancel()
	by, err := c.connect(ctx, c.lone.options)
	if err != nil {
		return old
	}
	c.lone.mu.Lock()
	defer c.lone.mu.Unlock()
	// Only the caller's own call is under way, and not sent yet, unless another has begun
	// since: then apart says so. Close ends the client's life before it looks at the link.
	if c.lone.apart < settled || c.life.Err() != nil {
		c.spawn(by.redis.Close)
		return old
	}
	(*old.conn.Load()).Close() // and no more: what Dial made keeps the connections of the others
	c.lone.link = by
	return by
}

// endDemoted ends the connection of a call that was answered by a replica. Its server was the
// primary, and keeps its connections; another has taken its place behind the address perhaps, and
// only a new connection leads there. conn is what enter returned: a call that began before the
// last connection was made says nothing of that.
func (c *Client) endDemoted(conn *net.Conn, answers ...rueidis.RedisResult) {
	if c.lone == nil || !slices.ContainsFunc(answers, func(r rueidis.RedisResult) bool { return demoted(r.Error()) }) {
		return
	}
	redis := c.lone.breakOff(conn)
	if redis == nil {
		return
	}
	// The library sees only by a call that its connection has ended. Without this one the next
	// might be a batch, and each call of it, repeated alone, would dial.
	ctx, cancel := context.WithTimeout(c.life, c.lone.bound)
	defer cancel()
	redis.Do(ctx, redis.B().Arbitrary("PING").Build())
}

// breakOff ends the connection, and returns the client of the library that had it; nil if conn
// is an earlier one.
func (l *lone) breakOff(conn *net.Conn) rueidis.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.link.conn.Load()
	if now == nil || conn != nil && conn != now {
		return nil
	}
	(*now).Close()
	l.ended.Store(now)
	l.stands.Store(false)
	return l.link.redis
}

// calling is in the context of calls: what is dialed with it, or first, is theirs.
type calling struct{}

// timely is the context of a call, with a deadline that the library sets on the
// connection: no timer of ours need run for that.
type timely struct {
	context.Context
	deadline time.Time
}

// do sends one command over a connection that stands.
func (l *lone) do(ctx context.Context, c rueidis.Client, cmd rueidis.Completed) rueidis.RedisResult {
	at, ok := ctx.Deadline()
	if !ok {
		at = time.Now().Add(longest) // see ask
	}
	call := &timely{ctx, at}
	l.begin(call)
	defer l.end(call)
	return unlessCutOff(call, func() rueidis.RedisResult { return c.Do(call, cmd) })
}

// unlessCutOff makes a call again that was cut off, whatever it does: it was not sent.
func unlessCutOff(ctx context.Context, call func() rueidis.RedisResult) (r rueidis.RedisResult) {
	for range attempts {
		if r = call(); !cutOff(ctx, r) {
			break
		}
	}
	return r
}

// cutOff reports whether another call's deadline broke off the connection that a call waited
// for. The library gives the error of that one to all that wait, and has sent none of them.
func cutOff(ctx context.Context, r rueidis.RedisResult) bool {
	at, _ := ctx.Deadline()
	return r.NonRedisError() == context.DeadlineExceeded && ctx.Err() == nil && time.Now().Before(at)
}

func (l *lone) begin(call *timely) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = map[*timely]bool{}
	}
	l.calls[call] = false
	if !l.looking {
		l.looking = true
		time.AfterFunc(patience, l.look)
	}
}

func (l *lone) end(call *timely) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, call)
}

// look breaks the connection off if a call goes on whose context has ended.
func (l *lone) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		l.looking = false
		return
	}
	for call, ended := range l.calls {
		if ended {
			(*l.link.conn.Load()).Close() // or the one that is being made for this call
		}
		l.calls[call] = call.Err() != nil
	}
	time.AfterFunc(patience, l.look)
}

func (t *timely) Deadline() (time.Time, bool) { return t.deadline, true }

func (t *timely) Value(key any) any {
	if key == (calling{}) {
		return true
	}
	return t.Context.Value(key)
}

// patience is how long the library has at least to see by itself that a context has ended,
// and how often it is looked at.
const patience = 20 * time.Millisecond

// remember has the connection known that a client with these options makes.
func (l *link) remember(o *rueidis.ClientOption) {
	dial := o.DialCtxFn
	if dial == nil {
		dial = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
			if t != nil {
				return (&tls.Dialer{NetDialer: d, Config: t}).DialContext(ctx, "tcp", addr)
			}
			return d.DialContext(ctx, "tcp", addr)
		}
	}
	o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, t *tls.Config) (net.Conn, error) {
		conn, err := dial(ctx, addr, d, t)
		if err == nil && (l.conn.Load() == nil || ctx.Value(calling{}) != nil) {
			l.conn.Store(&conn)
		}
		return conn, err
	}
}
