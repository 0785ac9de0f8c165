package redissonlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Kind is the kind of Redisson lock that the names are: ?kind=. Default [Lock].
	Kind Kind

	// Watchdog is the shortest lockWatchdogTimeout of the Java programs that share the
	// names: ?watchdog=. It bounds the TTL of readers and writers, and matters to no other
	// kind: see the package documentation. Default 30 s, as in Redisson.
	Watchdog time.Duration

	// AllowEviction accepts a server whose maxmemory-policy may drop the keys
	// of locks that are held: ?allow-eviction.
	AllowEviction bool

	// Failover declares that another server may take this one's place behind the same
	// address without showing replicas, as at many providers: ?failover. Two may hold
	// then, and the engine declares it. The engine does so by itself if the server shows
	// replicas, or this user may not ask.
	Failover bool
}

// defaultWatchdog is Redisson's default of lockWatchdogTimeout.
const defaultWatchdog = 30 * time.Second

// Open connects to the Redis that a URL names and returns an engine on it. The
// documentation of package leasehold/engine/redis lists the forms and parameters. Its
// errors show no password. ctx bounds the opening only.
//
// It returns an error for a malformed URL, a server that cannot be reached or is not
// Redis, and a wrong password. It refuses a server that is unfit ([Options.AllowEviction],
// a replica, one node of a Cluster) and a user who may not subscribe or publish.
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	// Redisson's schemes are Redis' own: redisson: redis:, redissons-cluster:
	// rediss-cluster:, redisson+unix: redis+unix:.
	scheme, rest, ok := strings.Cut(rawURL, "://")
	form, isOurs := strings.CutPrefix(strings.ToLower(scheme), "redisson")
	if !ok || !isOurs {
		return nil, fmt.Errorf("redissonlock: %w: the URL has another scheme: begin it with redisson://, redissons://, redisson-sentinel:// or redisson-cluster://", engine.ErrURL)
	}
	return redisconn.Open(ctx, "redis"+form+"://"+rest, "redissonlock", "redisson", func(t *redisconn.Target) (*Options, error) {
		o := &Options{Kind: Kind(t.Param("kind")), AllowEviction: t.AllowEviction, Failover: t.Failover}
		if v := t.Param("watchdog"); v != "" {
			var err error
			if o.Watchdog, err = time.ParseDuration(v); err != nil {
				return nil, fmt.Errorf("watchdog=%q is not a duration: give one such as 30s", v)
			}
		}
		return o, o.check()
	}, start, "kind", "watchdog")
}

// New returns an engine on the caller's own client, which the caller closes after the
// engine. It asks the server whether it is fit. A nil o means the defaults.
func New(ctx context.Context, client rueidis.Client, o *Options) (*Engine, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if err := opts.check(); err != nil {
		return nil, redisconn.Named("redissonlock", err)
	}
	e, err := start(ctx, redisconn.New(client), &opts)
	return e, redisconn.Named("redissonlock", err)
}

// check fills in the defaults.
func (o *Options) check() error {
	o.Kind = cmp.Or(o.Kind, Lock)
	switch o.Kind {
	case Lock, ReadWrite, Fenced:
	default:
		return fmt.Errorf("the kind %q is unknown: use lock (the default), readwrite or fenced", o.Kind)
	}
	if o.Watchdog != 0 && o.Kind != ReadWrite {
		return errors.New("watchdog is only for kind=readwrite: leave it out")
	}
	o.Watchdog = cmp.Or(o.Watchdog, defaultWatchdog)
	if o.Watchdog < engine.MinTTL || o.Watchdog > engine.MaxTTL {
		return fmt.Errorf("watchdog=%v is outside %v to %v: give a time in between", o.Watchdog, engine.MinTTL, engine.MaxTTL)
	}
	return nil
}

func start(ctx context.Context, c *redisconn.Client, o *Options) (*Engine, error) {
	if o.Failover {
		c.MayFailOver()
	}
	if err := c.Check(ctx, o.AllowEviction); err != nil {
		return nil, err
	}
	e := &Engine{wire: c, revokes: o.AllowEviction, kind: o.Kind, scripts: newScripts(o.Kind)}
	if e.kind == ReadWrite {
		e.longest = o.Watchdog
	}
	e.ears = parts.NewEars(e.channel)
	if err := e.audible(ctx); err != nil {
		return nil, fmt.Errorf("the engine could notify no waiter that a lock is free: %w", err)
	}
	return e, nil
}

// audible refuses a user who may not subscribe, or not publish: every wait would last
// until the next poll.
func (e *Engine) audible(ctx context.Context) error {
	channel := e.channel(nobody)
	s, err := e.wire.Listen(ctx, func(string) {}, func(string, string) {})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(ctx, channel); err != nil {
		return err
	}
	if e.wire.Cluster() {
		shard, received := context.WithCancel(ctx)
		err := e.wire.ListenShard(shard, channel, received, func() {})
		if received(); errors.Is(err, engine.ErrRefused) && !errors.Is(err, errors.ErrUnsupported) {
			return err
		}
		// Scripts go on without it, and would notify no Java program since 3.22.0.
		if err := e.wire.PublishShard(ctx, channel, "0"); err != nil {
			return err
		}
	}
	return e.wire.Publish(ctx, channel, "0")
}
