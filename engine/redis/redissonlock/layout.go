package redissonlock

import (
	"encoding/hex"

	"leasehold/engine"
	"leasehold/engine/redis/internal/slots"
)

// Kind is which of Redisson's locks the names of an engine are. All programs that
// use a name must agree on it.
type Kind string

const (
	Lock      Kind = "lock"      // RLock: getLock
	ReadWrite Kind = "readwrite" // RReadWriteLock: getReadWriteLock
	Fenced    Kind = "fenced"    // RFencedLock: getFencedLock
)

// beside is the prefix of the keys that are ours alone.
const beside = "leasehold:redisson:"

// keys are those of one name: the lock, a hash that Redisson keeps under the
// lock's own name; what we keep beside it; and of a fenced one its counter.
//
// What must be in the slot of the lock and is not, Redisson cannot use on a
// Cluster, and we neither.
func (e *Engine) keys(name string) ([]string, error) {
	keys := []string{name, slots.Beside(beside, name)}
	if e.kind == Lock {
		return keys, nil
	}
	tag, together := slots.Tagged(name)
	if !together && e.wire.Cluster() {
		return nil, engine.Refuse("Redisson has no %s lock of the name %q on a Cluster, since its braces put its keys into two slots: choose another name", e.kind, name)
	}
	if e.kind == Fenced {
		keys = append(keys, "redisson_lock_token:"+tag)
	}
	return keys, nil
}

// channel is where releases of a name are told.
func (e *Engine) channel(name string) string {
	tag, _ := slots.Tagged(name)
	if e.kind == ReadWrite {
		return "redisson_rwlock:" + tag
	}
	return "redisson_lock__channel:" + tag
}

// timeouts begins the keys that carry the deadlines of readers, see
// read-write.lua.
func timeouts(name string) string {
	tag, _ := slots.Tagged(name)
	return tag + ":"
}

// holder is how a claim stands in the lock's hash: as Redisson's <uuid>:<thread>.
// The claim's ID is the uuid. So whoever has the ID finds the claim, another
// client of ours too, and no two claims are one holder, who could enter again.
func holder(id engine.ID) string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:] + ":1"
}
