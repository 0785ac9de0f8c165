package mysqllock

import (
	"errors"
	"testing"

	"leasehold"
	"leasehold/engine/internal/testutil"
)

// A caller whose waiting claim is revoked gets ErrRevoked, though nothing notifies it. It
// does not join again.
func TestARevokedWaiterDoesNotComeBack(t *testing.T) {
	t.Parallel()
	url := database(t)
	var clients []*leasehold.Client
	for range 2 {
		c, err := leasehold.New(open(t, url), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	holder, waiter := clients[0], clients[1]
	l, err := holder.Lock(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	failed := make(chan error, 1)
	go func() {
		_, err := waiter.Lock(within(t), "a")
		failed <- err
	}()
	var ticket uint64
	testutil.Until(t, "nobody waits", func() bool {
		q, err := holder.Queue(within(t), "a")
		if err == nil && len(q.Claims) == 2 {
			ticket = q.Claims[1].Ticket
		}
		return ticket > 0
	})
	if err := holder.Revoke(within(t), "a", ticket); err != nil {
		t.Fatal(err)
	}
	if err := <-failed; !errors.Is(err, leasehold.ErrRevoked) {
		t.Errorf("a waiter that was revoked is told %v", err)
	}
}
