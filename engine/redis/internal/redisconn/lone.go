package redisconn

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// lone is the connection that all calls of a client share, where there is one and
// Dial made it.
//
// While one caller at a time uses it, the library writes and reads in the caller's
// goroutine. A lock and unlock take a sixth longer with a goroutine beside the
// caller's, and a quarter longer in the library's own way of letting a caller go (a
// context with Done and no deadline): medians in turns, two cores, loopback, where
// one run in three shows no difference. But then it does not see that a context is
// cancelled. So whoever's context ends while the library reads breaks the connection
// off, as the library does at a deadline: only this caller uses it, or others who
// ask again.
type lone struct {
	conn   atomic.Pointer[net.Conn]
	stands atomic.Bool // a call was answered, and none failed since

	under  atomic.Int32 // calls under way
	shared atomic.Bool  // calls have overlapped on the connection
	apart  atomic.Int32 // calls since that overlapped with none
}

// settled is how many calls in turn show that callers are one at a time again.
const settled = 64

// enter begins a call. The library changes a connection for
// good when calls overlap on it: goroutines of its own write and read from then on, which
// takes a lone caller half as long again. So when callers are one at a time again, enter
// closes the connection and reports true, and another call must learn of that first.
func (l *lone) enter() (closed bool) {
	switch {
	case l.under.Add(1) > 1:
		l.shared.Store(true)
		l.apart.Store(0)
	case l.shared.Load() && l.stands.Load() && l.apart.Add(1) >= settled:
		l.shared.Store(false)
		l.apart.Store(0)
		(*l.conn.Load()).Close()
		return true
	}
	return false
}

func (l *lone) leave() { l.under.Add(-1) }

// enter begins a call that may be alone.
func (c *Client) enter(ctx context.Context) {
	if c.lone != nil && c.lone.enter() {
		// Its error is of the closed connection. The call goes over a new one.
		_ = c.lone.do(ctx, c.redis, c.redis.B().Ping().Build())
	}
}

func (c *Client) leave() {
	if c.lone != nil {
		c.lone.leave()
	}
}

// calling is in the context of calls: what is dialed with it, or first, is theirs.
type calling struct{}

// timely is the context of a call, with a deadline that the library sets on the
// connection: no timer of ours need run for that.
type timely struct {
	context.Context
	deadline time.Time
}

// inTime is the context that the library gets for a call: see ask for why it always has a
// deadline.
func inTime(ctx context.Context) context.Context {
	at, ok := ctx.Deadline()
	if !ok {
		at = time.Now().Add(longest)
	}
	return timely{ctx, at}
}

func (t timely) Deadline() (time.Time, bool) { return t.deadline, true }

func (t timely) Value(key any) any {
	if key == (calling{}) {
		return true
	}
	return t.Context.Value(key)
}

// patience is how long the library has to see by itself that a context has ended.
const patience = 20 * time.Millisecond

// remember has the connection known that a client with these options makes.
func (l *lone) remember(o *rueidis.ClientOption) {
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
