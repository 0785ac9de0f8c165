package redis_test

import (
	"errors"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/engine/redis"
	"leasehold/lab/servers"
)

// TestNamesThatAreKeptBesideOthers are refused, in words, and nothing is written there.
func TestNamesThatAreKeptBesideOthers(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	names := []string{
		"leasehold:plain:n{a}", "leasehold:plain:t{a}", "leasehold:redisson:n{a}", "leasehold:redlock:b:a", "leasehold:redlock:w:a", "leasehold:fence:n{a}",
	}
	for url, names := range map[string][]string{
		urlOf("plain", r.Addr):                             names,
		and(urlOf("plain", r.Addr), "prefix=leasehold:pl"): {"ain:n{a}"},
		urlOf("redisson", r.Addr): append(names, "redisson_lock_token:{a}", "redisson_unlock_latch:{a}:x", "redisson_lock_queue:{a}",
			"redisson_lock_timeout:{a}", "{a}:x:1:rwlock_timeout:1"),
	} {
		e := open(t, url)
		for _, name := range names {
			c, err := e.Join(within(t), exclusive(name))
			if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "choose another name") {
				t.Errorf("%s: %q: %v %v", url, name, c.State, err)
			}
		}
		if c := join(t, e, exclusive("a")); c.State != engine.Held || leave(t, e, c) != engine.Held {
			t.Errorf("%s: a is %v", url, c.State)
		}
	}
	for _, layout := range []string{"queues", "plain"} {
		if e, err := redis.Open(within(t), and(urlOf(layout, r.Addr), "prefix=leasehold:plain:t")); err == nil || !strings.Contains(err.Error(), "prefix") {
			e.Close()
			t.Errorf("%s: a prefix that others have: %v", layout, err)
		}
	}
	keys := do(t, r, "KEYS", "*").([]any)
	for _, key := range keys {
		for _, name := range names[3:] {
			if key == name {
				t.Errorf("%q was written", key)
			}
		}
	}
}
