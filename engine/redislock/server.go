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
	own    bool // Close closes the client
	claims register
	lane   lane
	group  group

	closed   atomic.Bool
	closing  chan struct{}
	running  sync.WaitGroup // what outlives the call that began it; all bounded
	spawning sync.Mutex
	waited   bool // running is being waited for: nothing may be added
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
	e.spawning.Lock()
	e.waited = true
	e.spawning.Unlock()
	e.running.Wait()
	if e.own {
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
	got := make(chan dedicated, 1)
	e.spawn(func() {
		conn, release := e.client.Dedicate()
		got <- dedicated{conn, release}
	})
	select {
	case conn := <-got:
		return conn, nil
	case <-ctx.Done():
		e.spawn(func() { (<-got).Close() })
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
