package pglock

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine/internal/queuetest"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/engine/queue"
)

// The functions do what package queue does. They read a clock that the test moves, and
// put their notifications in a table.
func TestFunctionsDoWhatPackageQueueDoes(t *testing.T) {
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
	base, pool, db := open(t, url), connect(t, url), rows.Connect(t, url)
	setClock(t, pool)
	do(t, pool, `CREATE TABLE test_notes (i serial, client text, note text)`)
	do(t, pool, `CREATE OR REPLACE FUNCTION @tell(client text, note text) RETURNS void LANGUAGE plpgsql AS
		'BEGIN INSERT INTO public.test_notes (client, note) VALUES (client, note); END'`)
	// A renewal that does not lock the name does not record the clock either, so a step
	// back is seen up to a second late: where the clock jumps, they lock.
	replace(t, pool, "calm", "RETURN t <", "RETURN NOT (SELECT jumps FROM public.test_clock) AND t <")
	var clients []queuetest.Client
	for i := range 3 {
		c := *base.client
		c.channel = fmt.Sprint("client", i)
		clients = append(clients, queuetest.Client{Name: c.channel, Engine: &Engine{client: &c, Engine: sqllock.New(calls(&c), &base.client.conns.Claims, 0, 0, base.Guarantees())}})
	}
	queuetest.Compare(t, queuetest.Subject{
		Clients: clients, Seeds: 3, RemembersRevoked: true,
		Empty: func(t *queuetest.Run, jumps bool) {
			forget(t, pool)
			do(t, pool, `UPDATE test_clock SET jumps = $1`, jumps)
		},
		SetClock: func(t *queuetest.Run, now time.Duration) {
			do(t, pool, `UPDATE test_clock SET t = $1`, now.Microseconds())
			do(t, pool, `TRUNCATE test_notes RESTART IDENTITY`)
		},
		Stored:        func(t *queuetest.Run, _ string) queue.Queue { return rows.Stored(t, db, "c.told") },
		Notifications: func(t *queuetest.Run) []queue.Notification { return notifications(t, pool) },
	}, sqltest.Now())
}

func notifications(t *queuetest.Run, pool *pgxpool.Pool) []queue.Notification {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT client, note FROM test_notes ORDER BY i`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (n queue.Notification, err error) {
		var text string
		if err := r.Scan(&n.Client, &text); err != nil {
			return n, err
		}
		n.Claim, err = parseNotification(text)
		return n, err
	})
	if err != nil {
		t.Fatalf("unreadable notification: %v", err)
	}
	return got
}
