package redislock

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// lane is a connection of its own for calls that come one at a time.
//
// rueidis pipelines concurrent callers over shared connections, with a
// goroutine that writes and one that reads: the best there is for many callers,
// but a lone caller then wakes two other goroutines, hence threads, for every
// request, and a process that does nothing but wait for its turn is such a
// caller. On a connection that nobody shares rueidis writes and reads in the
// caller's goroutine. So: who finds no other call under way takes the lane, all
// others share.
//
// Only a standalone server has a lane. With Sentinel or Cluster the client
// knows which server to ask, and a connection it does not manage would go on
// asking one that was demoted.
type lane struct {
	mu    sync.Mutex // held while the lane is used, or its state changes
	conn  laneConn
	own   bool // conn is a client with one socket
	state laneState

	using sync.Mutex
	ctx   context.Context // of the call under way
	age   int             // in ticks
	cut   error           // why it was broken off
}

// ownLane is a client with one connection, which is a socket.
type ownLane struct {
	rueidis.Client
	socket *socket
}

// Close breaks off what is under way. The client alone would first wait for it.
func (l ownLane) Close() {
	l.socket.Close()
	l.Client.Close()
}

// laneConn is one connection that nobody else uses.
type laneConn interface {
	Do(context.Context, rueidis.Completed) rueidis.RedisResult
	Close()
}

type laneState uint8

const (
	laneNone    laneState = iota // none yet, or it broke
	laneOpening                  // somebody is dialing
	laneOpen
	laneClosed // for good
)

// onLane makes one call, or reports false: there is no lane, or it is in use.
func (e *server) onLane(ctx context.Context, s *script, c call) (rueidis.RedisResult, bool) {
	l := &e.lane
	if e.client.Mode() != rueidis.ClientModeStandalone || !l.mu.TryLock() {
		return rueidis.RedisResult{}, false
	}
	defer l.mu.Unlock()
	switch l.state {
	case laneNone:
		// Dialing takes a while: this call goes the shared way.
		l.state = laneOpening
		e.spawn(e.openLane)
		fallthrough
	default:
		return rueidis.RedisResult{}, false
	case laneOpen:
	}
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err), true
	}
	// rueidis hands a call to its goroutines for good if its context could be
	// cancelled, and sets the connection's deadline, hence a timer, if it could
	// time out. So it gets one that does neither, and overdue looks at ours.
	l.begin(ctx)
	cmd := s.untimed(e.client, c.keys, c.args)
	if l.own {
		cmd = s.command(e.client, false, c.keys, c.args) // its socket ignores time-outs
	}
	r := l.conn.Do(context.Background(), cmd)
	cut := l.end()
	if cut != nil || r.NonRedisError() != nil {
		e.spawn(l.conn.Close)
		l.conn, l.state = nil, laneNone
		if cut != nil && r.NonRedisError() != nil {
			return rueidis.NewErrorResult(cut), true
		}
	}
	return r, true
}

// begin says whose call is under way.
func (l *lane) begin(ctx context.Context) {
	l.using.Lock()
	defer l.using.Unlock()
	l.ctx, l.age, l.cut = ctx, 0, nil
}

// end says why it was broken off, if it was.
func (l *lane) end() error {
	l.using.Lock()
	defer l.using.Unlock()
	l.ctx = nil
	return l.cut
}

// overdueLane breaks the call off whose context has ended, or that has taken too
// long.
func (e *server) overdueLane() {
	l := &e.lane
	l.using.Lock()
	defer l.using.Unlock()
	if l.ctx == nil {
		return
	}
	if err := l.ctx.Err(); err != nil {
		e.cutLane(err)
	}
	if l.age++; l.age > longest {
		e.cutLane(context.DeadlineExceeded)
	}
}

// cutLane closes the connection under the call that uses it. Called with using
// held.
func (e *server) cutLane(why error) {
	if l := &e.lane; l.ctx != nil && l.cut == nil {
		l.cut = why
		e.spawn(l.conn.Close) // the call keeps conn as it is
	}
}

func (e *server) openLane() {
	conn, err := e.dialLane()
	e.lane.mu.Lock()
	defer e.lane.mu.Unlock()
	if err == nil && e.lane.state != laneClosed {
		_, shared := conn.(*dedicated)
		e.lane.conn, e.lane.own, e.lane.state = conn, !shared, laneOpen
		return
	}
	if err == nil {
		e.spawn(conn.Close)
	}
	if e.lane.state == laneOpening {
		e.lane.state = laneNone
	}
}

// dialAlone makes a client of its own with one connection, which is a socket.
// Where that is not possible the result has no client.
func (e *server) dialAlone(blocks bool) (conn ownLane, err error) {
	var last *socket
	own, ok, err := e.alone(func(c net.Conn) (net.Conn, error) {
		s, err := newSocket(c, blocks)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return c, nil
		case err != nil:
			c.Close()
			return nil, err
		}
		last = s
		return s, nil
	}, func(o *rueidis.ClientOption) {
		o.Dialer.KeepAlive = -1 // rueidis would ping as often, into somebody's call
		o.Dialer.KeepAliveConfig = net.KeepAliveConfig{Enable: true}
	})
	switch {
	case err != nil || !ok:
		return ownLane{}, err
	case last == nil:
		own.Close() // not a socket
		return ownLane{}, nil
	}
	last.ignoreDeadlines() // from here on guard looks after it
	return ownLane{own, last}, nil
}

// dialLane makes a client of its own, or takes a connection of the client's.
func (e *server) dialLane() (laneConn, error) {
	own, err := e.dialAlone(true)
	if err != nil {
		return nil, err
	}
	if own.Client != nil {
		return own, nil
	}
	conn, release := e.client.Dedicate()
	// A connection that could not be made says so at its first use, and the
	// call that used it goes another way. Better that happens here.
	if err := conn.Do(context.Background(), conn.B().Ping().Build()).Error(); err != nil {
		conn.Close()
		return nil, err
	}
	return &dedicated{conn, release}, nil
}

// closeLane ends the lane for good, and a call that is still under way.
func (e *server) closeLane() {
	e.lane.using.Lock()
	e.cutLane(engine.ErrClosed)
	e.lane.using.Unlock()
	e.lane.mu.Lock()
	defer e.lane.mu.Unlock()
	if e.lane.state == laneOpen {
		e.spawn(e.lane.conn.Close)
	}
	e.lane.conn, e.lane.state = nil, laneClosed
}
