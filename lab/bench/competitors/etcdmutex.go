package competitors

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"

	"leasehold/lab/bench/harness"
)

// EtcdMutex is the lock of etcd's own client library.
func EtcdMutex() harness.Competitor {
	return harness.Competitor{
		Name:   "concurrency.Mutex",
		Waits:  "watches the key just ahead from the revision it joined at",
		About:  "client/v3/concurrency at the client's version; one Session for each client, 60 s by default, kept alive by the library. Two of one Session do not exclude each other, so only processes compete here",
		Renews: true,
		Open: func(ctx context.Context, at harness.Endpoint) (harness.Locker, error) {
			client, err := clientv3.New(clientv3.Config{Endpoints: at.Addrs, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
			if err != nil {
				return nil, err
			}
			var options []concurrency.SessionOption
			if at.TTL > 0 {
				options = append(options, concurrency.WithTTL(int(at.TTL/time.Second)))
			}
			session, err := concurrency.NewSession(client, options...)
			if err != nil {
				return nil, errors.Join(err, client.Close())
			}
			return &etcdMutexes{client, session}, nil
		},
	}
}

type etcdMutexes struct {
	client  *clientv3.Client
	session *concurrency.Session
}

func (m *etcdMutexes) Lock(ctx context.Context, name string) (harness.Unlock, error) {
	x := concurrency.NewMutex(m.session, "mutex/"+name)
	if err := x.Lock(ctx); err != nil {
		return nil, err
	}
	return func() error { return x.Unlock(context.Background()) }, nil
}

func (m *etcdMutexes) Remaining(ctx context.Context, name string) (time.Duration, error) {
	r, err := m.client.Get(ctx, "mutex/"+name, clientv3.WithFirstCreate()...)
	if err != nil || len(r.Kvs) == 0 {
		return 0, err
	}
	left, err := m.client.TimeToLive(ctx, clientv3.LeaseID(r.Kvs[0].Lease))
	if err != nil {
		return 0, err
	}
	return time.Duration(left.TTL) * time.Second, nil
}

func (m *etcdMutexes) Close() error { return errors.Join(m.session.Close(), m.client.Close()) }
