package redlock

import (
	_ "embed"
	"strings"

	"leasehold/engine/redis/internal/redisconn"
)

// Layout is how masters store a lock, and so which other programs share it. All programs
// that use the same names must agree on it.
type Layout string

const (
	Redsync  Layout = "redsync"  // plain keys, as redsync v4 has them
	Redisson Layout = "redisson" // RLocks, the parts of a RedissonRedLock
)

var (
	//go:embed string.lua
	stringLua string
	//go:embed string_join.lua
	stringJoinLua string
	//go:embed string_leave.lua
	stringLeaveLua string
	//go:embed redisson.lua
	redissonLua string
)

// lua is what the scripts know of a lock in this layout.
func (l Layout) lua() string {
	if l == Redisson {
		return redissonLua
	}
	return stringLua
}

// freeLua takes a lock that nobody has, if that is simple in this layout.
func (l Layout) freeLua() string {
	if l == Redisson {
		return ""
	}
	return stringJoinLua
}

// aloneLua gives a lock up that nobody waits for, if that is simple in this layout.
func (l Layout) aloneLua() string {
	if l == Redisson {
		return ""
	}
	return stringLeaveLua
}

// beside is the prefix of leasehold's own keys. Locks of two layouts have nothing in
// common, even if their names are the same.
func (l Layout) beside() string {
	if l == Redisson {
		return side + "redisson:"
	}
	return side
}

// channel returns where other programs announce that a lock is free; "" if they do not.
func (l Layout) channel(key string) string {
	if l != Redisson {
		return ""
	}
	tag, _ := redisconn.Tagged(key)
	return "redisson_lock__channel:" + tag
}

// ours is the message by which leasehold announces a release to other programs: see
// redisson.lua.
const ours = "00"

// same is what the values of one holder on several masters have in common. A
// RedissonRedLock has a client for each master, and so as many uuids, but it is one
// thread: two programs cannot always be told apart by that. What has no thread is the
// ID of a claim.
func (l Layout) same(value string) string {
	if _, thread, ok := strings.Cut(value, ":"); ok && l == Redisson {
		return "thread " + thread
	}
	return value
}

// stranger is how a holder that is not a leasehold's is shown.
func (l Layout) stranger(value string) string {
	if l == Redisson {
		return "Redisson " + value
	}
	return "another program on this key"
}

// unremovable says why the hold of another program stands.
func (l Layout) unremovable() string {
	if l == Redisson {
		return "a program with Redisson holds it, which sees no notice: it can only be ended at once"
	}
	return "another program holds it: only a key without expiry can be removed, and only at once"
}
