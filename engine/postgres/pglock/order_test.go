package pglock

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/lab/servers"
)

// Tickets are given in the order of commits, however long others take between two
// statements: 64 join at once, and exactly the first holds.
func TestTicketsAreInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	if held, sorted := storm(t, false); held != 1 || !sorted {
		t.Errorf("%d hold an exclusive lock; tickets in the order of commits: %v", held, sorted)
	}
}

// The same with functions that read the queue before they have locked it, as one
// statement that does both would: the test above can fail.
func TestReadingBeforeLockingIsSeen(t *testing.T) {
	if testing.Short() {
		servers.LeftOut(t, "it takes up to a minute")
	}
	// Not beside others: its storms would keep them from their server.
	const storms = 8 // on a busy machine 64 may come one after the other
	for range storms {
		if held, sorted := storm(t, true); held != 1 || !sorted {
			return
		}
	}
	t.Errorf("in %d storms the joiners of a queue that is read before it is locked do as they should: the test sees nothing", storms)
}

func storm(t *testing.T, broken bool) (held int, sorted bool) {
	const joiners = 64
	url := database(t) + "&pool_max_conns=65" // one is for renewals only
	e := open(t, url)
	pool := connect(t, url)
	do(t, pool, `CREATE OR REPLACE FUNCTION @clock() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_sleep(random() * 0.01);
			RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
		END $$`)
	leave(t, e, join(t, e, exclusive("a"))) // the name is there
	if broken {
		replace(t, pool, "open", `SELECT * INTO l FROM @names WHERE name = n ORDER BY gen LIMIT 1 FOR UPDATE;`,
			`SELECT * INTO l FROM @names WHERE name = n; PERFORM pg_sleep(0.002); PERFORM FROM @names WHERE name = n FOR UPDATE;`)
		replace(t, pool, "join", `size = 0 AND seen <= t AND soonest > t`, `0 = (SELECT x.size FROM @names x, pg_sleep(0.1) WHERE x.name = n ORDER BY x.gen LIMIT 1)`)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A session's first call takes longer than what is to be shown: all have had one.
	sessions := make([]*pgxpool.Conn, joiners)
	for i := range sessions {
		var err error
		if sessions[i], err = e.client.pool.Acquire(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := sessions[i].Exec(ctx, defaults.in(`SELECT @join('other', $1, 'nobody', '', 1, 1, 60000000, false, false, NULL)`), []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range sessions {
		s.Release()
	}
	held = sqltest.Storm(t, ctx, e, joiners, broken)
	type row struct {
		ticket int64
		commit time.Time
	}
	var rows []row
	found, err := pool.Query(ctx, defaults.in(`SELECT ticket, pg_xact_commit_timestamp(xmin) FROM @claims WHERE name = 'a' ORDER BY ticket`))
	if err != nil {
		t.Fatal(err)
	}
	for found.Next() {
		var r row
		if err := found.Scan(&r.ticket, &r.commit); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	if !broken && len(rows) != joiners {
		t.Errorf("%d are in the queue", len(rows))
	}
	// The first was told meanwhile that it is contended, which wrote its row anew.
	return held, len(rows) > 2 && slices.IsSortedFunc(rows[1:], func(a, b row) int { return cmp.Compare(a.commit.UnixNano(), b.commit.UnixNano()) })
}

// replace makes a function of schema.sql anew with other words in it.
func replace(t testing.TB, pool *pgxpool.Pool, name, old, by string) {
	t.Helper()
	head, end := "CREATE OR REPLACE FUNCTION @"+name+"(", "END $$;"
	_, rest, found := strings.Cut(schema, head)
	body, _, ends := strings.Cut(rest, end)
	if !found || !ends || !strings.Contains(body, old) {
		t.Fatalf("function %s has other words now: mend this test", name)
	}
	do(t, pool, head+strings.ReplaceAll(body, old, by)+end)
}

func TestRevokedClaimsSaySo(t *testing.T) { rows.RevokedClaimsSaySo(t) }
