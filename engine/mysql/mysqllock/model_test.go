package mysqllock

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/queuetest"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/queue"
)

// setClock has the procedures read a clock that the test moves.
func setClock(t testing.TB, db *sql.DB) {
	t.Helper()
	do(t, db, `CREATE TABLE test_clock (t BIGINT)`)
	do(t, db, `INSERT INTO test_clock VALUES (0)`)
	do(t, db, `DROP PROCEDURE @clock`)
	do(t, db, `CREATE PROCEDURE @clock(OUT now BIGINT) SQL SECURITY INVOKER BEGIN SET now = (SELECT t FROM test_clock); END`)
}

// A Join looks at the clock twice where its claim is there already. A claim that ends in between
// is made anew, as one that had ended before.
func TestAClaimThatEndsWhileItIsJoinedAgainIsMadeAnew(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url), connect(t, url)
	setClock(t, db)
	do(t, db, `ALTER TABLE test_clock ADD COLUMN step BIGINT NOT NULL DEFAULT 0`)
	do(t, db, `DROP PROCEDURE @clock`)
	do(t, db, `CREATE PROCEDURE @clock(OUT now BIGINT) SQL SECURITY INVOKER BEGIN
		SET now = (SELECT t FROM test_clock); UPDATE test_clock SET t = t + step; END`)
	holder := testutil.Joins(t, e, testutil.Lasting("a", time.Hour), engine.Held)
	asked := testutil.Lasting("a", time.Minute)
	first := testutil.Joins(t, e, asked, engine.Waiting)
	do(t, db, `UPDATE test_clock SET t = 60000000 - 1, step = 1`)
	again := testutil.Joins(t, e, asked, engine.Waiting)
	if again.Ticket <= first.Ticket {
		t.Errorf("the claim has the ticket %d, as before it ended: %d", again.Ticket, first.Ticket)
	}
	do(t, db, `UPDATE test_clock SET step = 0`)
	leave(t, e, holder)
	if c := testutil.Renew(t, e, again, time.Minute); c.State != engine.Held || c.Ticket != again.Ticket {
		t.Errorf("%+v, want the ticket %d", c, again.Ticket)
	}
}

// The procedures do what package queue does. They read a clock that the test moves.
func TestProceduresDoWhatPackageQueueDoes(t *testing.T) {
	compare(t, func(c *client) sqllock.Database { return c })
}

// So does the one that carries out the calls of many, where it answers.
func TestSharedCallsDoWhatPackageQueueDoes(t *testing.T) {
	compare(t, func(c *client) sqllock.Database { return sqltest.Sharing{Sharer: c} })
}

func compare(t *testing.T, calls func(*client) sqllock.Database) {
	t.Helper()
	t.Parallel()
	url := database(t)
	base, db := open(t, url), connect(t, url)
	base.client.calls.line = strings.Replace(base.client.calls.line, clock, "(SELECT t FROM test_clock)", 1)
	setClock(t, db)
	var clients []queuetest.Client
	for i := range 3 {
		c := *base.client
		c.id = [12]byte{'c', byte('0' + i)}
		clients = append(clients, queuetest.Client{Name: string(c.id[:]), Engine: &Engine{client: &c, Engine: sqllock.New(calls(&c), &base.client.conns.Claims, 0, 0, base.Guarantees())}})
	}
	queuetest.Compare(t, queuetest.Subject{
		Clients: clients, Seeds: 4, RemembersRevoked: true,
		Empty: func(t *queuetest.Run, _ bool) { forget(t, db) },
		SetClock: func(t *queuetest.Run, now time.Duration) {
			do(t, db, `UPDATE test_clock SET t = ?`, now.Microseconds())
		},
		Stored: func(t *queuetest.Run, _ string) queue.Queue { return rows.Stored(t, db, "FALSE") },
		// One that waits is given an eighth more, unless it has that much left: a look at
		// it then writes nothing. But where something has expired in the queue, or the
		// clock stepped back, it is written.
		Grant: func(t *queuetest.Run, p queue.Place, want time.Duration, renewal bool) time.Duration {
			if renewal && p.Deadline >= t.Now+want && get[bool](t, db, `SELECT ? < soonest AND ? >= seen FROM @names`, t.Now.Microseconds(), t.Now.Microseconds()) {
				return want
			}
			return want + want/8
		},
		PollAfter: func(s engine.State, pollAfter time.Duration) bool {
			return (pollAfter > 0) == (s == engine.Waiting) && pollAfter <= pollRarely
		},
	}, sqltest.Now())
}
