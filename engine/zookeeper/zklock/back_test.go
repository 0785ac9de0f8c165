package zklock

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// Clients that live see a server that went back to an older copy: they begin anew, and
// what stood in the queue, or stands there again, ends with their session.
func TestTheServersWentBackToAnOlderCopy(t *testing.T) {
	t.Parallel() // it waits for sessions to end
	s := ownZooKeeper(t)
	o := on(s)
	o.ttl = 5 * short // longer than a server is away
	a, b := open(t, o), open(t, o)
	left := a.hold(t, exclusive("left")) // and stands in the copy
	all := servers.Ensemble{Servers: []*servers.ZooKeeperServer{s}}
	copied, err := all.Backup()
	if err != nil {
		t.Fatal(err)
	}
	received := a.notifications(t)
	if got := a.answer(t, left); got.State != engine.Held {
		t.Fatal(got)
	}
	a.leave1(t, left)
	held := a.hold(t, exclusive("held"))
	b.wait(t, exclusive("held"))
	if err := all.Restore(copied); err != nil {
		t.Fatal(err)
	}
	receive(t, received, func(c engine.Claim) bool { return c.ID == held.ID && c.State == engine.Gone && !c.Revoked })
	for _, name := range []string{"held", "left"} {
		eventually(t, "nobody comes to hold "+name, func() bool {
			r := exclusive(name)
			r.NoWait = true
			c, err := b.Join(within(t), b.lasts(r))
			return err == nil && c.State == engine.Held
		})
	}
	if err := b.Check(within(t)); !errors.Is(err, errBack) || !strings.Contains(err.Error(), "tokens may be lower") {
		t.Errorf("the cause is not named: %v", err)
	}
}

// A server that refuses a client without a word is asked for what it has seen itself.
func TestWhoRefusesIsAskedWhatItHasSeen(t *testing.T) {
	s := zooKeeper(t)
	a := open(t, on(s))
	for seen, want := range map[int64]error{1: errClosed, 1 << 62: errBack} {
		c := greeted{link: a.link, server: s.Addr, until: time.Now().Add(testutil.Patience), seen: seen}
		if err := c.check(io.EOF); !errors.Is(err, want) {
			t.Errorf("to a client that has seen %#x it is %q, want %q", seen, err, want)
		}
	}
}
