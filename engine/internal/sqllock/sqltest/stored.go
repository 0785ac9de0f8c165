package sqltest

import (
	"database/sql"
	"testing"
	"time"

	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/queue"
)

// Stored is the one queue of a database as its rows have it. It fails the test if the
// totals beside them do not fit. told is the column that says whether a holder knows
// that somebody waits, or FALSE.
func (k Kit) Stored(t testing.TB, db *sql.DB, notified string) (l queue.Queue) {
	t.Helper()
	rows, err := db.QueryContext(testutil.Within(t), k.In(`SELECT c.id, c.ticket, c.client, c.owner, c.deadline, c.asked, c.units, c.ticket <= n.upto, c.detached, c.evicted, `+
		notified+`, n.lim, n.size, n.used, n.soonest FROM @claims c JOIN @names n ON n.name = c.name ORDER BY c.ticket`))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var size, used, permits, soonest int64
	for rows.Next() {
		var p queue.Place
		var id, owner []byte
		var deadline, asked int64
		if err := rows.Scan(&id, &p.Ticket, &p.Client, &owner, &deadline, &asked, &p.Permits, &p.Held, &p.Detached, &p.Revoked, &p.Notified,
			&l.Limit, &size, &used, &soonest); err != nil {
			t.Fatal(err)
		}
		copy(p.ID[:], id)
		p.Owner, p.Deadline, p.Asked = string(owner), sqllock.Micros(deadline), sqllock.Micros(asked)
		l.Places = append(l.Places, p)
		if p.Held {
			permits += int64(p.Permits)
		}
		if deadline < soonest {
			t.Fatalf("a deadline is %d us before the soonest", soonest-deadline)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if size != int64(len(l.Places)) || used != permits {
		t.Fatalf("%d claims, %d permits held; want %d, %d", size, used, len(l.Places), permits)
	}
	return l
}

// Now is the clock at which a comparison begins.
func Now() time.Duration { return sqllock.Micros(time.Now().UnixMicro()) }
