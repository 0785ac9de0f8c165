package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/redis/rueidis"

	"leasehold/cmd/leasehold/internal/handwritten"
)

// byHand plays with a hand-written lock. What it believes is what such a program
// believes: it holds from Lock to Unlock.
type byHand struct {
	make  func(name string) handwritten.Lock
	locks map[string]handwritten.Lock // held
	end   func()
}

func (o *order) onRedis() (player, error) {
	h := &byHand{locks: map[string]handwritten.Lock{}, end: func() {}}
	if o.Scheme == "redlock" {
		var masters []rueidis.ClientOption
		for addr := range strings.SplitSeq(o.Server, ",") {
			masters = append(masters, rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
		}
		h.make = func(name string) handwritten.Lock {
			return &handwritten.Redlock{Masters: masters, Key: o.Prefix + name, Owner: o.Owner, Expiry: o.Expiry}
		}
		return h, nil
	}
	client, err := dialRedis(o.Server)
	if err != nil {
		return nil, err
	}
	h.end = client.Close
	h.make = func(name string) handwritten.Lock {
		key := o.Prefix + name
		px := handwritten.SetPX{Redis: client, Key: key, Owner: o.Owner, Expiry: o.Expiry}
		switch o.Scheme {
		case "setnx":
			return &handwritten.SetNX{Redis: client, Key: key}
		case "setpx-del":
			return &handwritten.SetPXDel{SetPX: px}
		case "getset":
			return &handwritten.GetSet{Redis: client, Key: key, Expiry: o.Expiry, Now: func() time.Time { return time.Now().Add(o.Ahead) }}
		default:
			return &px
		}
	}
	return h, nil
}

func dialRedis(server string) (rueidis.Client, error) {
	options, err := redisOptions(server)
	if err != nil {
		return nil, err
	}
	return rueidis.NewClient(options)
}

func (o *order) onZooKeeper(ctx context.Context) (player, error) {
	where, err := parseZooKeeper(o.Server)
	if err != nil {
		return nil, err
	}
	conn, err := dialZooKeeper(ctx, where)
	if err != nil {
		return nil, err
	}
	return &byHand{locks: map[string]handwritten.Lock{}, end: conn.Close, make: func(name string) handwritten.Lock {
		if o.Scheme == "zookeeper-one" {
			return &handwritten.OneNode{Conn: conn, Path: "/" + where.Path + "/" + name}
		}
		return handwritten.NewTutorial(conn, "/"+where.Path)
	}}, nil
}

// session is how long a hand-written lock's session lasts without a sign of life.
const session = 5 * time.Second

func dialZooKeeper(ctx context.Context, where address) (*zk.Conn, error) {
	conn, events, err := zk.Connect(where.hosts, session, zk.WithLogInfo(false), zk.WithLogger(silent{}), zk.WithDialer(where.dial))
	if err != nil {
		return nil, err
	}
	for {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				go drain(events)
				return conn, nil
			}
		case <-time.After(session):
			conn.Close()
			return nil, fmt.Errorf("%s gave no session within %v", where.Authority, session)
		case <-ctx.Done():
			conn.Close()
			return nil, ctx.Err()
		}
	}
}

func drain(events <-chan zk.Event) {
	for range events {
	}
}

type silent struct{}

func (silent) Printf(string, ...any) {}

func (h *byHand) lock(ctx context.Context, name string) error {
	l := h.make(name)
	err := l.Lock(ctx)
	if err == nil {
		h.locks[name] = l
	}
	return err
}

func (h *byHand) unlock(ctx context.Context, name string) error {
	l := h.locks[name]
	if l == nil {
		return errNotHeld
	}
	delete(h.locks, name)
	return l.Unlock(ctx)
}

var errNotHeld = errors.New("does not believe to hold it")

func (h *byHand) believes(name string) error {
	if h.locks[name] == nil {
		return errNotHeld
	}
	return nil
}

// loss: nobody tells a hand-written lock.
func (h *byHand) loss(ctx context.Context, _ string) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func (h *byHand) pass(string) string { return "" }

func (h *byHand) close() error {
	h.end()
	return nil
}
