package redisconn

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// ErrForeign means that a key has another program's data.
var ErrForeign = errors.New("holds data that is not leasehold's")

// Foreign refuses a key that another program uses. The engine does not touch it.
func Foreign(key string) error {
	return engine.Refuse("the key %q %w: choose another prefix (?prefix=) or name, or move that data", key, ErrForeign)
}

// moving is what it means that the keys of a name are at two nodes.
const moving = "its keys are on the way to another node of the Cluster"

// means is what an error of that kind says of the server.
var means = map[string]string{
	"READONLY":   "this server is a replica now and takes no writes; after a failover the client finds the new primary",
	"OOM":        "its memory is full (maxmemory)",
	"MISCONF":    "it cannot save and refuses writes",
	"NOREPLICAS": "fewer replicas are linked than it demands",
	"TRYAGAIN":   moving,
}

// demoted reports whether an answer says that its server is a replica by now. Before Redis 7.0 the
// error of a script has that inside.
func demoted(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && (strings.Contains(re.Error(), "READONLY ") || strings.Contains(re.Error(), "MASTERDOWN "))
}

// Passing reports whether a server answered that it cannot serve now, and may later: it
// is full, starts, or does something else.
func Passing(err error) bool {
	var said *rueidis.RedisError
	if !errors.As(err, &said) {
		return false
	}
	text := strings.TrimPrefix(said.Error(), "-")
	switch kind, _, _ := strings.Cut(text, " "); kind {
	case "BUSY", "LOADING", "MASTERDOWN", "MISCONF", "NOREPLICAS", "OOM":
		return true
	}
	return full(text)
}

// full: a server at its maxclients said that.
func full(text string) bool { return strings.Contains(text, "max number of clients") }

// Explain turns an answer of Redis into what the caller can do about it. It refuses
// answers that asking again cannot change. Any other error means that nothing was learned,
// and the core asks again. key may be empty.
func Explain(err error, key string) error {
	switch err {
	case nil:
		return nil
	case ErrForeign:
		return Foreign(key)
	}
	re, ok := rueidis.IsRedisErr(err)
	if !ok {
		if errors.Is(err, rueidis.ErrClosing) {
			return fmt.Errorf("redis: the client is closed: %w", err)
		}
		return fmt.Errorf("redis: %w", err)
	}
	text := re.Error()
	kind, _, _ := strings.Cut(strings.TrimPrefix(text, "-"), " ")
	switch {
	case strings.Contains(text, "WRONGTYPE"), strings.Contains(text, "FOREIGN"):
		return Foreign(key)
	case strings.Contains(text, "NOPERM"), strings.Contains(text, "can't run this command or subcommand"),
		strings.Contains(text, "ACL failure in script"): // in a script: Redis 7.0, and 7.2 or Valkey
		return engine.Refuse("redis: this user may not do that (%s): grant the ACL in the package documentation", text)
	case kind == "WRONGPASS" || kind == "NOAUTH":
		return engine.Refuse("redis: user or password is wrong or missing (%s)", kind)
	case full(text):
		return fmt.Errorf("redis: the server takes no more connections: raise its maxclients, or find the program that opens so many with CLIENT LIST: %w", err)
	case strings.Contains(text, "non local key"): // in a script
		return fmt.Errorf("redis: %s: %w", moving, err)
	case means[kind] != "":
		return fmt.Errorf("redis: %s: %w", means[kind], err)
	}
	return fmt.Errorf("redis: %w", err)
}

// Beside is RefuseBeside, if a script has answered that, and nil for other errors.
func Beside(err error, lock, key string) error {
	re, ok := rueidis.IsRedisErr(err)
	if !ok || !strings.HasPrefix(re.Error(), "BESIDE ") {
		return nil
	}
	return RefuseBeside(lock, key)
}

// RefuseBeside refuses the key beside a lock, which has another program's data, or a value
// that leasehold cannot have written.
func RefuseBeside(lock, key string) error {
	return engine.Refuse("the key %q, which belongs to leasehold's lock %q, %w: delete or move that; it does not say who holds the lock", key, lock, ErrForeign)
}

// Apart reports whether a batch was refused only because its keys are on the
// way from one Cluster node to another: one at a time they can be served.
func Apart(err error) bool {
	re, ok := rueidis.IsRedisErr(err)
	return ok && (re.IsTryAgain() || strings.HasPrefix(re.Error(), "CROSSSLOT"))
}
