package redislock

import (
	"cmp"
	"fmt"

	"leasehold/engine/redis/internal/wire"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Prefix begins every key and channel: ?prefix=. Clients share locks only
	// if their prefixes agree. Default "leasehold:"; up to 128 bytes, no braces.
	Prefix string

	// Replicas, if not 0, is how many replicas must have acknowledged a hold
	// before it is believed: ?replicas=. It costs a round trip to them. 0 to 100.
	Replicas int

	// AllowEviction accepts a server whose maxmemory-policy may drop the keys
	// of locks that are held: ?allow-eviction.
	AllowEviction bool
}

// check fills in the defaults and refuses what is out of bounds.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Prefix = cmp.Or(c.Prefix, "leasehold:")
	if err := wire.CheckPrefix(c.Prefix); err != nil {
		return c, fmt.Errorf("redislock: %w", err)
	}
	if c.Replicas < 0 || c.Replicas > 100 {
		return c, fmt.Errorf("redislock: %d replicas are outside 0 to 100", c.Replicas)
	}
	return c, nil
}
