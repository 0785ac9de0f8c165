package competitors

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold"
	"leasehold/lab/bench/harness"
)

// ZKLock is the lock of the client library for Go.
func ZKLock() harness.Competitor {
	return harness.Competitor{
		Name:  "zk.Lock",
		Waits: "watches the node before its own",
		About: "github.com/go-zookeeper/zk, its Lock: no bound, no token, no loss; a session as long as leasehold's",
		// The session is kept, and nothing is known of the lock.
		Renews: true,
		Open: func(ctx context.Context, at harness.Endpoint) (harness.Locker, error) {
			conn, events, err := zk.Connect(at.Addrs, session(at), zk.WithLogInfo(false))
			if err != nil {
				return nil, err
			}
			for {
				select {
				case ev := <-events:
					if ev.State == zk.StateHasSession {
						return &zkLocks{conn}, nil
					}
				case <-ctx.Done():
					conn.Close()
					return nil, ctx.Err()
				}
			}
		},
	}
}

// session is as long as leasehold's: twice the TTL.
func session(at harness.Endpoint) time.Duration {
	return 2 * cmp.Or(at.TTL, leasehold.DefaultTTL)
}

type zkLocks struct{ conn *zk.Conn }

// Lock waits in a goroutine of its own, since that lock knows no context.
func (l *zkLocks) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	lock := zk.NewLock(l.conn, "/zklock-"+strings.ReplaceAll(name, "/", "-"), zk.WorldACL(zk.PermAll))
	done := make(chan error, 1)
	go func() { done <- lock.Lock() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return lock.Unlock, nil
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				_ = lock.Unlock() // nobody wants it any more
			}
		}()
		return nil, ctx.Err()
	}
}

func (l *zkLocks) Close() error {
	l.conn.Close()
	return nil
}
