package redlock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// TestCheck: what the opening looks at is looked at again, and the error names the
// master, what is wrong and what to do.
func TestCheck(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, &servers.RedisOptions{Durable: true})
	e := open(t, urlOf("timeout=2s", addrs(all)...))
	fine := func() {
		t.Helper()
		if err := e.Check(within(t)); err != nil {
			t.Errorf("all is as it was: %v", err)
		}
	}
	fine()
	for _, c := range []struct{ name, wrong, right, want string }{
		{"maxmemory-policy", "allkeys-lru", "noeviction", "set it to noeviction"},
		{"maxmemory-policy", "volatile-ttl", "noeviction", "set it to noeviction"},
		{"appendfsync", "everysec", "always", "set appendfsync to always"},
		{"no-appendfsync-on-rewrite", "yes", "no", "set no-appendfsync-on-rewrite to no"},
	} {
		do(t, all[1], "CONFIG", "SET", c.name, c.wrong)
		err := e.Check(within(t))
		if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), all[1].Addr) || strings.Contains(err.Error(), all[0].Addr) {
			t.Errorf("%s is %s: %v", c.name, c.wrong, err)
		}
		do(t, all[1], "CONFIG", "SET", c.name, c.right)
		fine()
	}
	do(t, all[2], "REPLICAOF", "127.0.0.1", "1")
	if err := e.Check(within(t)); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "replica") || !strings.Contains(err.Error(), all[2].Addr) {
		t.Errorf("one became a replica: %v", err)
	}
	do(t, all[2], "REPLICAOF", "NO", "ONE")
	fine()

	// One that does not answer is not unfit, and what another says counts all the same.
	if err := all[0].Stop(); err != nil {
		t.Fatal(err)
	}
	defer all[0].Cont()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := e.Check(ctx); err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("one is stopped: %v", err)
	}
	do(t, all[1], "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	var err error
	until(t, "one is stopped, and another evicts: it is never refused", func() bool { // the others may take longer on a busy machine
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = e.Check(ctx)
		return errors.Is(err, engine.ErrRefused)
	})
	if !strings.Contains(err.Error(), all[1].Addr) {
		t.Errorf("one is stopped, and another evicts: %v", err)
	}
}

// TestCheckOfMastersThatNeverSynced: their restarts are delayed, and nothing is declared.
func TestCheckOfMastersThatNeverSynced(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	for _, params := range []string{"timeout=2s", easy} {
		e := open(t, urlOf(params, addrs(all)...))
		if err := e.Check(within(t)); err != nil {
			t.Errorf("%s: %v", params, err)
		}
	}
}
