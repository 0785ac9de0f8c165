package plainlock

import (
	"strings"

	"leasehold/engine/redis/internal/redisconn"
)

// side is the prefix of the keys beside the locks.
const side = "leasehold:plain:"

// keys are the lock and what is beside it, which Cluster must find in one slot
// (one script may not touch two). What a lock's key is others decided, so the
// other key has to follow it.
func (e *Engine) keys(name string) []string {
	key := e.prefix + name
	return []string{key, redisconn.KeyBeside(side, key)}
}

// nameOf is the name to which a key beside a lock belongs.
func (e *Engine) nameOf(key string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(key, side)
	if !ok || rest == "" {
		return "", false
	}
	form, rest := rest[0], rest[1:]
	switch form {
	case 't':
	case 'n':
		rest = strings.TrimSuffix(strings.TrimPrefix(rest, "{"), "}")
	case 's':
		_, rest, _ = strings.Cut(rest, "}")
	}
	name, ok = strings.CutPrefix(rest, e.prefix)
	return name, ok && redisconn.KeyBeside(side, rest) == key
}
