package plainlock

import (
	"context"
	"embed"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Prefix begins every key: ?prefix=. Programs share locks only if their keys agree.
	// Default none; up to 128 bytes, no braces.
	Prefix string

	// AllowEviction accepts a server whose maxmemory-policy may drop the keys
	// of locks that are held: ?allow-eviction.
	AllowEviction bool

	// Failover declares that another server may take this one's place behind the same
	// address without showing replicas, as at many providers: ?failover. Two may hold
	// then, and the engine declares it. The engine does so by itself if the server shows
	// replicas, or this user may not ask.
	Failover bool
}

// Open connects to the Redis that a URL names and returns an engine on it. The
// documentation of package leasehold/engine/redis lists the forms and parameters. Its
// errors show no password. ctx bounds the opening only.
//
// It returns an error for a malformed URL, a server that cannot be reached or is not
// Redis, a wrong password, and a server that is unfit ([Options.AllowEviction], a replica,
// one node of a Cluster).
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	return redisconn.Open(ctx, rawURL, "plainlock", "plain", func(t *redisconn.Target) (*Options, error) {
		o := &Options{Prefix: t.Param("prefix"), AllowEviction: t.AllowEviction, Failover: t.Failover}
		return o, redisconn.CheckPrefix(o.Prefix)
	}, start, "prefix")
}

// New returns an engine on the caller's own client, which the caller closes after the
// engine. It asks the server whether it is fit. A nil o means the defaults.
func New(ctx context.Context, client rueidis.Client, o *Options) (*Engine, error) {
	if o == nil {
		o = &Options{}
	}
	if err := redisconn.CheckPrefix(o.Prefix); err != nil {
		return nil, redisconn.Named("plainlock", err)
	}
	e, err := start(ctx, redisconn.New(client), o)
	return e, redisconn.Named("plainlock", err)
}

func start(ctx context.Context, c *redisconn.Client, o *Options) (*Engine, error) {
	if o.Failover {
		c.MayFailOver()
	}
	if err := c.Check(ctx, o.AllowEviction); err != nil {
		return nil, err
	}
	return &Engine{wire: c, revokes: o.AllowEviction, prefix: o.Prefix, scripts: newScripts()}, nil
}

// keep is how long the last ticket of a name is remembered after its hold.
const keep = 2 * time.Hour

//go:embed *.lua
var lua embed.FS

type scripts struct{ join, renew, leave, revoke, read *redisconn.Script }

func newScripts() scripts {
	load := func(name string) *redisconn.Script { return redisconn.Load(lua, name, keep) }
	return scripts{join: load("join"), renew: load("renew"), leave: load("leave"), revoke: load("evict"), read: load("read")}
}
