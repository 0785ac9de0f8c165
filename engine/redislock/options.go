package redislock

import (
	"fmt"
	"strings"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters of the same name.
type Options struct {
	// Prefix begins every key and channel: ?prefix=. Clients share locks only
	// if their prefixes agree. Default "leasehold:"; up to 128 bytes, no braces.
	// In the plain layout it begins every key and is empty by default.
	Prefix string

	// Replicas, if not 0, is how many replicas must have acknowledged a hold
	// before it is believed: ?replicas=. It costs a round trip to them.
	Replicas int

	// AllowEviction accepts a server whose maxmemory-policy may drop the keys
	// of locks that are held: ?allow-eviction.
	AllowEviction bool
}

// defaultPrefix begins the keys and channels of the lines layout.
const defaultPrefix = "leasehold:"

func (o *Options) check(prefix string) (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	if c.Prefix == "" {
		c.Prefix = prefix
	}
	switch {
	case strings.ContainsAny(c.Prefix, "{}"):
		return c, fmt.Errorf("redislock: the prefix %q contains a brace, which would move its keys to another Cluster slot", c.Prefix)
	case len(c.Prefix) > 128:
		return c, fmt.Errorf("redislock: the prefix has %d bytes, more than 128", len(c.Prefix))
	case c.Replicas < 0 || c.Replicas > 100:
		return c, fmt.Errorf("redislock: %d replicas are outside 0 to 100", c.Replicas)
	}
	return c, nil
}
