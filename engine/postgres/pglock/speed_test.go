package pglock

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/engine/internal/testutil"
)

// counted is a client whose statements are counted.
func counted(t *testing.T, url string) (*Engine, counter) {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	count := counter{make(chan string, 100_000)}
	config.ConnConfig.Tracer = count
	e := openOn(t, config)
	for len(count.n) > 0 {
		<-count.n
	}
	return e, count
}

// Callers of many names share statements, and each is answered for its own claim.
func TestCallersOfManyNamesShareStatements(t *testing.T) {
	t.Parallel()
	e, count := counted(t, database(t))
	sqltest.CallersOfManyNamesShareStatements(t, e, func() int { return len(count.n) })
}

// A name that somebody else keeps locked keeps none waiting that shares a statement with it.
func TestAStuckNameKeepsNoneWaitingThatSharesItsStatement(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	var calls []engine.Request
	for i := range 8 {
		r := exclusive(fmt.Sprint("name ", i))
		leave(t, e, join(t, e, r))
		calls = append(calls, exclusive(r.Name))
	}
	tx, err := pool.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { tx.Rollback(context.Background()) }()
	if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @names WHERE name = 'name 3' FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	answered := map[string]engine.State{}
	if err := e.client.Share(within(t), sqltest.Calls(calls, false), func(i int, c engine.Claim) { answered[calls[i].Name] = c.State }); err != nil {
		t.Fatal(err)
	}
	if _, stuck := answered["name 3"]; stuck || len(answered) != 7 {
		t.Errorf("answered: %v", answered)
	}
	// A renewal that is under way has locked its claim alone, and is not waited for either.
	if err := tx.Rollback(within(t)); err != nil {
		t.Fatal(err)
	}
	if tx, err = pool.Begin(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @claims WHERE name = 'name 5' FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	clear(answered)
	if err := e.client.Share(within(t), sqltest.Calls(calls, true), func(i int, c engine.Claim) { answered[calls[i].Name] = c.State }); err != nil {
		t.Fatal(err)
	}
	if _, stuck := answered["name 5"]; stuck || len(answered) != 6 || answered["name 0"] != engine.Held {
		t.Errorf("left: %v", answered)
	}
}

// TestRowsOfOneNameCostNoOtherThatSharesItsStatement: each is then made alone.
func TestRowsOfOneNameCostNoOtherThatSharesItsStatement(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	bad, good := exclusive("bad"), exclusive("good")
	for _, r := range []engine.Request{bad, good} {
		leave(t, e, join(t, e, r))
	}
	do(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'bad'; END $$`)
	do(t, pool, `CREATE TRIGGER refuse BEFORE INSERT ON @claims FOR EACH ROW WHEN (NEW.name = 'bad') EXECUTE FUNCTION refuse()`)
	calls := []engine.Request{exclusive("bad"), exclusive("good")}
	if err := e.client.Share(within(t), sqltest.Calls(calls, false), func(i int, c engine.Claim) { t.Errorf("%s: %v", calls[i].Name, c.State) }); err != nil {
		t.Errorf("what was rolled back is not made alone: %v", err)
	}
	if c := join(t, e, exclusive("good")); c.State != engine.Held {
		t.Errorf("the good name is %v", c.State)
	}
}

// Hand-overs of different names are stored together: none has a lock of the whole
// instance while its commit is under way. Here commits wait for a replica that there is not.
func TestHandOversOfDifferentNamesAreStoredTogether(t *testing.T) {
	t.Parallel()
	s := server(t)
	e, other := open(t, s.URL("", "")), open(t, s.URL("", ""))
	pool := connect(t, s.URL("", "")+"&synchronous_commit=off")
	received := watch(t, other)
	var held, waits []engine.Claim
	for i := range 3 {
		held = append(held, join(t, e, testutil.Lasting(fmt.Sprint(i), time.Minute)))
		waits = append(waits, join(t, other, testutil.Lasting(fmt.Sprint(i), time.Minute)))
	}
	do(t, pool, `ALTER SYSTEM SET synchronous_standby_names = '*'`)
	do(t, pool, `SELECT pg_reload_conf()`)
	waiting := func() int {
		return get[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
	}
	// The server's checkpointer reads the setting for all: a session may have it earlier, and its commits
	// not wait yet.
	do(t, pool, `CREATE TABLE probe (n int)`)
	probe, set := connect(t, s.URL("", "")), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			select {
			case <-set:
				return
			default:
			}
			if _, err := probe.Exec(t.Context(), `INSERT INTO probe VALUES (1)`); t.Context().Err() != nil {
				return // the test has failed
			} else if err != nil {
				t.Errorf("the probe: %v", err)
				return
			}
		}
	})
	until(t, "no commit waits for a replica", func() bool { return waiting() == 1 })
	close(set)
	ctx := within(t)
	for _, c := range held {
		all.Go(func() {
			if _, err := e.Leave(ctx, []engine.Claim{c}); err != nil {
				t.Errorf("Leave: %v", err)
			}
		})
	}
	until(t, "the commits of three hand-overs are not under way at once", func() bool { return waiting() == 1+len(held) })
	for len(received) > 0 {
		if c := <-received; c.State == engine.Held {
			t.Errorf("%s is told that it holds, which is not stored", c.Name)
		}
	}
	do(t, pool, `ALTER SYSTEM RESET synchronous_standby_names`)
	do(t, pool, `SELECT pg_reload_conf()`)
	for range waits {
		expect(t, received, func(c engine.Claim) bool { return c.State == engine.Held })
	}
	all.Wait()
}

// Where the server's process ends between the commit of a Leave and its notification, the
// Leave has been carried out, and the next in line finds out by itself.
func TestALeaveIsStoredBeforeItNotifies(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	first, second := join(t, e, testutil.Lasting("a", time.Minute)), join(t, e, testutil.Lasting("a", time.Minute))
	do(t, pool, `CREATE OR REPLACE FUNCTION @told(notes text) RETURNS void LANGUAGE plpgsql AS
		$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); PERFORM pg_sleep(10); END $$`)
	if cs, err := e.Leave(within(t), []engine.Claim{first}); err == nil {
		t.Errorf("Leave says %v though it was not answered", cs)
	}
	if c := renew(t, e, second, time.Minute); c.State != engine.Held {
		t.Errorf("the next is %v", c.State)
	}
	if state := leave(t, e, first); state != engine.Gone {
		t.Errorf("the Leave, again: %v", state)
	}
}

// A row that names no channel costs its client the notification, and nobody the call.
func TestAClientThatCannotBeNotified(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	first, second := join(t, e, testutil.Lasting("a", time.Minute)), join(t, e, testutil.Lasting("a", time.Minute))
	do(t, pool, `UPDATE @claims SET client = repeat('x', 100)`)
	if state := leave(t, e, first); state != engine.Held {
		t.Errorf("Leave says %v", state)
	}
	if c := renew(t, e, second, time.Minute); c.State != engine.Held {
		t.Errorf("the next is %v", c.State)
	}
}

// Two who make the same name, one of whom goes on so far that its row has another key,
// make one row.
func TestANameHasOneRow(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	// Whoever puts the row there finds that another has, and has changed its key, since it looked.
	replace(t, pool, "join", `INSERT INTO @names SELECT n`, `INSERT INTO @names VALUES (n, 7, 1, 0, 0, 0, 9223372036854775807, 0, -3); INSERT INTO @names SELECT n`)
	c := join(t, e, exclusive("a"))
	if n := get[int](t, pool, `SELECT count(*) FROM @names`); n != 1 || c.State != engine.Held {
		t.Errorf("%d rows, and the Join is %v", n, c.State)
	}
	if leave(t, e, c) != engine.Held {
		t.Error("it did not hold")
	}
}

// read is how many pages a call reads, in all its statements: the least of some.
func read(t *testing.T, conn *pgx.Conn, sql string, args ...any) int {
	t.Helper()
	least := 1 << 30
	for range 12 {
		var text string
		if err := conn.QueryRow(within(t), `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) `+defaults.in(sql), args...).Scan(&text); err != nil {
			t.Fatal(err)
		}
		var plans []struct {
			Plan struct {
				Hit  int `json:"Shared Hit Blocks"`
				Read int `json:"Shared Read Blocks"`
			}
		}
		if err := json.Unmarshal([]byte(text), &plans); err != nil {
			t.Fatal(err)
		}
		least = min(least, plans[0].Plan.Hit+plans[0].Plan.Read)
	}
	return least
}

// workload makes functions that use the name a: pair by itself, contend by two at once, who
// also renew, and shared by a call of many.
func workload(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	const (
		join  = `PERFORM @join('a', ID, 'nobody', '', 1, 1, 60000000, false, false, NULL);`
		renew = `PERFORM @renewing('a', ID, 60000000, true);`
		leave = `PERFORM @leaving('a', ID);`
		share = `PERFORM @share(ARRAY['a']::bytea[], ARRAY[ID], ARRAY[LEAVES], 'nobody', ARRAY['']::bytea[], ARRAY[1], ARRAY[1],
			ARRAY[60000000]::bigint[], ARRAY[false]);`
	)
	function := func(name, body string) {
		do(t, pool, `CREATE FUNCTION public.`+name+`(one bytea = sha256(random()::text::bytea), two bytea = sha256(random()::text::bytea)) RETURNS void
			LANGUAGE plpgsql AS $$ BEGIN `+body+` END $$`)
	}
	of := func(call, id string) string { return strings.ReplaceAll(call, "ID", id) }
	function("pair", of(join+leave, "one"))
	function("contend", of(join, "one")+of(join, "two")+of(renew, "one")+of(renew, "two")+of(leave, "one")+of(leave, "two"))
	shared := of(share, "one")
	function("shared", strings.ReplaceAll(shared, "LEAVES", "false")+strings.ReplaceAll(shared, "LEAVES", "true"))
	do(t, pool, `CREATE PROCEDURE public.busy(n integer) LANGUAGE plpgsql AS $$
		BEGIN
			FOR i IN 1..n LOOP
				PERFORM pair(); COMMIT; PERFORM contend(); COMMIT; PERFORM shared(); COMMIT;
			END LOOP;
		END $$`)
}

// While a transaction is open that may read former versions of rows, nothing is cleared
// away. A busy name costs the same after as before, and so when autovacuum has counted the
// rows meanwhile: all but a few are dead.
func TestAnOldSnapshotDoesNotSlowABusyName(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	leave(t, e, join(t, e, exclusive("a")))
	do(t, pool, `INSERT INTO @names SELECT ('n' || i)::bytea, 1, 1, 0, 0, 0, 9223372036854775807, @clock() FROM generate_series(1, 20) i`)
	old, err := pool.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer old.Rollback(context.Background())
	if _, err := old.Exec(within(t), `SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`); err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(within(t), `SELECT 1`); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	workload(t, pool)
	calls := []string{"pair", "contend", "shared"}
	few, many := 50, 2500
	if testing.Short() {
		many = 600
	}
	do(t, pool, fmt.Sprintf(`CALL busy(%d)`, few))
	before := map[string]int{}
	for _, call := range calls {
		before[call] = read(t, conn, `SELECT `+call+`()`)
	}
	do(t, pool, fmt.Sprintf(`CALL busy(%d)`, many))
	for _, then := range []string{``, `ANALYZE @claims`, `ANALYZE @names`, `VACUUM ANALYZE @claims`, `VACUUM ANALYZE @names`} {
		if then != `` {
			do(t, pool, then)
		}
		for _, call := range calls {
			n := read(t, conn, `SELECT `+call+`()`)
			t.Logf("%s: %d pages after %d rounds, and %d after %d and %q", call, before[call], few, n, few+many, then)
			if n > 3*before[call] {
				t.Errorf("%s: %d pages after %d rounds, and %d after %d and %q", call, before[call], few, n, few+many, then)
			}
		}
	}
}

// A plan that was made when the tables were small does not read all of them once they
// have grown.
func TestPlansOfSmallTablesServeLargeOnes(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	leave(t, e, join(t, e, exclusive("a")))
	workload(t, pool)
	do(t, pool, `ALTER TABLE @names SET (autovacuum_enabled = false)`)
	do(t, pool, `ALTER TABLE @claims SET (autovacuum_enabled = false)`)
	do(t, pool, `VACUUM ANALYZE @names`)
	do(t, pool, `VACUUM ANALYZE @claims`)
	conn, err := pgx.Connect(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	small := read(t, conn, `SELECT contend()`) // often enough for a plan that stays
	do(t, pool, `INSERT INTO @names SELECT ('n' || i)::bytea, 1, 1, 0, 0, 0, 9223372036854775807, @clock() FROM generate_series(1, 5000) i`)
	do(t, pool, `INSERT INTO @claims SELECT ('n' || i)::bytea, 1, '\x01', '', '', 1, 9e15::bigint, 1, false, false, false FROM generate_series(1, 5000) i`)
	if large := read(t, conn, `SELECT contend()`); large > 3*small {
		t.Errorf("%d pages with one name, and %d with 5000", small, large)
	}
}
