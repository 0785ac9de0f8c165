package pglock

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// Who wants a name must not wait for a new session of somebody else's that compiles
// its functions: a session does that once, and before it locks the name.
func TestASessionPractisesBeforeItLocksAName(t *testing.T) {
	t.Parallel()
	url := database(t)
	holder := open(t, url)
	leave(t, holder, join(t, holder, exclusive("a"))) // the name's row is there
	pool := connect(t, url)
	for range 2 { // the second practises nothing
		if !get[bool](t, pool, `SELECT @shares()`) {
			t.Error("it has not practised to share")
		}
	}
	if n := get[int](t, pool, `SELECT count(*) FROM @names`); n != 1 {
		t.Errorf("practising left %d names", n-1)
	}
	if n := get[int](t, pool, `SELECT count(*) FROM @claims`); n != 0 {
		t.Errorf("practising left %d claims", n)
	}
	// Each practice takes the lock 77 once more, for the rest of its session.
	do(t, pool, `CREATE OR REPLACE FUNCTION @practise() RETURNS void LANGUAGE sql AS $$ SELECT pg_advisory_lock(77) $$`)
	tx, err := pool.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(within(t))
	if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @names WHERE name = 'a' FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(within(t))
	done := make(chan error, 1)
	ctx := within(t)
	go func() {
		for range 2 { // the second practises nothing
			if _, err := conn.Exec(ctx, defaults.in(`SELECT @leaving('a', 'x')`)); err != nil {
				done <- err
				return
			}
		}
		_, err := conn.Exec(ctx, `SELECT 1 / pg_advisory_unlock(77)::int, 1 / (NOT pg_advisory_unlock(77))::int`)
		done <- err
	}()
	const waits = `SELECT count(*) FROM pg_locks WHERE pid = $1 AND NOT granted`
	until(t, "it never waits for the name", func() bool { return get[int](t, pool, waits, conn.PgConn().PID()) > 0 })
	const practised = `SELECT count(*) FROM pg_locks WHERE pid = $1 AND locktype = 'advisory' AND objid = 77 AND granted`
	if n := get[int](t, pool, practised, conn.PgConn().PID()); n != 1 {
		t.Error("it waits for the name and has not practised")
	}
	if err := tx.Rollback(within(t)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("practised again: %v", err)
	}
}
