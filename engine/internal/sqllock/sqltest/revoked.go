package sqltest

import (
	"errors"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

// RevokedClaimsSaySo to a client that received no notification, however often it renews:
// the one that waited, and the holder whose permits were taken at once. Both have left
// the queue, and their rows do not pile up.
func (k Kit) RevokedClaimsSaySo(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	a, b := k.open(t, url), k.open(t, url)
	set, now := k.Clock(t, url), time.Now().UnixMicro()
	set(now)
	first := testutil.Joins(t, a, testutil.Lasting("a", time.Minute), engine.Held)
	second := testutil.Joins(t, b, testutil.Lasting("a", time.Minute), engine.Waiting)
	third := testutil.Joins(t, a, testutil.Lasting("a", time.Minute), engine.Waiting)
	isRevoked := func(of engine.Engine, c engine.Claim) {
		t.Helper()
		for range 2 { // the first answer may be lost
			if got := testutil.Renew(t, of, c, time.Minute); got.State != engine.Gone || !got.Revoked || got.Ticket != c.Ticket {
				t.Errorf("a claim that was revoked is %+v", got)
			}
		}
		if err := a.Revoke(testutil.Within(t), "a", c.Ticket, true); !errors.Is(err, engine.ErrNoClaim) {
			t.Errorf("it is revoked again: %v", err)
		}
	}
	if err := a.Revoke(testutil.Within(t), "a", second.Ticket, false); err != nil {
		t.Fatal(err)
	}
	isRevoked(b, second)
	if l, err := b.Queue(testutil.Within(t), "a"); err != nil || len(l.Claims) != 2 {
		t.Errorf("without the one that waited, the queue is %v, %v", l, err)
	}
	if err := b.Revoke(testutil.Within(t), "a", first.Ticket, true); err != nil {
		t.Fatal(err)
	}
	isRevoked(a, first)
	if c := testutil.Renew(t, a, third, time.Minute); c.State != engine.Held {
		t.Errorf("behind claims that were revoked, it is %v", c.State)
	}

	set(now + (2 * time.Minute).Microseconds())
	if c := testutil.Renew(t, b, second, time.Minute); c.State != engine.Gone || c.Revoked {
		t.Errorf("after its deadline, a claim that was revoked is %+v", c)
	}
	last := testutil.Joins(t, a, testutil.Lasting("a", time.Minute), engine.Held)
	if err := a.Revoke(testutil.Within(t), "a", last.Ticket, true); err != nil {
		t.Fatal(err)
	}
	if n := k.count(t, k.Connect(t, url), `SELECT COUNT(*) FROM @claims`); n != 1 {
		t.Errorf("%d rows are left of claims that were revoked, want that of the last", n)
	}
	for l, err := range a.Queues(testutil.Within(t), "") {
		t.Errorf("an empty queue is shown as %v, %v", l, err)
	}
}
