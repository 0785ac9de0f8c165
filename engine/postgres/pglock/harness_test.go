package pglock

import (
	"context"
	"database/sql"
	"io"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

var shared = sqltest.Shared[*servers.PostgresServer]{
	Programs: []string{"postgres", "initdb", "psql"},
	Start: func() (*servers.PostgresServer, error) {
		return servers.StartPostgres(&servers.PostgresOptions{
			Args: []string{"-c", "max_connections=400", "-c", "track_commit_timestamp=on"},
		})
	},
}

func TestMain(m *testing.M) {
	// It ends by itself after a connection was cut: pgx asks the server to cancel what was
	// under way there.
	cancels := goleak.IgnoreAnyFunction("github.com/jackc/pgx/v5/pgconn.(*PgConn).asyncClose.func1")
	shared.Main(m, func() error { return goleak.Find(cancels) })
}

// server is one of a test's own.
func server(t testing.TB, args ...string) *servers.PostgresServer {
	t.Helper()
	return servers.Postgres(t, &servers.PostgresOptions{Args: args})
}

// database is the URL of an empty database on the shared server.
func database(t testing.TB) string { t.Helper(); return shared.Database(t) }

func open(t testing.TB, url string) *Engine {
	t.Helper()
	e, err := Open(within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e.(*Engine)
}

// openOn opens on a pool that the test configures.
func openOn(t testing.TB, config *pgxpool.Config) *Engine {
	t.Helper()
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	e, err := New(within(t), pool, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// connect is a pool of the test's, for looking at what the engine does.
func connect(t testing.TB, url string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// do runs SQL with the default schema.
func do(t testing.TB, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(within(t), defaults.in(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

var (
	within, until, exclusive = testutil.Within, testutil.Until, testutil.Exclusive
	join, leave, renew       = testutil.Join, testutil.Leave, testutil.Renew
	watch, expect            = testutil.Watch, testutil.Expect
)

var defaults = Options{Schema: "leasehold"}

// get is one value.
func get[T any](t testing.TB, pool *pgxpool.Pool, sql string, args ...any) (v T) {
	t.Helper()
	if err := pool.QueryRow(within(t), defaults.in(sql), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// kill ends a client as the death of its process would.
func kill(e *Engine) {
	e.client.conns.Close()
	e.client.pool.Close()
}

// prepare has every connection of a client know every call, so that the next answer
// is the one to a call.
func prepare(t testing.TB, e *Engine) {
	t.Helper()
	c := e.client.calls
	e.client.conns.Close() // what it keeps for renewals is one of the idle then
	for _, conn := range e.client.pool.AcquireAllIdle(within(t)) {
		for _, sql := range []string{c.join, c.renew.one, c.leave.one, c.renew.all, c.leave.all, c.revoke} {
			if _, err := conn.Conn().Prepare(within(t), sql, sql); err != nil {
				t.Fatal(err)
			}
		}
		conn.Release()
	}
}

// forget empties the tables.
func forget(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	do(t, pool, `TRUNCATE @names, @claims`)
	do(t, pool, `UPDATE @swept SET upto = '', last = 0`)
}

// setClock has the functions read a clock that the test moves.
func setClock(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	do(t, pool, `CREATE TABLE test_clock AS SELECT @clock() AS t, false AS jumps`)
	do(t, pool, `CREATE OR REPLACE FUNCTION @clock() RETURNS bigint LANGUAGE plpgsql AS 'BEGIN RETURN (SELECT t FROM public.test_clock); END'`)
}

// closer ends a connection.
type closer struct{ *pgx.Conn }

func (c closer) Close() error { return c.Conn.Close(context.Background()) }

// rows is what this engine has in common with others.
var rows = sqltest.Kit{
	Name: "pglock", Open: Open, Database: database, In: defaults.in,
	More:  func(url, parameter string) string { return url + "&" + parameter },
	Conns: "pool_max_conns",
	Connect: func(t testing.TB, url string) *sql.DB {
		db := stdlib.OpenDBFromPool(connect(t, url))
		t.Cleanup(func() { db.Close() })
		return db
	},
	Clock: func(t testing.TB, url string) func(int64) {
		pool := connect(t, url)
		setClock(t, pool)
		return func(now int64) { do(t, pool, `UPDATE test_clock SET t = $1`, now) }
	},
	Dial: func(ctx context.Context, url string) (io.Closer, error) {
		c, err := pgx.Connect(ctx, url)
		return closer{c}, err
	},
	Binary: `'\xff00c3'::bytea`, Notified: ", told", Column: ".name",
	Replace: func(t testing.TB, url, function, old, by string) { replace(t, connect(t, url), function, old, by) },
	Sweep:   func(t testing.TB, url string) { replace(t, connect(t, url), "join", "random() < 1.0 / 16", "true") },
	Waiting: func(t testing.TB, db *sql.DB) (n int) {
		t.Helper()
		if err := db.QueryRowContext(within(t), lockWaits).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	},
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := server(t)
	url := s.URL("", "")
	open(t, url).Close() // makes the tables
	admin := connect(t, url)
	rows.Conformance(t, s.Addr, url, func(t testing.TB, e engine.Engine) { prepare(t, e.(*Engine)) }, enginetest.Harness{
		Restart: func(t testing.TB) {
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			admin.Reset()
		},
		Forget: func(t testing.TB) { forget(t, admin) },
		Kill:   func(_ testing.TB, e engine.Engine) { kill(e.(*Engine)) },
		CountKeys: func(t testing.TB) int {
			// Names go by themselves, a day after they were last used, and what has
			// expired there with them.
			return get[int](t, admin, `SELECT count(*) FROM @claims WHERE deadline > @clock()`)
		},
	})
}
