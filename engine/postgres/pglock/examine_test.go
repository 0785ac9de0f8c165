package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

const note, warning, problem = engine.SeverityNote, engine.SeverityWarning, engine.SeverityProblem

func examined(t testing.TB, url string, o engine.ExamineOptions, b bounds) testutil.Findings {
	t.Helper()
	return testutil.Examined(t, func(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
		return examine(ctx, rawURL, o, b, found)
	}, url, o)
}

// wrote is what a server says of its transactions that wrote, and of its tables.
func wrote(t testing.TB, s *servers.PostgresServer) string {
	t.Helper()
	out, err := s.Query(`SELECT txid_snapshot_xmax(txid_current_snapshot()), (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_proc)`)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestExamineHealthy(t *testing.T) {
	t.Parallel()
	s := server(t, "-c", "autovacuum_naptime=1h")
	before := wrote(t, s)
	if f := testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{}); len(f) > 0 {
		t.Errorf("a healthy server has %s", f)
	}
	if after := wrote(t, s); after != before {
		t.Errorf("the examination wrote: %s, before %s", after, before)
	}
	e := open(t, s.URL("", ""))
	join(t, e, exclusive("my lock"))
	if f := testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{}); len(f) > 0 {
		t.Errorf("a server that locks has %s", f)
	}
}

func TestExamineSettings(t *testing.T) {
	t.Parallel()
	s := server(t, "-c", "fsync=off", "-c", "autovacuum=off", "-c", "max_connections=8", "-c", "superuser_reserved_connections=0")
	if _, err := s.Query(`ALTER DATABASE postgres SET synchronous_commit = off; ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'`); err != nil {
		t.Fatal(err)
	}
	b := usualBounds()
	f := examined(t, s.URL("", ""), engine.ExamineOptions{}, b)
	f.Want(t, warning, "a crash of the machine may damage the database", "fsync is off, full_page_writes is on")
	f.Want(t, warning, "autovacuum is off")
	f.Want(t, warning, "a commit is answered before it is safe", "synchronous_commit is off")
	f.Want(t, problem, "the default isolation is not READ COMMITTED", "serializable")
	f.None(t, "the connections of the database are nearly used up")
	if _, err := s.Query(`ALTER DATABASE postgres SET synchronous_commit = local`); err != nil {
		t.Fatal(err)
	}
	examined(t, s.URL("", ""), engine.ExamineOptions{}, b).Want(t, warning, "a commit is answered before it is safe", "synchronous_commit is local")
	if _, err := s.Query(`ALTER DATABASE postgres SET default_transaction_read_only = on`); err != nil {
		t.Fatal(err)
	}
	b.nearly = 0.8
	for range 6 { // besides the examination's
		connectOne(t, s)
	}
	f = examined(t, s.URL("", ""), engine.ExamineOptions{}, b)
	f.Want(t, problem, "transactions only read")
	f.Want(t, warning, "the connections of the database are nearly used up", " of 8")
}

// connectOne makes one more connection for the length of a test.
func connectOne(t testing.TB, s *servers.PostgresServer) {
	t.Helper()
	if _, err := connect(t, s.URL("", "")).Exec(within(t), `SELECT 1`); err != nil {
		t.Fatal(err)
	}
}

func TestExamineTransactions(t *testing.T) {
	t.Parallel()
	s := server(t, "-c", "max_prepared_transactions=2")
	tx, err := connect(t, s.URL("", "")+"&application_name=sleeper").Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := s.Query(`BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'forgotten'`); err != nil {
		t.Fatal(err)
	}
	b := usualBounds()
	examined(t, s.URL("", ""), engine.ExamineOptions{}, b).None(t, "a transaction is open for long")
	b.transaction = 0
	f := examined(t, s.URL("", ""), engine.ExamineOptions{}, b)
	f.Want(t, warning, "a transaction is open for long", "(sleeper, idle in transaction) for", "prepared transaction forgotten for")
	if _, err := s.Query(`CREATE ROLE plain LOGIN`); err != nil {
		t.Fatal(err)
	}
	f = examined(t, s.URL("plain", "postgres"), engine.ExamineOptions{}, b)
	f.Want(t, note, "not read", "open transactions of other users")
	if !strings.Contains(f["not read"].Do, "pg_read_all_stats") {
		t.Errorf("no right is named: %+v", f["not read"])
	}
}

// TestExamineNotifications: a session that listens in an open transaction keeps what was notified
// since. A page of it is enough for the test.
func TestExamineNotifications(t *testing.T) {
	t.Parallel()
	const heading = "the queue of notifications fills up"
	s := server(t)
	c, err := pgconn.Connect(within(t), s.URL("", "")+"&application_name=sleeper")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	for _, q := range []string{`LISTEN news`, `BEGIN`, `SELECT 1`} {
		if _, err := c.Exec(within(t), q).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	b := usualBounds()
	b.unheard = 1e-9
	examined(t, s.URL("", ""), engine.ExamineOptions{}, b).None(t, heading)
	if _, err := s.Query(`SELECT pg_notify('news', repeat('a', 7000) || i) FROM generate_series(1, 5) i`); err != nil {
		t.Fatal(err)
	}
	examined(t, s.URL("", ""), engine.ExamineOptions{}, b).Want(t, warning, heading, "% full", "(sleeper, idle in transaction)")
	examined(t, s.URL("", ""), engine.ExamineOptions{}, usualBounds()).None(t, heading)
}

func TestExamineReplicas(t *testing.T) {
	t.Parallel()
	p := replicated(t)
	b := usualBounds()
	url := p.primary.URL("", "")
	f := examined(t, url, engine.ExamineOptions{}, b)
	f.Healthy(t, warning)
	f.Want(t, note, "the replicas are asynchronous", "walreceiver at 127.0.0.1")
	late := b
	late.lag = 0
	examined(t, url, engine.ExamineOptions{}, late).Want(t, warning, "a replica of the database lags", "is streaming")
	examined(t, p.replica.URL("", ""), engine.ExamineOptions{}, b).Want(t, problem, "this PostgreSQL is a replica")
	if _, err := p.replica.Query(`SELECT pg_wal_replay_pause()`); err != nil {
		t.Fatal(err)
	}
	if _, err := p.primary.Query(`CREATE TABLE filler AS SELECT generate_series(1, 10000)`); err != nil {
		t.Fatal(err)
	}
	b.behind = 100_000
	until(t, "no replica lags", func() bool {
		_, lags := examined(t, url, engine.ExamineOptions{}, b)["a replica of the database lags"]
		return lags
	})
}

// TestExamineReadersOfChanges: a client of logical replication is no replica. Where only such
// a one is connected, nobody acknowledges a commit that waits for a replica.
func TestExamineReadersOfChanges(t *testing.T) {
	t.Parallel()
	s := server(t, "-c", "wal_level=logical")
	if _, err := s.Query(`CREATE ROLE plain LOGIN`); err != nil {
		t.Fatal(err)
	}
	reader, err := pgconn.Connect(within(t), s.URL("", "")+"&replication=database&application_name=reader")
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.Background())
	if _, err := reader.Exec(within(t), `CREATE_REPLICATION_SLOT reads TEMPORARY LOGICAL pgoutput`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	if f := examined(t, s.URL("", ""), engine.ExamineOptions{}, usualBounds()); len(f) > 0 {
		t.Errorf("a server without replicas has %s", f)
	}

	const heading = "too few synchronous replicas"
	for _, q := range []string{`ALTER SYSTEM SET synchronous_standby_names = 'absent'`, `SELECT pg_reload_conf()`} {
		if _, err := s.Query(q); err != nil {
			t.Fatal(err)
		}
	}
	var f testutil.Findings
	until(t, "it does not miss the replica", func() bool {
		f = examined(t, s.URL("", ""), engine.ExamineOptions{}, usualBounds())
		return f[heading].What != ""
	})
	f.Want(t, problem, heading, `synchronous_standby_names is "absent"`)
	examined(t, s.URL("plain", "postgres"), engine.ExamineOptions{}, usualBounds()).None(t, heading) // it may not see whether the reader is one
}

func TestExamineTables(t *testing.T) {
	t.Parallel()
	s := server(t)
	_, err := s.Query(`
		CREATE TABLE method_lock (name text PRIMARY KEY, taken timestamptz);
		INSERT INTO method_lock VALUES ('stock', now() - interval '3 days'), ('pay', now() - interval '3 hours');
		CREATE SCHEMA app; CREATE TABLE app."Old Locks" (name text, at timestamp, note timestamp);
		INSERT INTO app."Old Locks" SELECT i, now() - interval '30 hours', NULL FROM generate_series(1, 300) i;
		CREATE TABLE half_lock (name text, at timestamptz); INSERT INTO half_lock SELECT i, CASE WHEN i % 2 = 0 THEN now() - interval '1 day' END FROM generate_series(1, 250) i;
		CREATE TABLE zero_lock (name text, at timestamptz); INSERT INTO zero_lock VALUES ('go', '0001-01-01');
		CREATE TABLE endless_lock (name text, at timestamptz); INSERT INTO endless_lock VALUES ('a', 'infinity'), ('b', now());
		CREATE TABLE part_lock (i int, at timestamptz) PARTITION BY RANGE (i); CREATE TABLE part_lock_1 PARTITION OF part_lock FOR VALUES FROM (0) TO (9);
		INSERT INTO part_lock VALUES (1, now() - interval '5 hours');
		CREATE TABLE live_lock (name text, at timestamptz); INSERT INTO live_lock VALUES ('old', now() - interval '3 days'), ('new', now());
		CREATE TABLE free_lock (name text, at timestamptz); INSERT INTO free_lock VALUES ('free', NULL);
		CREATE TABLE empty_lock (name text, at timestamptz);
		CREATE TABLE shedlock (name text, lock_until timestamp, locked_at timestamp, locked_by text); INSERT INTO shedlock VALUES ('job', '2020-01-01', '2020-01-01', 'h');
		CREATE TABLE orders (name text, at timestamptz); INSERT INTO orders VALUES ('old', '2020-01-01');
		CREATE TABLE leasehold_marks (name text, at timestamptz); INSERT INTO leasehold_marks VALUES ('old', '2020-01-01');
		CREATE TABLE secret_lock (name text, at timestamptz); CREATE ROLE reader LOGIN;
		GRANT USAGE ON SCHEMA app TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA public, app TO reader; REVOKE ALL ON secret_lock FROM reader`)
	if err != nil {
		t.Fatal(err)
	}
	f := testutil.Examined(t, Examine, s.URL("reader", "postgres"), engine.ExamineOptions{Limit: 200})
	f.Want(t, warning, "rows of locks that look dead", `"public"."method_lock" has 2, the newest is 3h0m`, `"public"."zero_lock" has 1, the newest is more than ten years old`, `"public"."part_lock" has 1, the newest is 5h0m`)
	f.Want(t, note, "stopped at the limit", `200 rows of "app"."Old Locks" were read, the newest of these is 30h0m`, `200 rows of "public"."half_lock" were read`)
	f.Want(t, note, "not read", `the table "public"."secret_lock"`)
	for _, wrong := range []string{"live", "free", "empty", "shedlock", "orders", "marks", "endless", "part_lock_1"} {
		if strings.Contains(f.String(), wrong) {
			t.Errorf("%s is reported: %s", wrong, f)
		}
	}
	testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{Names: []string{"ORD*"}}).
		Want(t, warning, "rows of locks that look dead", `"public"."orders" has 1`)
}

// TestExamineWhileATableIsLocked: it does not wait for long, and says so.
func TestExamineWhileATableIsLocked(t *testing.T) {
	t.Parallel()
	s := server(t)
	pool := connect(t, s.URL("", ""))
	do(t, pool, `CREATE TABLE a_lock (at timestamptz)`)
	tx, err := pool.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(within(t), `LOCK TABLE a_lock IN ACCESS EXCLUSIVE MODE`); err != nil {
		t.Fatal(err)
	}
	f := testutil.Examined(t, Examine, s.URL("", ""), engine.ExamineOptions{})
	f.Want(t, note, "not read", `the table "public"."a_lock"`, "lock timeout")
	if do := f["not read"].Do; strings.Contains(do, "SELECT") {
		t.Errorf("a right is named that would not help: %s", do)
	}

	// A server that is silent before its own time-outs is asked for nothing more.
	b := usualBounds()
	b.silent = 500 * time.Millisecond
	f = examined(t, s.URL("", ""), engine.ExamineOptions{}, b)
	f.Want(t, note, "not read", "the server said nothing for 500ms")
	f.None(t, "stopped at the limit")
}

// overdue is a context whose time is over when it is cancelled.
type overdue struct{ context.Context }

func (o overdue) Err() error {
	if o.Context.Err() != nil {
		return context.DeadlineExceeded
	}
	return nil
}

// TestExamineReportsWhatItFoundInTime: its time is over while it waits for one of ten
// tables that are locked.
func TestExamineReportsWhatItFoundInTime(t *testing.T) {
	t.Parallel()
	s := server(t, "-c", "autovacuum=off")
	tx, err := connect(t, s.URL("", "")).Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(within(t), `CREATE TABLE orders (at timestamptz)`); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if _, err := s.Query(fmt.Sprintf(`CREATE TABLE lock%d (at timestamptz)`, i)); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(within(t), fmt.Sprintf(`LOCK TABLE lock%d IN ACCESS EXCLUSIVE MODE`, i)); err != nil {
			t.Fatal(err)
		}
	}
	f := testutil.Examined(t, func(ctx context.Context, url string, o engine.ExamineOptions, found func(engine.Finding)) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- Examine(overdue{ctx}, url, o, found) }()
		until(t, "it does not wait", func() bool {
			n, err := s.Query(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'`)
			return err == nil && n == "1"
		})
		cancel()
		return <-done
	}, s.URL("", ""), engine.ExamineOptions{})
	f.Want(t, warning, "autovacuum is off")
	f.Want(t, note, "stopped at the limit", "the time for the examination was over")
}

func TestExamineBehindPgBouncer(t *testing.T) {
	t.Parallel()
	servers.Need(t, "pgbouncer")
	s := server(t)
	f := testutil.Examined(t, Examine, servers.PgBouncer(t, s, "transaction").URL(""), engine.ExamineOptions{})
	f.Healthy(t, warning)
	f.Want(t, note, "a pooler stands in between")
}

func TestExamineErrors(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]error{
		"postgres://h?hunter=1": engine.ErrURL, "postgres://h?schema=" + strings.Repeat("x", 50): engine.ErrURL,
		"postgres://postgres@" + servers.Nobody + "/postgres":                                  nil,
		"postgres://postgres@" + servers.Impostor(t, "tcp", nil) + "/postgres?sslmode=disable": context.DeadlineExceeded,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := Examine(ctx, url, engine.ExamineOptions{}, func(f engine.Finding) { t.Errorf("%s: %+v", url, f) })
		cancel()
		if err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
