package redislock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// server is what both layouts need of the other side, and of closing.
type server struct {
	client rueidis.Client
	own    *rueidis.ClientOption // of the client, if Close closes it
	claims register
	busy   atomic.Int32 // calls under way
	many   int32        // from how many on they are grouped
	lane   lane
	group  group

	guarded atomic.Bool // look will be called

	answered atomic.Int32 // shared calls since one failed, up to warm

	closed   atomic.Bool
	closing  chan struct{}
	running  sync.WaitGroup // what outlives the call that began it; all bounded
	spawning sync.Mutex
	waited   bool // running is being waited for: nothing may be added
}

// newServer: own are the options that the client was made with, if Close is to
// close it.
func newServer(c rueidis.Client, own *rueidis.ClientOption) server {
	return server{
		client: c, own: own, many: many, closing: make(chan struct{}), group: group{script: newScript(groupLua)},
	}
}

const closeBound = 2 * time.Second

// close leaves every claim that is not detached.
func (e *server) close(leave func(context.Context, []engine.Claim) ([]engine.Claim, error)) error {
	if e.closed.Swap(true) {
		return nil
	}
	close(e.closing)
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	var err error
	for left := e.claims.all(); len(left) > 0 && err == nil; {
		n := min(engine.MaxBatch, len(left))
		_, err = leave(ctx, left[:n])
		left = left[n:]
	}
	if n := len(e.claims.all()); n == 0 {
		err = nil // all are gone, even if of some it is not known how they were found
	} else if err != nil {
		err = fmt.Errorf("redislock: %d claims were not left and end by their TTL: %w", n, err)
	}
	e.closeLane()
	e.closeGroup()
	e.spawning.Lock()
	e.waited = true
	e.spawning.Unlock()
	e.running.Wait()
	if e.own != nil {
		e.client.Close()
	}
	return err
}

// dedicated is a connection out of the client's pool. Close ends it, release
// gives it back.
type dedicated struct {
	rueidis.DedicatedClient
	release func()
}

// dedicate takes a connection. rueidis dials it without a context, so somebody
// else must wait for it if ours ends first.
func (e *server) dedicate(ctx context.Context) (dedicated, error) {
	return e.await(ctx, func() (dedicated, error) {
		conn, release := e.client.Dedicate()
		return dedicated{conn, release}, nil
	})
}

func (e *server) await(ctx context.Context, dial func() (dedicated, error)) (dedicated, error) {
	type dialed struct {
		conn dedicated
		err  error
	}
	got := make(chan dialed, 1)
	e.spawn(func() {
		conn, err := dial()
		got <- dialed{conn, err}
	})
	select {
	case d := <-got:
		return d.conn, d.err
	case <-ctx.Done():
		e.spawn(func() {
			if d := <-got; d.err == nil {
				d.conn.Close()
			}
		})
		return dedicated{}, ctx.Err()
	}
}

// spawn runs what outlives the call that began it. Close waits for it, except
// for what a call that was still under way then begins later.
func (e *server) spawn(f func()) {
	e.spawning.Lock()
	defer e.spawning.Unlock()
	if e.waited {
		go f()
		return
	}
	e.running.Go(f)
}
