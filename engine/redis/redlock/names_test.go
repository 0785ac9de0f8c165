package redlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// TestNoNameHasAKeyThatIsBesideAnothersLock: what one user locks is neither the counter
// of another's lock nor the list of who waits for it, nor the mark of a run.
func TestNoNameHasAKeyThatIsBesideAnothersLock(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, &servers.RedisOptions{Durable: true})
	e, prefixed := open(t, urlOf(easy, addrs(all)...)), open(t, urlOf(easy+"&prefix=leasehold:", addrs(all)...))
	held := join(t, e, long("n"))
	keys := e.keys("n")
	for name, on := range map[string]*Engine{
		keys[1]: e, keys[2]: e, side + "run": e,
		strings.TrimPrefix(keys[1], "leasehold:"): prefixed,
	} {
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "choose another name") {
				t.Errorf("%s of %q: %v", what, name, err)
			}
		}
		_, err := on.Join(within(t), long(name))
		refused("Join", err)
		refused("Evict", on.Revoke(within(t), name, 0, true))
	}
	if got := renew(t, e, held, time.Second); got.State != engine.Held || got.Ticket != held.Ticket {
		t.Errorf("the lock beside which they are: %+v", got)
	}
	// Braces mean nothing here, and these are names like any other.
	for _, pair := range [][2]string{{"x", "x{b}"}, {"y", "{y}"}, {"z", "z{y}{z}"}} {
		for _, name := range pair {
			if c := join(t, e, long(name)); c.State != engine.Held {
				t.Errorf("%q beside %q: %+v", name, pair, c)
			}
		}
	}
	if _, err := Open(within(t), urlOf("prefix="+side+"b:", addrs(all)...)); err == nil || !strings.Contains(err.Error(), "choose another") {
		t.Errorf("a prefix of the keys beside: %v", err)
	}
}
