package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Options are the choices of [New]. Nil means the defaults. In a URL they are
// parameters: see [Open]. Every client of the same locks must agree on Layout,
// Prefix, MaxTTL and NoRestartDelay.
type Options struct {
	// Layout decides which other programs share the locks: ?layout=. Default [Redsync].
	Layout Layout

	// Prefix begins every key: ?prefix=. Default none; up to 128 bytes, no braces. Not
	// with [Redisson], whose names are the keys.
	Prefix string

	// Timeout is how long a call waits for one master: ?timeout=. Default: the claim's TTL
	// / 20, at least 5 ms and at most 50 ms: all masters are asked at once, so one that is
	// silent costs nothing where a majority of the others agree. 1 ms to 10 s.
	Timeout time.Duration

	// MaxTTL bounds every lifetime, and is how long a restarted master has no vote:
	// ?max-ttl=. Default one minute; from one second to [engine.MaxTTL].
	MaxTTL time.Duration

	// NoRestartDelay lets a master vote as soon as it is up again, even if it may have
	// forgotten holds: ?restart-delay=off. Two may then hold after one master restarted.
	// It is for masters that never forget, and for users who may not run INFO or CONFIG.
	NoRestartDelay bool

	// AllowEviction accepts masters whose maxmemory-policy may drop the keys of
	// locks that are held: ?allow-eviction.
	AllowEviction bool
}

// These bounds fill in what the algorithm leaves open.
const (
	defaultMaxTTL = time.Minute
	leastMaxTTL   = time.Second

	timeoutPart     = 20 // of a TTL
	leastTimeout    = 5 * time.Millisecond
	mostTimeout     = 50 * time.Millisecond
	leastMasters    = 3
	mostMasters     = 15 // more servers than that agree on nothing sooner
	longestPatience = 10 * time.Second
)

// check fills in the defaults and refuses options out of bounds.
func (o *Options) check() (Options, error) {
	var c Options
	if o != nil {
		c = *o
	}
	c.Layout = cmp.Or(c.Layout, Redsync)
	c.MaxTTL = cmp.Or(c.MaxTTL, defaultMaxTTL)
	switch {
	case c.Layout != Redsync && c.Layout != Redisson:
		return c, fmt.Errorf("the layout %q is unknown: use redsync (the default) or redisson", c.Layout)
	case c.Layout == Redisson && c.Prefix != "":
		return c, errors.New("the names of Redisson are the keys: leave the prefix out")
	case c.MaxTTL < leastMaxTTL || c.MaxTTL > engine.MaxTTL:
		return c, fmt.Errorf("the longest TTL %v is outside %v to %v: give a time in between", c.MaxTTL, leastMaxTTL, engine.MaxTTL)
	case c.Timeout != 0 && (c.Timeout < time.Millisecond || c.Timeout > longestPatience):
		return c, fmt.Errorf("the time-out %v of a master is outside 1ms to %v: give a time in between", c.Timeout, longestPatience)
	}
	if err := redisconn.CheckPrefix(c.Prefix); err != nil {
		return c, err
	}
	if strings.HasPrefix(c.Prefix, side) {
		return c, fmt.Errorf("the prefix %q begins with %s as the keys beside the locks do: choose another", c.Prefix, side)
	}
	return c, nil
}

// timeout returns how long a call that is about a lifetime of ttl waits for each master.
func (o *Options) timeout(ttl time.Duration) time.Duration {
	if o.Timeout != 0 {
		return o.Timeout
	}
	return min(max(ttl/timeoutPart, leastTimeout), mostTimeout)
}

// drift returns by how much clocks of masters may run apart during a lifetime, and how
// finely they expire keys: the published algorithm subtracts it.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
