package redlock

import (
	"os"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

// The rules of the package documentation, word for word.
const acl = "user app on >secret ~* &leasehold:redlock:* +eval +evalsha +time +get +mget +set +del +pttl +pexpire +zadd " +
	"+zcard +zrem +zpopmin +hmget +hset +scan +publish +subscribe +info +config|get +ping +hello +auth +select"

// longest is for masters with max-ttl=5s.
func longest(name string) engine.Request {
	r := exclusive(name)
	r.WaitTTL = 5 * time.Second
	return r
}

func TestLeastPrivilege(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, &servers.RedisOptions{ACL: []string{acl}, Durable: true})
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(strings.ReplaceAll(string(doc), "//", " ")), " ")
	if rules := acl[strings.Index(acl, "~"):]; !strings.Contains(text, rules) {
		t.Errorf("the documentation does not have the tested rules %q", rules)
	}
	url := strings.Replace(urlOf("timeout=2s&max-ttl=5s", addrs(all)...), "://", "://app:secret@", 1)
	a, b := open(t, url), open(t, url)
	voting(t, a)
	voting(t, b)
	received := redistest.Watch(t, b)
	first := join(t, a, longest("x"))
	second := join(t, b, longest("x"))
	renew(t, a, first, 5*time.Second)
	leave(t, a, first)
	if got := redistest.Expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID }); got.Name != "x" {
		t.Errorf("heard %+v", got)
	}
	renew(t, b, second, 5*time.Second)
	third := join(t, a, longest("y"))
	if err := b.Revoke(within(t), "y", third.Ticket, true); err != nil {
		t.Errorf("Revoke: %v", err)
	}
	leave(t, a, third)
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
	for _, r := range all {
		if log := do(t, r, "ACL", "LOG").([]any); len(log) > 0 {
			t.Errorf("refused: %v", log)
		}
	}
}
