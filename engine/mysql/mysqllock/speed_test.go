package mysqllock

import (
	"strings"
	"testing"
	"time"

	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// While a transaction is open that may read former versions of rows, nothing is purged. A
// busy name costs the same after as before.
func TestAnOldSnapshotDoesNotSlowABusyName(t *testing.T) {
	t.Parallel()
	url := servers.MariaDB(t, nil).URL("", "test") // its own server, whose reads are counted
	e, f, db := open(t, url), open(t, url), connect(t, url)
	conn, err := db.Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, sql := range []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT"} {
		if _, err := conn.ExecContext(within(t), sql); err != nil {
			t.Fatal(err)
		}
	}
	name := strings.Repeat("a", 500) // few entries are in a page
	reads := func() (n int) {
		var status string
		if err := db.QueryRowContext(within(t), `SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'`).Scan(&status, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	round := func() int {
		before := reads()
		c, d := join(t, e, testutil.Lasting(name, time.Minute)), join(t, f, testutil.Lasting(name, time.Minute))
		renew(t, e, c, time.Minute)
		renew(t, f, d, time.Minute)
		leave(t, e, c)
		leave(t, f, d)
		return reads() - before
	}
	least := func(rounds int) int {
		n := 1 << 30
		for range rounds {
			n = min(n, round())
		}
		return n
	}
	before, after := least(20), 0
	for _, then := range []string{``, `ANALYZE TABLE leasehold_names, leasehold_claims`} {
		if then != `` {
			do(t, db, then)
		}
		least(400)
		after = least(20)
		t.Logf("%d reads at first, and %d later %s", before, after, then)
		if after > 2*before {
			t.Errorf("%d reads at first, and %d later %s", before, after, then)
		}
	}
}
