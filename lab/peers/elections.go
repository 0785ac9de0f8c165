package main

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"leasehold"
	"leasehold/elect"
	"leasehold/engines"
	"leasehold/torture"
)

// trying is how long a candidate stands that is asked not to wait: an election has no such call.
const trying = 200 * time.Millisecond

// attempt is one candidacy, until ctx ends, or with try as short as it can be.
func attempt(ctx context.Context, try bool, campaign func(context.Context) error) error {
	if !try {
		return campaign(ctx)
	}
	short, cancel := context.WithTimeout(ctx, trying)
	defer cancel()
	err := campaign(short)
	if err != nil && ctx.Err() == nil && short.Err() != nil {
		return leasehold.ErrHeld
	}
	return err
}

// ourElections is package elect: who leads holds.
type ourElections struct {
	*leasehold.Client
}

// openOurElections opens the engine of a form, in which the address is to be put.
func openOurElections(form func(addr string) string) func(context.Context, place) (library, error) {
	return func(ctx context.Context, at place) (library, error) {
		eng, err := engines.Open(ctx, form(at.addr))
		if err != nil {
			return nil, err
		}
		c, err := leasehold.New(eng, &leasehold.Options{TTL: at.ttl})
		if err != nil {
			return nil, errors.Join(err, eng.Close())
		}
		return &ourElections{c}, nil
	}
}

// Lock looks more often than a candidate does by default, so that a free name soon has a leader.
func (o *ourElections) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	e, err := elect.New(o.Client, name, elect.Options{Look: 500 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	var l *leasehold.Lease
	err = attempt(ctx, try, func(ctx context.Context) (err error) {
		l, err = e.Campaign(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &ourHeld{l, true}, nil
}

// etcdElections is the election of etcd's client. Each candidate has a Session of its own.
type etcdElections struct {
	place
	client *clientv3.Client
}

func openEtcdElections(_ context.Context, at place) (library, error) {
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{at.addr}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	return &etcdElections{at, c}, err
}

func (e *etcdElections) Lock(ctx context.Context, name string, try bool) (torture.Held, error) {
	s, err := newSession(ctx, e.client, e.ttl)
	if err != nil {
		return nil, err
	}
	h := &etcdLeads{concurrency.NewElection(s, name), s}
	if err := attempt(ctx, try, func(ctx context.Context) error { return h.election.Campaign(ctx, "value") }); err != nil {
		go s.Close() // the answer need not wait for that
		return nil, err
	}
	return h, nil
}

func (e *etcdElections) Close() error { return e.client.Close() }

type etcdLeads struct {
	election *concurrency.Election
	session  *concurrency.Session
}

func (h *etcdLeads) Valid() bool { return !over(h.session.Done()) }

func (h *etcdLeads) Lost() <-chan struct{} { return h.session.Done() }

// Unlock says what the Session said: Resign does not say whether its key was there.
func (h *etcdLeads) Unlock() error {
	lost := over(h.session.Done())
	ctx, cancel := context.WithTimeout(context.Background(), unlocking)
	defer cancel()
	err := h.election.Resign(ctx)
	_ = h.session.Close() // the lease ends by its TTL if this does not reach the server
	if lost {
		return leasehold.ErrLost
	}
	return err
}
