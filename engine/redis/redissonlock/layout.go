package redissonlock

import (
	"encoding/hex"
	"strings"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Kind is the kind of Redisson lock that the names of an engine are. All programs that use
// a name must agree on it.
type Kind string

const (
	Lock      Kind = "lock"      // RLock: getLock
	ReadWrite Kind = "readwrite" // RReadWriteLock: getReadWriteLock
	Fenced    Kind = "fenced"    // RFencedLock: getFencedLock
)

// class returns the name of that kind in Java programs.
func (k Kind) class() string {
	return map[Kind]string{Lock: "RLock", ReadWrite: "RReadWriteLock", Fenced: "RFencedLock"}[k]
}

// beside is the prefix of leasehold's own keys.
const beside = "leasehold:redisson:"

// counter is the prefix of Redisson's counters of tokens.
const counter = "redisson_lock_token:"

// redissons are what Redisson's own keys begin with that stand beside its locks.
var redissons = []string{counter, "redisson_unlock_latch:", "redisson_lock_queue:", "redisson_lock_timeout:", "redisson_rwlock:"}

// readersKey is a part of Redisson's keys with the deadlines of readers.
const readersKey = ":rwlock_timeout:"

// checkName refuses a lock whose name could be a key that Redisson or leasehold keeps
// beside the lock of another name. Redisson's keys cannot be moved elsewhere.
func checkName(name string) error {
	for _, begins := range redissons {
		if strings.HasPrefix(name, begins) {
			return redisconn.Taken(name, begins)
		}
	}
	if strings.Contains(name, readersKey) {
		return redisconn.Taken(name, readersKey)
	}
	return redisconn.CheckKey(name)
}

// call is one use of a script on a name: the keys and first arguments that
// common.lua names, and then the script's own.
func (e *Engine) call(name string, args ...string) redisconn.Call {
	tag, _ := redisconn.Tagged(name)
	common := []string{tag + ":", e.channel(name), parts.Flag(e.wire.Cluster()), parts.Flag(e.listens(name))}
	return redisconn.Call{Keys: []string{name, redisconn.KeyBeside(beside, name)}, Args: append(common, args...)}
}

// joining is the call that takes the lock if it is free. Redisson's other keys must be in
// the slot of the lock: of names whose braces make that fail, it has no such lock on a
// Cluster, and neither have we.
func (e *Engine) joining(r *engine.Request) (redisconn.Call, error) {
	if err := parts.OnlyLocks(r, "Redisson's layout"); err != nil {
		return redisconn.Call{}, err
	}
	if err := checkName(r.Name); err != nil {
		return redisconn.Call{}, err
	}
	tag, together := redisconn.Tagged(r.Name)
	if e.kind != Lock && !together && e.wire.Cluster() {
		return redisconn.Call{}, engine.Refuse("Redisson has no %s of the name %q on a Cluster, since its braces put its keys into two slots: choose another name", e.kind.class(), r.Name)
	}
	old, indeterminate := "", false
	if r.Replaces != (engine.ID{}) {
		old, indeterminate = holder(r.Replaces), e.tries.Indeterminate(r.Replaces)
	}
	c := e.call(r.Name, holder(r.ID), parts.Millis(r.WaitTTL), r.Owner.Text(), old, parts.Flag(r.Permits < r.Limit), parts.Flag(indeterminate))
	if e.kind == Fenced {
		c.Keys = append(c.Keys, counter+tag)
	}
	return c, nil
}

// channel is where releases of a name are told.
func (e *Engine) channel(name string) string {
	tag, _ := redisconn.Tagged(name)
	if e.kind == ReadWrite {
		return "redisson_rwlock:" + tag
	}
	return "redisson_lock__channel:" + tag
}

// holder is how a claim stands in the lock's hash: as Redisson's <uuid>:<thread>.
// The claim's ID is the uuid. So a client with the ID finds the claim, another
// client of ours too, and no two claims are one holder, who could enter again.
func holder(id engine.ID) string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + ":1"
}
