package redislock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
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
	busy  atomic.Int32 // calls under way, on the lane or not
	mu    sync.Mutex   // held while the lane is used, or its state changes
	conn  *dedicated
	state laneState
}

type laneState uint8

const (
	laneNone    laneState = iota // none yet, or it broke
	laneOpening                  // somebody is dialing
	laneOpen
	laneClosed // for good
)

// do sends one command.
func (e *server) do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	defer e.lane.busy.Add(-1)
	busy := e.lane.busy.Add(1)
	if busy == 1 && e.client.Mode() == rueidis.ClientModeStandalone && e.lane.mu.TryLock() {
		switch e.lane.state {
		case laneOpen:
			defer e.lane.mu.Unlock()
			return e.onLane(ctx, cmd)
		case laneNone:
			// Dialing takes a while: this call goes the shared way.
			e.lane.state = laneOpening
			e.spawn(e.openLane)
		}
		e.lane.mu.Unlock()
	}
	if busy >= many {
		return e.inGroup(ctx, cmd)
	}
	return e.client.Do(ctx, cmd)
}

// onLane runs with the lane locked.
func (e *server) onLane(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	conn := e.lane.conn
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	// rueidis hands a call to its goroutines for good if the context could be
	// cancelled at a time unknown. So it gets one that cannot, and a
	// cancellation ends the connection instead, which breaks the call off
	// within a second if the server is silent; else the answer is here sooner.
	stop := context.AfterFunc(ctx, func() { e.spawn(conn.Close) })
	inner := ctx
	if _, ok := ctx.Deadline(); !ok {
		inner = context.WithoutCancel(ctx)
	}
	r := conn.Do(inner, cmd)
	lost := !stop()
	if lost || r.NonRedisError() != nil {
		e.lane.conn, e.lane.state = nil, laneNone
		if !lost {
			e.spawn(conn.Close)
		} else if r.NonRedisError() != nil {
			return rueidis.NewErrorResult(ctx.Err())
		}
	}
	return r
}

func (e *server) openLane() {
	conn, release := e.client.Dedicate()
	// A connection that could not be made says so at its first use, and the
	// call that used it goes another way. Better that happens here.
	err := conn.Do(context.Background(), conn.B().Ping().Build()).Error()
	e.lane.mu.Lock()
	defer e.lane.mu.Unlock()
	if err != nil || e.lane.state == laneClosed {
		e.spawn(conn.Close)
		if e.lane.state == laneOpening {
			e.lane.state = laneNone
		}
		return
	}
	e.lane.conn, e.lane.state = &dedicated{conn, release}, laneOpen
}

// closeLane ends the lane for good.
func (e *server) closeLane() {
	e.lane.mu.Lock()
	defer e.lane.mu.Unlock()
	if e.lane.state == laneOpen {
		e.spawn(e.lane.conn.Close)
	}
	e.lane.conn, e.lane.state = nil, laneClosed
}
