package plainlock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Prefix begins every key: ?prefix=. Programs share locks only if their
	// keys agree. Default none; up to 128 bytes, no braces.
	Prefix string

	// AllowEviction accepts a server whose maxmemory-policy may drop the keys
	// of locks that are held: ?allow-eviction.
	AllowEviction bool
}

// Open connects to the Redis that a URL names and returns an engine on it. The
// documentation of package leasehold/engine/redis lists the forms and
// parameters. No error of it shows a password. ctx bounds the opening only.
//
// Errors: a malformed URL, a server that cannot be reached or is no Redis, a
// wrong password, a server that is unfit ([Options.AllowEviction], a replica,
// one node of a Cluster).
func Open(ctx context.Context, rawURL string) (engine.Engine, error) {
	t, err := wire.ParseURL(rawURL, "prefix", "layout")
	if err != nil {
		return nil, fmt.Errorf("plainlock: %w", err)
	}
	if l := t.Param("layout"); l != "" && l != "plain" {
		return nil, errors.New("plainlock: the layout in the URL is not plain")
	}
	c, err := wire.Dial(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("plainlock: %w", err)
	}
	e, err := start(ctx, c, &Options{Prefix: t.Param("prefix"), AllowEviction: t.AllowEviction})
	if err != nil {
		c.Close()
		return nil, err
	}
	return e, nil
}

// New is an engine on the caller's own client, which the caller closes after
// the engine. It asks the server whether it is fit. A nil o means the defaults.
func New(ctx context.Context, client rueidis.Client, o *Options) (*Engine, error) {
	return start(ctx, wire.New(client), o)
}

func start(ctx context.Context, c *wire.Client, o *Options) (*Engine, error) {
	var opts Options
	if o != nil {
		opts = *o
	}
	if err := wire.CheckPrefix(opts.Prefix); err != nil {
		return nil, fmt.Errorf("plainlock: %w", err)
	}
	if err := c.Check(ctx, opts.AllowEviction); err != nil {
		return nil, fmt.Errorf("plainlock: %w", err)
	}
	return &Engine{
		wire: c, prefix: opts.Prefix, scripts: newScripts(), closing: make(chan struct{}),
		waiting: map[engine.ID]*waiter{}, sweep: 1024,
	}, nil
}

// keep is for how long the last ticket of a name is remembered after its hold.
const keep = 2 * time.Hour

var (
	//go:embed join.lua
	joinLua string
	//go:embed renew.lua
	renewLua string
	//go:embed leave.lua
	leaveLua string
	//go:embed evict.lua
	evictLua string
	//go:embed read.lua
	readLua string
)

type scripts struct{ join, renew, leave, evict, read *wire.Script }

func newScripts() scripts {
	return scripts{
		join: newScript(joinLua), renew: newScript(renewLua), leave: newScript(leaveLua),
		evict: newScript(evictLua), read: newScript(readLua),
	}
}

func newScript(text string) *wire.Script {
	return wire.NewScript("local KEEP = " + strconv.FormatInt(keep.Microseconds(), 10) + "\n" + text)
}
