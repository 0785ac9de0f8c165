package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/url"
	"time"

	"leasehold/engine"
	"leasehold/torture"
)

// library is what all libraries come to.
type library interface {
	Lock(ctx context.Context, name string, try bool) (torture.Held, error)
	Close() error
}

// place is where a library finds its server, and how it is used.
type place struct {
	addr  string // host:port
	ttl   time.Duration
	asked bool // the holder asks before each step
}

// url is the place as the URL of a lock. A trial may put a proxy in the place of the server.
func (p place) url(name string) string {
	return fmt.Sprintf("%s://%s?ttl=%v&asked=%v", name, p.addr, p.ttl, p.asked)
}

// open opens the lock of a URL.
func open(ctx context.Context, text string) (engine.Engine, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	p := peerOf(u.Scheme)
	if p == nil {
		return nil, fmt.Errorf("no lock is called %q", u.Scheme)
	}
	at := place{addr: u.Host, asked: u.Query().Get("asked") == "true"}
	if at.ttl, err = time.ParseDuration(u.Query().Get("ttl")); err != nil {
		return nil, err
	}
	l, err := p.open(ctx, at)
	if err != nil {
		return nil, err
	}
	return &adapter{library: l, peer: p, addr: at.addr}, nil
}

// adapter is a library as torture takes it. Torture never calls what an engine has besides.
type adapter struct {
	library
	*peer
	addr string
}

var _ torture.Locker = (*adapter)(nil)

func (a *adapter) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Modes: engine.Exclusive, Scope: engine.ScopeCluster, Failover: engine.FailoverNone, CrashRelease: a.release,
	}
}

// greetings are the least that a server answers, so that a trial sees whether it does.
var greetings = map[string]string{
	"Redis": "PING\r\n", "etcd": "GET /version HTTP/1.0\r\n\r\n", "ZooKeeper": "srvr",
	"PostgreSQL": "\x00\x00\x00\x08\x04\xd2\x16\x2f", // SSLRequest
}

// Queue asks the server for a sign of life. No library shows who waits.
func (a *adapter) Queue(ctx context.Context, name string) (engine.Queue, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", a.addr)
	if err != nil {
		return engine.Queue{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := io.WriteString(conn, greetings[a.store]); err != nil {
		return engine.Queue{}, err
	}
	_, err = conn.Read(make([]byte, 1))
	return engine.Queue{Name: name}, err
}

func (a *adapter) Begin(ctx context.Context) error {
	if b, ok := a.library.(interface{ begin(context.Context) error }); ok {
		return b.begin(ctx)
	}
	return nil
}

func (*adapter) Queues(context.Context, string) iter.Seq2[engine.Queue, error] {
	return func(func(engine.Queue, error) bool) {}
}

func (*adapter) Join(context.Context, engine.Request) (engine.Claim, error) {
	return engine.Claim{}, errors.ErrUnsupported
}

func (*adapter) Renew(context.Context, []engine.Renewal) ([]engine.Claim, error) {
	return nil, errors.ErrUnsupported
}

func (*adapter) Leave(context.Context, []engine.Claim) ([]engine.Claim, error) {
	return nil, errors.ErrUnsupported
}

func (*adapter) Revoke(context.Context, string, uint64, bool) error { return errors.ErrUnsupported }

func (*adapter) Watch(context.Context, func(engine.Claim)) error { return errors.ErrUnsupported }
