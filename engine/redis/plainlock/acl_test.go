package plainlock

import (
	"strings"
	"testing"
	"time"

	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// The rules of the package documentation, word for word.
const acl = "user app on >secret ~* +evalsha +eval +time +get +set +del +pttl +pexpire +hmget +hset +scan +info +ping +hello +auth +select"

func TestLeastPrivilege(t *testing.T) {
	r := servers.Redis(t, &servers.RedisOptions{ACL: []string{acl}})
	redistest.Documented(t, acl[strings.Index(acl, "~"):])
	a, b := open(t, "redis://app:secret@"+r.Addr), open(t, "redis://app:secret@"+r.Addr)
	first := join(t, a, exclusive("x"))
	second := join(t, b, exclusive("x"))
	renew(t, a, first, time.Minute)
	leave(t, a, first)
	renew(t, b, second, time.Minute)
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
	if log := do(t, r, "ACL", "LOG").([]any); len(log) > 0 {
		t.Errorf("refused: %v", log)
	}
}
