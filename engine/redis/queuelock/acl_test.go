package queuelock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// The rules of the package documentation, word for word.
const acl = "user app on >secret ~leasehold:* &leasehold:* +evalsha +eval +time +exists +hget +hmget +hgetall +hlen +hset +hdel +del +pexpireat +publish +subscribe +unsubscribe +scan +info +ping +hello +auth +select +wait"

func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	r := redis(t, &servers.RedisOptions{ACL: []string{acl}})
	redistest.Documented(t, acl[strings.Index(acl, "~"):])
	a, b := open(t, "redis://app:secret@"+r.Addr), open(t, "redis://app:secret@"+r.Addr)
	first := join(t, a, exclusive("x"))
	second := join(t, b, exclusive("x"))
	renew(t, a, first, time.Minute)
	received := watch(t, b)
	leave(t, a, first)
	expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })
	third := join(t, a, exclusive("y"))
	if err := b.Revoke(within(t), "y", third.Ticket, true); err != nil {
		t.Errorf("Revoke: %v", err)
	}
	leave(t, a, third)
	if _, err := a.Queue(within(t), "x"); err != nil {
		t.Errorf("Queue: %v", err)
	}
	n := 0
	for _, err := range a.Queues(within(t), "") {
		if err != nil {
			t.Errorf("Queues: %v", err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d queues", n)
	}
	// A second prefix is out of bounds, and says so.
	_, err := Open(within(t), "redis://app:secret@"+r.Addr+"?prefix=other:")
	if err == nil || !strings.Contains(err.Error(), "ACL") {
		t.Errorf("another prefix: %v", err)
	}
	// Every command granted is needed: no test above used one that is refused.
	for _, l := range do(t, r, "ACL", "LOG").([]any) {
		if f := l.([]any); !strings.Contains(toText(f), "other:") {
			t.Errorf("refused: %v", f)
		}
	}
}

// TestLeastPrivilegeToDelayRestarts: who may not ask for INFO cannot, and who may not
// ask for the configuration waits for every server that was started.
func TestLeastPrivilegeToDelayRestarts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		more   []string
		grants bool
		opens  bool
	}{
		"all of it":             {[]string{"+config|get"}, true, true},
		"not the configuration": {nil, false, true},
		"not INFO":              {[]string{"+config|get", "-info"}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := redis(t, &servers.RedisOptions{Durable: true, ACL: []string{acl}})
			open(t, delaying(r.Addr, time.Hour)) // leaves the mark
			if err := r.Restart(false); err != nil {
				t.Fatal(err)
			}
			do(t, r, append([]string{"ACL", "SETUSER", "app"}, c.more...)...)
			e, err := Open(within(t), "redis://app:secret@"+r.Addr+"?restart-delay=1h")
			if err != nil {
				if c.opens || !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "ACL") {
					t.Errorf("Open: %v", err)
				}
				return
			}
			defer e.Close()
			cl, err := e.Join(within(t), exclusive("x"))
			if !c.opens || (err == nil) != c.grants {
				t.Errorf("Join: %+v %v", cl, err)
			}
		})
	}
}

func TestWhoCannotBeNotifiedIsRefused(t *testing.T) { kit.WhoCannotBeNotifiedIsRefused(t) }
