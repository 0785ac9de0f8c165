package redissonlock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/lab/servers"
)

// explained says that a call was refused with an error that names a key and says what
// to do, and not what a script said of its queues.
func explained(t *testing.T, what string, err error, key, todo string) {
	t.Helper()
	switch {
	case !errors.Is(err, engine.ErrRefused):
		t.Errorf("%s: %v instead of a refusal", what, err)
	case !strings.Contains(err.Error(), key) || !strings.Contains(err.Error(), todo) || strings.Contains(err.Error(), "script"):
		t.Errorf("%s: %v: it does not name %q and say to %s", what, err, key, todo)
	}
}

// TestACounterThatIsNoNumber: Redisson's own lock would fail there with what its INCR
// says.
func TestACounterThatIsNoNumber(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	e := fenced.Opened(t, "redis://"+r.Addr)
	for _, set := range [][]string{
		{"SET", "?", "1.5"}, {"SET", "?", "many"}, {"SET", "?", ""}, {"SET", "?", "9007199254740991"},
		{"SET", "?", "9223372036854775807"}, {"SET", "?", "00000000000000000000001"}, {"HSET", "?", "f", "v"}, {"RPUSH", "?", "1"},
	} {
		do(t, r, "FLUSHALL")
		const key = "redisson_lock_token:{x}"
		set[1] = key
		do(t, r, set...)
		before := do(t, r, "DUMP", key)
		c, err := e.Join(within(t), exclusive("x"))
		explained(t, strings.Join(set, " "), err, key, "delete")
		if do(t, r, "DUMP", key) != before || do(t, r, "EXISTS", "x") != int64(0) {
			t.Errorf("%v: something was changed, and joined as %+v", set, c)
		}
	}
	for _, good := range []string{"0", "-3", "9007199254740989"} {
		do(t, r, "FLUSHALL")
		do(t, r, "SET", "redisson_lock_token:{x}", good)
		if c := join(t, e, exclusive("x")); c.State != engine.Held {
			t.Errorf("on %s: %+v", good, c)
		}
	}
}

// TestJunkBesideALock is an operator's, at a key of ours. Who holds is not in it: a
// hold goes on, if nobody can renew or leave it.
func TestJunkBesideALock(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for _, kit := range []Kind{Lock, ReadWrite, Fenced} {
		e := of(kit, "").Opened(t, "redis://"+r.Addr)
		for _, set := range [][]string{{"SET", "?", "v"}, {"RPUSH", "?", "v"}} {
			do(t, r, "FLUSHALL")
			q := exclusive("x")
			q.WaitTTL = 20 * time.Second
			c := join(t, e, q)
			const key = beside + "n{x}"
			set[1] = key
			do(t, r, "DEL", key)
			do(t, r, set...)
			before, held := do(t, r, "DUMP", key), do(t, r, "DUMP", "x")
			_, err := e.Join(within(t), exclusive("x"))
			explained(t, string(kit)+": Join", err, key, "delete")
			cs, err := e.Renew(within(t), []engine.Renewal{{Name: "x", ID: c.ID, Want: 30 * time.Second}})
			explained(t, string(kit)+": Renew", err, key, "delete")
			gone, err := e.Leave(within(t), []engine.Claim{c})
			explained(t, string(kit)+": Leave", err, key, "delete")
			explained(t, string(kit)+": Revoke", e.Revoke(within(t), "x", c.Ticket, true), key, "delete")
			_, err = e.Queue(within(t), "x")
			explained(t, string(kit)+": Queue", err, key, "delete")
			for l, err := range e.Queues(within(t), "") {
				t.Errorf("%s: Queues: %+v %v", kit, l, err)
			}
			if len(cs)+len(gone) > 0 || do(t, r, "DUMP", key) != before || do(t, r, "DUMP", "x") != held {
				t.Errorf("%s: something was changed: %v %v", kit, cs, gone)
			}
			do(t, r, "DEL", key)
			if c = renew(t, e, c, time.Minute); c.State != engine.Held {
				t.Errorf("%s: when that was deleted it is %v", kit, c.State)
			}
		}
		// A hash of others at that key is as good as none.
		for _, fields := range [][]string{{"f", "v"}, {"last", "1.5"}, {"last", "many", "evicted", "all"}} {
			do(t, r, "FLUSHALL")
			do(t, r, append([]string{"HSET", beside + "n{x}"}, fields...)...)
			c := join(t, e, exclusive("x"))
			if c = renew(t, e, c, time.Minute); c.State != engine.Held || leave(t, e, c) != engine.Held {
				t.Errorf("%s: beside %v: %+v", kit, fields, c)
			}
		}
	}
}

// TestARefusedJoinReplacesNothing: what it was to replace stands as before, and nobody is
// told that the lock is free.
func TestARefusedJoinReplacesNothing(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	for what, c := range map[string]struct {
		kind Kind
		old  engine.Request
	}{
		"a lock":   {Lock, exclusive("a")},
		"a reader": {ReadWrite, reader("a")},
		"a writer": {ReadWrite, exclusive("a")},
	} {
		do(t, r, "FLUSHALL")
		e := of(c.kind, "").Opened(t, "redis://"+r.Addr)
		old := join(t, e, c.old)
		side := redisconn.KeyBeside(beside, "a")
		do(t, r, "HSET", side, "last", "9007199254740991") // behind which there is no ticket
		before := do(t, r, "DUMP", "a")
		for _, q := range []engine.Request{exclusive("a"), {Name: "a", Permits: c.old.Permits, Limit: engine.Max, WaitTTL: time.Minute}} {
			q.ID, q.Replaces = engine.NewID(), old.ID
			if c, err := e.Join(within(t), q); !errors.Is(err, engine.ErrRefused) {
				t.Errorf("%s: void: replaced by %+v %v", what, c, err)
			}
			if do(t, r, "DUMP", "a") != before {
				t.Errorf("%s was given up for a claim that was refused", what)
			}
		}
		if c := renew(t, e, old, time.Minute); c.State != engine.Held {
			t.Errorf("%s is %v after a claim that was to replace it was refused", what, c.State)
		}
	}
}
