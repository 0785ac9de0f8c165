package queuelock

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Prefix begins every key and channel: ?prefix=. Clients share locks only
	// if their prefixes agree. Default "leasehold:"; up to 128 bytes, no braces.
	Prefix string

	// Replicas, if not 0, is how many replicas must have acknowledged a hold before the
	// client believes it: ?replicas=. It costs a round trip to them. 0 to 100.
	Replicas int

	// RestartDelay, if not 0, bounds every TTL: ?restart-delay=1m. For that time after its
	// start a server grants, extends and frees nothing, unless it syncs every write:
	// claims that it may have forgotten have expired then. From one second to
	// [engine.MaxTTL]. All clients of the same locks must agree on it: see the package
	// documentation.
	RestartDelay time.Duration

	// AllowEviction accepts a server whose maxmemory-policy may drop the keys
	// of locks that are held: ?allow-eviction.
	AllowEviction bool

	// Failover declares that another server may take this one's place behind the same
	// address without showing replicas, as at many providers: ?failover. Two may hold
	// then, and the engine declares it. The engine does so by itself if the server shows
	// replicas, or this user may not ask.
	Failover bool
}

// leastDelay is above how finely a server tells the time since its start.
const leastDelay = time.Second

// Open connects to the Redis that a URL names and returns an engine on it. The
// documentation of package leasehold/engine/redis lists the forms and parameters. Its
// errors show no password. ctx bounds the opening only.
//
// It returns an error for a malformed URL, a server that cannot be reached or is not
// Redis, a wrong password, and a user without the rights that the engine needs. It refuses
// a server that is unfit ([Options.AllowEviction], a replica, one node of a Cluster).
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	return redisconn.Open(ctx, rawURL, "queuelock", "queues", func(t *redisconn.Target) (o *Options, err error) {
		o = &Options{Prefix: t.Param("prefix"), AllowEviction: t.AllowEviction, Failover: t.Failover}
		if v := t.Param("replicas"); v != "" {
			if o.Replicas, err = strconv.Atoi(v); err != nil {
				return nil, fmt.Errorf("replicas=%q is not a number: give one from 0 to 100", v)
			}
		}
		if v := t.Param("restart-delay"); v != "" {
			if o.RestartDelay, err = time.ParseDuration(v); err != nil {
				return nil, fmt.Errorf("restart-delay=%q is not a duration: give one such as 1m", v)
			}
		}
		return o, o.check()
	}, start, "prefix", "replicas", "restart-delay")
}

// New returns an engine on the caller's own client, which the caller closes after the
// engine. It asks the server whether it can do all that the engine needs. A nil o means
// the defaults.
func New(ctx context.Context, client rueidis.Client, o *Options) (*Engine, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if err := opts.check(); err != nil {
		return nil, redisconn.Named("queuelock", err)
	}
	e, err := start(ctx, redisconn.New(client), &opts)
	return e, redisconn.Named("queuelock", err)
}

// check fills in the defaults and refuses options out of bounds.
func (o *Options) check() error {
	o.Prefix = cmp.Or(o.Prefix, "leasehold:")
	if err := redisconn.CheckPrefix(o.Prefix); err != nil {
		return err
	}
	if o.Replicas < 0 || o.Replicas > 100 {
		return fmt.Errorf("replicas %d is outside 0 to 100: give a number in between", o.Replicas)
	}
	if d := o.RestartDelay; d != 0 && (d < leastDelay || d > engine.MaxTTL) {
		return fmt.Errorf("the restart-delay %v is outside %v to %v: give a time in between", d, leastDelay, engine.MaxTTL)
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
	if o.RestartDelay > 0 {
		if err := c.DelayRestarts(ctx, o.RestartDelay, o.Prefix+"run", nil); err != nil {
			return nil, err
		}
	}
	var id [12]byte
	rand.Read(id[:])
	e := &Engine{
		wire: c, revokes: o.AllowEviction, scripts: newScripts(o.RestartDelay > 0), longest: o.RestartDelay,
		prefix: o.Prefix, channel: o.Prefix + "@" + hex.EncodeToString(id[:]), replicas: o.Replicas,
	}
	e.groups.Many, e.groups.Most, e.groups.Alone, e.groups.Send = many, enough, e.alone, e.together
	// Leaving a claim that cannot exist shows whether scripts may be run, and
	// teaches every server the script on the way. It is asked of a server that does
	// not grant yet, too.
	b, err := c.Call(ctx, newScripts(false).leave, redisconn.Call{Keys: []string{e.key("probe")}, Args: []string{strings.Repeat("\x00", 16)}}).ToString()
	if err != nil {
		return nil, redisconn.Explain(err, "")
	}
	if _, ok := decode(b); !ok {
		return nil, errors.New("this server runs scripts, but not as Redis does: use Redis or Valkey")
	}
	if err := e.audible(ctx); err != nil {
		return nil, fmt.Errorf("the engine could notify no waiter that its claim holds: %w", err)
	}
	return e, nil
}

// audible refuses a user who may not subscribe to this engine's channel, or may not
// publish there: scripts do not fail because of that, and every wait would take a second.
func (e *Engine) audible(ctx context.Context) error {
	s, err := e.wire.Listen(ctx, func(string) {}, func(string, string) {})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.Subscribe(ctx, e.channel); err != nil {
		return err
	}
	return e.wire.Publish(ctx, e.channel, "")
}
