package mysqllock

import (
	"context"
	"database/sql"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

var shared = sqltest.Shared[*servers.MariaDBServer]{
	Programs: []string{"mariadbd", "mariadb-install-db", "mariadb"},
	Start: func() (*servers.MariaDBServer, error) {
		return servers.StartMariaDB(&servers.MariaDBOptions{Args: []string{"--max-connections=600"}})
	},
}

func TestMain(m *testing.M) {
	shared.Main(m, func() error { return goleak.Find() })
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

// sessions is a caller's own pool whose sessions have settings that no URL of ours may
// have: "sql_mode='ANSI'".
func sessions(t testing.TB, url string, settings ...string) *sql.DB {
	t.Helper()
	config, _, _, err := parse(url)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		config.Params[key] = value
	}
	db, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// openOn opens on a pool of the test's.
func openOn(t testing.TB, db *sql.DB) *Engine {
	t.Helper()
	e, err := New(within(t), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// connect is a pool of the test's, for looking at what the engine does.
func connect(t testing.TB, url string) *sql.DB {
	t.Helper()
	return sessions(t, url)
}

var (
	within, until, exclusive = testutil.Within, testutil.Until, testutil.Exclusive
	join, leave, renew       = testutil.Join, testutil.Leave, testutil.Renew
)

var defaults = Options{Prefix: "leasehold_"}

// do runs SQL with the default prefix.
func do(t testing.TB, db *sql.DB, sql string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(within(t), defaults.in(sql), args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// get is one value.
func get[T any](t testing.TB, db *sql.DB, sql string, args ...any) (v T) {
	t.Helper()
	if err := db.QueryRowContext(within(t), defaults.in(sql), args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// kill ends a client as the death of its process would.
func kill(e *Engine) {
	e.client.conns.Close()
	e.client.db.Close()
	e.client.bell.close()
}

// forget empties the tables.
func forget(t testing.TB, db *sql.DB) {
	t.Helper()
	do(t, db, `DELETE FROM @claims`)
	do(t, db, `DELETE FROM @names`)
	do(t, db, `UPDATE @swept SET upto = '', last = 0`)
}

// rows is what this engine has in common with others.
var rows = sqltest.Kit{
	Name: "mysqllock", Open: Open, Database: database, Connect: connect, In: defaults.in, Waiting: waiting,
	More:  func(url, parameter string) string { return url + "?" + parameter },
	Conns: "innodb_lock_wait_timeout=30&max-conns",
	Clock: func(t testing.TB, url string) func(int64) {
		db := connect(t, url)
		setClock(t, db)
		return func(now int64) { do(t, db, `UPDATE test_clock SET t = ?`, now) }
	},
	Binary: `x'ff00c3'`,
	Dial: func(ctx context.Context, url string) (io.Closer, error) {
		config, _, _, err := parse(url)
		if err != nil {
			return nil, err
		}
		c, err := mysql.NewConnector(config)
		if err != nil {
			return nil, err
		}
		return c.Connect(ctx)
	},
	Replace: func(t testing.TB, url, function, old, by string) { replace(t, connect(t, url), function, old, by) },
	Sweep:   func(t testing.TB, url string) { replace(t, connect(t, url), "join", "RAND() < 1 / 16", "TRUE") },
}

func TestConformance(t *testing.T) {
	s := servers.MariaDB(t, nil)
	url := s.URL("", "")
	open(t, url).Close() // makes the tables
	admin := connect(t, url)
	rows.Conformance(t, s.Addr, url, func(_ testing.TB, e engine.Engine) {
		e.(*Engine).client.conns.Close() // else the next call may make a connection, whose greeting is an answer too
	}, enginetest.Harness{
		Polls: true,
		Restart: func(t testing.TB) {
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
		},
		Forget: func(t testing.TB) { forget(t, admin) },
		Kill:   func(_ testing.TB, e engine.Engine) { kill(e.(*Engine)) },
		CountKeys: func(t testing.TB) int {
			// Names go by themselves, a day after they were last used, and what has
			// expired there with them.
			return get[int](t, admin, `SELECT COUNT(*) FROM @claims WHERE deadline > `+clock)
		},
	})
}
