package etcdlock

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"leasehold/engine"
	"leasehold/internal/mailbox"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Prefix begins every key; in a URL it is the path. Clients share locks only if their
	// prefixes agree. Default "leasehold/". It ends with a /, has up to 128 bytes and no
	// NUL. No part of it is line, note or void, since those begin the keys of a shorter
	// prefix.
	Prefix string

	// AllowOld accepts servers older than 3.5.28 and 3.6.9, with which two may hold a
	// lock: ?allow-old.
	AllowOld bool
}

func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Prefix = cmp.Or(c.Prefix, "leasehold/")
	if len(c.Prefix) > 128 || strings.ContainsRune(c.Prefix, 0) {
		return c, errors.New("the prefix has more than 128 bytes, or a NUL: choose another")
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		return c, fmt.Errorf("the prefix %q does not end with a /: add one", c.Prefix)
	}
	for part := range strings.SplitSeq(c.Prefix, "/") {
		if part == "line" || part == "note" || part == "void" {
			return c, fmt.Errorf("the prefix %q has a part %q, which is among the keys of a shorter prefix: choose another", c.Prefix, part)
		}
	}
	return c, nil
}

// openTime bounds Open.
const openTime = 5 * time.Second

// Open connects to the etcd that a URL names and returns an engine on it:
//
//	etcd://[user:password@]host[:2379],host[:2379]/prefix
//	etcds://...                               with TLS, always verified
//
// Write special characters as %xx. Parameters:
//
//	allow-old               Options.AllowOld
//	password-file=path      password from a file
//	ca=path                 the authority that signed the servers' certificates
//	cert=path, key=path     this client's certificate
//
// Its errors show no password. ctx bounds the opening only, which takes five seconds at
// most.
//
// Open returns an error for a malformed URL, if no server answers, and for a wrong
// password. It refuses a server that is not etcd or too old, and a user without the rights
// that the engine needs.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	config, o, err := parseURL(rawURL)
	if err != nil {
		return nil, fmt.Errorf("etcdlock: %w: %w", engine.ErrURL, err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	// The client asks for a token at once, bounded by its own life alone.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	config.Context = life
	stop := context.AfterFunc(ctx, end)
	connections := &connections{}
	config.DialOptions = append(config.DialOptions, grpc.WithStatsHandler(connections))
	client, err := clientv3.New(config)
	if err != nil {
		end()
		return nil, fmt.Errorf("etcdlock: %w", errors.Join(ctx.Err(), whoAnswers(ctx, &config), explain(err)))
	}
	e, err := New(ctx, client, o)
	if err != nil {
		err = errors.Join(err, client.Close())
		end()
		if errors.Is(err, errNobody) || overdue(err) {
			err = fmt.Errorf("etcdlock: %w", errors.Join(whoAnswers(ctx, &config), err))
		}
		return nil, err
	}
	if !stop() {
		return nil, errors.Join(fmt.Errorf("etcdlock: %w", ctx.Err()), e.Close(), client.Close())
	}
	e.owned, e.endClient = true, end
	connections.engine.Store(e)
	return e, nil
}

// New returns an engine on the caller's own client, which the caller closes after the
// engine. After an outage gRPC pauses up to two minutes before it connects again, unless
// grpc.WithConnectParams is among the client's DialOptions. It asks the servers whether they can do all that the engine needs. A nil o means
// the defaults.
func New(ctx context.Context, client *clientv3.Client, o *Options) (*Engine, error) {
	return newEngine(ctx, client, o, usual)
}

func newEngine(ctx context.Context, client *clientv3.Client, o *Options, b bounds) (*Engine, error) {
	opts, err := o.check()
	if err != nil {
		return nil, fmt.Errorf("etcdlock: %w", err)
	}
	if err := checkVersions(ctx, client, opts.AllowOld, true); err != nil {
		return nil, fmt.Errorf("etcdlock: %w", explain(err))
	}
	e := &Engine{
		client: client, bounds: b, allowOld: opts.AllowOld, keys: keys{opts.Prefix}, name: strings.ToLower(rand.Text()[:13]),
		mail: mailbox.New(), missed: make(lock, maxMissed),
		looks: looks{next: map[reading]*look{}, under: map[reading]bool{}}, past: past{look: make(chan struct{}, 1)}, judge: make(chan struct{}, 1),
	}
	e.life, e.end = context.WithCancel(context.Background())
	e.table.start(e.mail.Post, e.unuse)
	e.gather()
	e.classes.Open, e.classes.Close = e.open, e.giveUp
	// A user who may have no lease learns it now. The shortest lease ends by itself.
	_, shortest, err := e.grant(ctx, 1, nil)
	if err != nil {
		return nil, fmt.Errorf("etcdlock: %w", explain(err))
	}
	e.least = max(trusted(shortest).Truncate(time.Millisecond), engine.MinTTL)
	if err := e.mayWrite(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("etcdlock: %w", explain(err)), e.Close())
	}
	e.tasks.Go(func() { e.compare(e.life) })
	e.tasks.Go(func() { e.reconnects(e.life) })
	e.tasks.Go(func() { e.rejudge(e.life) })
	return e, nil
}

// mayWrite asks for the rights that every Join and Leave needs, and changes nothing.
func (e *Engine) mayWrite(ctx context.Context) error {
	return e.again(ctx, one(func(ctx context.Context) error {
		_, err := e.client.Txn(ctx).Then(
			clientv3.OpGet(e.keys.line(""), clientv3.WithPrefix(), clientv3.WithCountOnly()),
			clientv3.OpDelete(e.keys.line("")), clientv3.OpDelete(e.keys.notifications(e.name)),
		).Commit()
		return err
	}))
}

// explain adds to an error of etcd what to do next, and refuses the final ones.
func explain(err error) error {
	if err == nil {
		return nil
	}
	is := rpctypes.Error(err)
	switch {
	case errors.Is(is, rpctypes.ErrPermissionDenied):
		return engine.Refuse("this etcd user lacks a role that may read and write below the prefix; grant it: %w", err)
	case errors.Is(is, rpctypes.ErrNoSpace):
		return fmt.Errorf("etcd is full and takes no new claims; those in the queue can be left, and renewed until the leader changes: free space and disarm the alarm: %w", err)
	case errors.Is(is, rpctypes.ErrAuthFailed):
		return fmt.Errorf("wrong user or password: %w", err)
	case errors.Is(is, rpctypes.ErrUserEmpty):
		return fmt.Errorf("this etcd wants a user and a password; give them in the URL: %w", err)
	case status.Code(err) == codes.Unavailable && !errors.Is(err, errNobody):
		return fmt.Errorf("no etcd answers: %w", err)
	}
	return err
}
