package mysqllock

import (
	"context"
	"database/sql"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/queuetest"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/sqllock/sqltest"
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

// The procedures do what package queue does. They read a clock that the test moves.
func TestProceduresDoWhatPackageQueueDoes(t *testing.T) {
	compare(t, func(c *client) sqllock.Database { return c })
}

// So does the one that carries out the calls of many, where it answers.
func TestSharedCallsDoWhatPackageQueueDoes(t *testing.T) {
	compare(t, func(c *client) sqllock.Database { return sharing{c} })
}

// sharing first tries to share a statement for every call.
type sharing struct{ *client }

func (s sharing) Join(ctx context.Context, r *engine.Request) (j sqllock.Joined, err error) {
	if r.Replaces != (engine.ID{}) {
		return s.client.Join(ctx, r)
	}
	if err = s.Share(ctx, []sqllock.Call{{Request: r}}, func(_ int, c engine.Claim) { j.Claim = c }); err == nil && j.Claim.State == 0 {
		return s.client.Join(ctx, r)
	}
	return j, err
}

func (s sharing) Batch(ctx context.Context, rs []engine.Renewal) (cs []engine.Claim, err error) {
	if len(rs) == 1 && rs[0].Want == 0 {
		left := sqllock.Call{Request: &engine.Request{Name: rs[0].Name, ID: rs[0].ID}, Leave: true}
		if err = s.Share(ctx, []sqllock.Call{left}, func(_ int, c engine.Claim) { cs = append(cs, c) }); err != nil || cs != nil {
			return cs, err
		}
	}
	return s.client.Batch(ctx, rs)
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
		clients = append(clients, queuetest.Client{Name: string(c.id[:]), Engine: &Engine{client: &c, Engine: sqllock.New(calls(&c), 0, 0, base.Guarantees())}})
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
			return (pollAfter > 0) == (s == engine.Waiting) && pollAfter <= pollSeldom
		},
	}, sqltest.Now())
}
