//go:build unix

package stores

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"leasehold/fence/fencesql"
	"leasehold/lab/servers"
)

// TestMain lets the test binary be a holder that is stopped, and ends the servers that
// tests share.
func TestMain(m *testing.M) {
	if kind := os.Getenv(holderKind); kind != "" {
		holder(kind)
		return
	}
	code := m.Run()
	for _, s := range shared.running {
		s.Close()
	}
	os.Exit(code)
}

// shared are the servers that all tests use, each test a database of its own, since
// making one takes seconds.
var shared struct {
	sync.Mutex
	running  []interface{ Close() error }
	postgres *servers.PostgresServer
	mariadb  *servers.MariaDBServer
}

func postgres(t *testing.T) *servers.PostgresServer {
	t.Helper()
	servers.Need(t, "postgres", "initdb", "psql")
	shared.Lock()
	defer shared.Unlock()
	if shared.postgres == nil {
		s, err := servers.StartPostgres(&servers.PostgresOptions{Args: []string{"-c", "fsync=off"}})
		if err != nil {
			t.Fatal(err)
		}
		shared.postgres, shared.running = s, append(shared.running, s)
	}
	return shared.postgres
}

func mariadb(t *testing.T) *servers.MariaDBServer {
	t.Helper()
	servers.Need(t, "mariadbd", "mariadb-install-db", "mariadb")
	shared.Lock()
	defer shared.Unlock()
	if shared.mariadb == nil {
		s, err := servers.StartMariaDB(&servers.MariaDBOptions{Args: []string{"--innodb-flush-log-at-trx-commit=0"}})
		if err != nil {
			t.Fatal(err)
		}
		shared.mariadb, shared.running = s, append(shared.running, s)
	}
	return shared.mariadb
}

// database is one database with the tables of the tests.
type database struct {
	*sql.DB
	driver, dsn string
	dialect     fencesql.Dialect
	waiting     string // a query: how many transactions wait for a row
}

// stock is the table of the tests: pieces, a version and a fence, in row 42.
const stock = `CREATE TABLE stock (id INT PRIMARY KEY, n INT NOT NULL, version BIGINT NOT NULL DEFAULT 0, fence BIGINT NOT NULL DEFAULT 0)`

func newPostgres(t *testing.T) *database {
	t.Helper()
	s := postgres(t)
	name := named(t, s.Query)
	return newDatabase(t, &database{driver: "pgx", dsn: s.URL("", name), dialect: fencesql.PostgreSQL,
		waiting: "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"})
}

func newMariaDB(t *testing.T) *database {
	t.Helper()
	s := mariadb(t)
	name := named(t, s.Query)
	return newDatabase(t, &database{driver: "mysql", dsn: "root@tcp(" + s.Addr + ")/" + name, dialect: fencesql.MySQL,
		waiting: "SELECT count(*) FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id " +
			"WHERE t.trx_state = 'LOCK WAIT' AND p.db = database()"})
}

var numbered struct {
	sync.Mutex
	n int
}

// named makes a database and returns its name.
func named(t *testing.T, query func(string) (string, error)) string {
	t.Helper()
	numbered.Lock()
	defer numbered.Unlock()
	numbered.n++
	name := "test" + string(rune('a'+numbered.n/26)) + string(rune('a'+numbered.n%26))
	if _, err := query("CREATE DATABASE " + name); err != nil {
		t.Fatal(err)
	}
	return name
}

func newDatabase(t *testing.T, d *database) *database {
	t.Helper()
	var err error
	if d.DB, err = sql.Open(d.driver, d.dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	for _, statement := range []string{d.dialect.Schema(), d.dialect.Schema(), stock, "INSERT INTO stock (id, n) VALUES (42, 100)"} {
		d.exec(t, statement)
	}
	return d
}

func (d *database) exec(t *testing.T, query string, args ...any) {
	t.Helper()
	if _, err := d.ExecContext(within(t), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func (d *database) pieces(t *testing.T) (n int) {
	t.Helper()
	if err := d.QueryRowContext(within(t), "SELECT n FROM stock WHERE id = 42").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func (d *database) begin(t *testing.T) *sql.Tx {
	t.Helper()
	tx, err := d.BeginTx(within(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// blocked returns when a transaction waits for a row, with true, or when done is closed.
func (d *database) blocked(t *testing.T, done <-chan struct{}) bool {
	t.Helper()
	for {
		// MariaDB shows what it remembers to who asks again within 100 ms.
		time.Sleep(150 * time.Millisecond)
		var n int
		if err := d.QueryRowContext(within(t), d.waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return true
		}
		select {
		case <-done:
			return false
		default:
		}
	}
}

// text is a query with the dialect's placeholders for $1, $2, ... which must be in order.
func (d *database) text(query string) string {
	if d.dialect == fencesql.PostgreSQL {
		return query
	}
	var b []byte
	for i := 0; i < len(query); i++ {
		b = append(b, query[i])
		if query[i] == '$' {
			b[len(b)-1] = '?'
			i++
		}
	}
	return string(b)
}

// onEach runs a test on each database.
func onEach(t *testing.T, test func(t *testing.T, d *database)) {
	for name, open := range map[string]func(*testing.T) *database{"postgres": newPostgres, "mariadb": newMariaDB} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// within bounds one call of a test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Second, errors.New("the test's bound of 20 s"))
	t.Cleanup(cancel)
	return ctx
}
