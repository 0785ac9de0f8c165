package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"

	"leasehold"
	"leasehold/torture"
)

// zkLocks is the lock of the ZooKeeper client for Go. It says nothing of a loss. So the holder
// listens to the connection, whose session the lock lives in.
type zkLocks struct {
	conn *zk.Conn

	mu     sync.Mutex
	broken chan struct{} // closed when the connection breaks next
}

// silent keeps what the client says of each broken connection out of the output of a run.
type silent struct{}

func (silent) Printf(string, ...any) {}

func openZK(_ context.Context, at place) (library, error) {
	conn, events, err := zk.Connect([]string{at.addr}, at.ttl, zk.WithLogger(silent{}))
	if err != nil {
		return nil, err
	}
	l := &zkLocks{conn: conn, broken: make(chan struct{})}
	go l.listen(events)
	return l, nil
}

func (l *zkLocks) listen(events <-chan zk.Event) {
	for e := range events {
		if e.State == zk.StateDisconnected || e.State == zk.StateExpired {
			l.mu.Lock()
			close(l.broken)
			l.broken = make(chan struct{})
			l.mu.Unlock()
		}
	}
}

func (l *zkLocks) breaks() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// Lock waits in a goroutine: that of the library knows no context, and no try.
func (l *zkLocks) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	if try {
		return nil, errors.ErrUnsupported
	}
	h := &zkHeld{zk.NewLock(l.conn, "/"+name, zk.WorldACL(zk.PermAll)), l.breaks()}
	done := make(chan error, 1)
	go func() { done <- h.lock.Lock() }()
	select {
	case err := <-done:
		if err != nil {
			return nil, err
		}
		return h, nil
	case <-ctx.Done():
		go func() {
			if <-done == nil {
				_ = h.Unlock() // nobody wants it any more
			}
		}()
		return nil, ctx.Err()
	}
}

func (l *zkLocks) Close() error { l.conn.Close(); return nil }

type zkHeld struct {
	lock   *zk.Lock
	broken <-chan struct{}
}

func (h *zkHeld) Valid() bool { return !over(h.broken) }

func (h *zkHeld) Lost() <-chan struct{} { return h.broken }

// Unlock tries again while the connection is broken: the node would stay with the session.
func (h *zkHeld) Unlock() error {
	lost := over(h.broken)
	for end := time.Now().Add(unlocking); ; time.Sleep(100 * time.Millisecond) {
		err := h.lock.Unlock()
		switch {
		case errors.Is(err, zk.ErrNoNode), err == nil && lost:
			return leasehold.ErrLost
		case err == nil, errors.Is(err, zk.ErrClosing), time.Now().After(end):
			return err
		}
	}
}
