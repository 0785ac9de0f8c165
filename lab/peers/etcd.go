package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"leasehold"
	"leasehold/torture"
)

// unlocking is how long an Unlock may take that knows no end of its own.
const unlocking = 10 * time.Second

// etcdMutexes is the lock of etcd's client. Each lock has a Session of its own: two of one
// Session do not exclude each other.
type etcdMutexes struct {
	place
	client *clientv3.Client
}

func openEtcd(_ context.Context, at place) (library, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	return &etcdMutexes{at, c}, err
}

func (e *etcdMutexes) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	s, err := newSession(ctx, e.client, e.ttl)
	if err != nil {
		return nil, err
	}
	h := &etcdHeld{concurrency.NewMutex(s, name), s}
	lock := h.mutex.Lock
	if try {
		lock = h.mutex.TryLock
	}
	if err := lock(ctx); err != nil {
		go s.Close() // the answer need not wait for that
		if errors.Is(err, concurrency.ErrLocked) {
			err = leasehold.ErrHeld
		}
		return nil, err
	}
	return h, nil
}

// newSession opens a Session. It lives as long as its context; until there is one it ends with
// ctx.
func newSession(ctx context.Context, client *clientv3.Client, ttl time.Duration) (*concurrency.Session, error) {
	opening, end := context.WithCancel(client.Ctx())
	stop := context.AfterFunc(ctx, end)
	s, err := concurrency.NewSession(client, concurrency.WithTTL(int(ttl/time.Second)), concurrency.WithContext(opening))
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		end()
		return nil, err
	}
	return s, nil
}

func (e *etcdMutexes) Close() error { return e.client.Close() }

type etcdHeld struct {
	mutex   *concurrency.Mutex
	session *concurrency.Session
}

func (h *etcdHeld) Valid() bool { return !over(h.session.Done()) }

func (h *etcdHeld) Lost() <-chan struct{} { return h.session.Done() }

// Unlock says what the Session said: the Mutex does not say whether its key was there.
func (h *etcdHeld) Unlock() error {
	lost := over(h.session.Done())
	ctx, cancel := context.WithTimeout(context.Background(), unlocking)
	defer cancel()
	err := h.mutex.Unlock(ctx)
	_ = h.session.Close() // the lease ends by its TTL if this does not reach the server
	if lost {
		return leasehold.ErrLost
	}
	return err
}
