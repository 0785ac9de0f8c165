package mysqllock

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/lab/servers"
)

// Tickets are given in the order of commits, however long others take between two
// statements: 64 join at once, exactly the first holds, and whoever looks meanwhile
// sees a queue that only grows at its end.
func TestTicketsAreInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	if held, inOrder := storm(t, false); held != 1 || !inOrder {
		t.Errorf("%d hold an exclusive lock; tickets in the order of commits: %v", held, inOrder)
	}
}

// The same with a procedure that reads the queue before it has locked it, as one
// statement that does both would: the test above can fail.
func TestReadingBeforeLockingIsSeen(t *testing.T) {
	if testing.Short() {
		servers.LeftOut(t, "it takes up to a minute")
	}
	// Not beside others: its storms would keep them from their server.
	const storms = 8 // on a busy machine 64 may come one after the other
	for range storms {
		if held, inOrder := storm(t, true); held != 1 || !inOrder {
			return
		}
	}
	t.Errorf("in %d storms the joiners of a queue that is read before it is locked do as they should: the test sees nothing", storms)
}

func storm(t *testing.T, broken bool) (held int, inOrder bool) {
	const joiners = 64
	url := database(t)
	e, db := open(t, url+"?max-conns=64"), connect(t, url)
	replace(t, db, "clock", "BEGIN\n", "BEGIN\n\tDO SLEEP(RAND() * 0.01);\n")
	replace(t, db, "store", "BEGIN\n", "BEGIN\n\tDO SLEEP(RAND() * 0.01);\n")
	leave(t, e, join(t, e, exclusive("a"))) // the name is there
	if broken {
		replace(t, db, "join", "FROM @names WHERE name = n FOR UPDATE;",
			"FROM @names WHERE name = n; DO SLEEP(0.05); SELECT last INTO t FROM @names WHERE name = n FOR UPDATE;")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A connection's first call takes longer than what is to be shown: all have had one.
	var all sync.WaitGroup
	for range joiners {
		all.Go(func() {
			if conn, err := e.client.db.Conn(ctx); err == nil {
				defer conn.Close()
				conn.ExecContext(ctx, defaults.in(`CALL @batch(x'')`))
				time.Sleep(100 * time.Millisecond) // so that each has a connection of its own
			}
		})
	}
	all.Wait()
	inOrder = true
	looked, stop := make(chan struct{}), make(chan struct{})
	go func() { // whoever looks
		defer close(looked)
		var before []uint64
		for ended := false; !ended; {
			select {
			case <-stop:
				ended = true
			default:
			}
			var line []uint64
			rows, err := db.QueryContext(ctx, defaults.in(`SELECT ticket FROM @claims WHERE name = 'a' ORDER BY ticket`))
			if err != nil {
				t.Error(err)
				return
			}
			for rows.Next() {
				var ticket uint64
				if err := rows.Scan(&ticket); err != nil {
					t.Error(err)
				}
				line = append(line, ticket)
			}
			rows.Close()
			if len(line) < len(before) || !slices.Equal(line[:len(before)], before) {
				inOrder = false
			}
			before = line
		}
		if !broken && len(before) != joiners {
			t.Errorf("%d are in the queue", len(before))
		}
	}()
	held = sqltest.Storm(t, ctx, e, joiners, broken)
	close(stop)
	<-looked
	return held, inOrder
}

// replace makes a procedure of schema.sql anew with other words in it.
func replace(t testing.TB, db *sql.DB, name, old, by string) {
	t.Helper()
	head := "CREATE /*M!100600 OR REPLACE */ PROCEDURE @" + name + "("
	_, rest, found := strings.Cut(schema, head)
	body, _, ends := strings.Cut(rest, end)
	if !found || !ends || !strings.Contains(body, old) {
		t.Fatalf("procedure %s has other words now: mend this test", name)
	}
	for _, statement := range []string{"DROP PROCEDURE @" + name, head + strings.Replace(body, old, by, 1)} {
		do(t, db, statement)
	}
}

func TestRevokedClaimsSaySo(t *testing.T) { rows.RevokedClaimsSaySo(t) }
