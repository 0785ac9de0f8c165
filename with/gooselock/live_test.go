package gooselock_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock/locktesting"
	"go.uber.org/goleak"
	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/engine/redis"
	"leasehold/internal/child"
	"leasehold/lab/servers"
	"leasehold/with/gooselock"
)

const role = "GOOSELOCK_TEST_CHILD" // "dialect dsn engine pause how"

// How a process migrates.
const (
	byLocker   = "locker"   // Locker.Up
	byProvider = "provider" // Provider.Up, with the Locker as goose.WithLocker
	byBoth     = "both"     // Locker.Up of such a Provider
)

func TestMain(m *testing.M) {
	if os.Getenv(role) != "" {
		if err := migrator(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// migrator is one process that migrates when it starts. It prints "inside" in the second
// migration, and goes on when it is told or its context ends.
func migrator(ctx context.Context) error {
	f := strings.Fields(os.Getenv(role))
	db, err := sql.Open(driver(f[0]), f[1])
	if err != nil {
		return err
	}
	defer db.Close()
	locker, done, err := newLocker(ctx, f[2], f[0])
	if err != nil {
		return err
	}
	defer done()
	pause := func(ctx context.Context) error {
		if f[3] != "pause" {
			return nil
		}
		fmt.Println("inside")
		told := make(chan struct{})
		go func() {
			bufio.NewReader(os.Stdin).ReadString('\n')
			close(told)
		}()
		select {
		case <-told:
		case <-ctx.Done():
		}
		fmt.Println("cause", context.Cause(ctx))
		return nil // the next statement must fail by itself
	}
	var o []goose.ProviderOption
	if f[4] != byLocker {
		o = append(o, goose.WithLocker(locker))
	}
	p, err := provider(f[0], db, pause, o...)
	if err != nil {
		return err
	}
	up := locker.Up
	if f[4] == byProvider {
		up = func(ctx context.Context, p *goose.Provider) ([]*goose.MigrationResult, error) { return p.Up(ctx) }
	}
	results, err := up(ctx, p)
	fmt.Println("applied", len(results), errors.Is(err, leasehold.ErrLost))
	return nil
}

func driver(dialect string) string {
	if dialect == "postgres" {
		return "pgx"
	}
	return dialect
}

// nameOf keeps tests apart that run on two databases beside each other.
func nameOf(dialect string) string { return "migrate:" + dialect }

func newLocker(ctx context.Context, url, dialect string) (*gooselock.Locker, func(), error) {
	eng, err := redis.Open(ctx, url)
	if err != nil {
		return nil, nil, err
	}
	locks, err := leasehold.New(eng, &leasehold.Options{TTL: 6 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	locker, err := gooselock.New(locks, nameOf(dialect), gooselock.Options{})
	return locker, func() { locks.Close() }, err
}

// provider has three migrations: a table, a row after a pause, and one more row.
func provider(dialect string, db *sql.DB, pause func(context.Context) error, o ...goose.ProviderOption) (*goose.Provider, error) {
	step := func(sql string, pause func(context.Context) error) *goose.GoFunc {
		return &goose.GoFunc{RunTx: func(ctx context.Context, tx *sqlTx) error {
			if pause != nil {
				if err := pause(ctx); err != nil {
					return err
				}
			}
			_, err := tx.ExecContext(ctx, sql)
			return err
		}}
	}
	o = append(o, goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()), goose.WithGoMigrations(
		goose.NewGoMigration(1, step("CREATE TABLE IF NOT EXISTS applied (version INT)", nil), nil),
		goose.NewGoMigration(2, step("INSERT INTO applied VALUES (2)", pause), nil),
		goose.NewGoMigration(3, step("INSERT INTO applied VALUES (3)", nil), nil),
	))
	return goose.NewProvider(goose.Dialect(dialect), db, nil, o...)
}

type sqlTx = sql.Tx

// databases runs a test on each database of its own. In a short run PostgreSQL stands for both.
func databases(t *testing.T, f func(t *testing.T, dialect, dsn string)) {
	if !testing.Short() {
		t.Run("MariaDB", func(t *testing.T) {
			t.Parallel()
			f(t, "mysql", mysqlDSN(servers.MariaDB(t, nil)))
		})
	}
	t.Run("PostgreSQL", func(t *testing.T) {
		t.Parallel()
		f(t, "postgres", servers.Postgres(t, nil).URL("", ""))
	})
}

func mysqlDSN(s *servers.MariaDBServer) string {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.ParseTime = "root", "tcp", s.Addr, "test", true
	return c.FormatDSN()
}

func TestGoosesOwnTestOfLockersPasses(t *testing.T) {
	t.Parallel()
	engine := "redis://" + servers.Redis(t, nil).Addr
	databases(t, func(t *testing.T, dialect, dsn string) {
		for how, option := range map[string]func(*gooselock.Locker) goose.ProviderOption{
			"locker":  func(l *gooselock.Locker) goose.ProviderOption { return goose.WithLocker(l) },
			"session": func(l *gooselock.Locker) goose.ProviderOption { return goose.WithSessionLocker(l) },
		} {
			anew(t, dialect, dsn, how, func(t *testing.T, dsn string) {
				locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
					db, err := sql.Open(driver(dialect), dsn)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { db.Close() })
					locker, done, err := newLocker(t.Context(), engine, dialect)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(done)
					p, err := provider(dialect, db, nil, option(locker))
					if err != nil {
						t.Fatal(err)
					}
					// MySQL commits goose's new table before its first row, and Provider.Up
					// looks there before it locks (package documentation): under the lock
					// goose makes both.
					if _, err := p.GetDBVersion(t.Context()); err != nil {
						t.Fatal(err)
					}
					return p
				})
				once(t, dialect, dsn)
			})
		}
	})
}

// anew runs a test on a new database of the server.
func anew(t *testing.T, dialect, dsn, name string, f func(t *testing.T, dsn string)) {
	db, err := sql.Open(driver(dialect), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE DATABASE made_" + name); err != nil {
		t.Fatal(err)
	}
	if dialect == "postgres" {
		dsn = strings.Replace(dsn, "/postgres?", "/made_"+name+"?", 1)
	} else {
		c, err := mysql.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		c.DBName = "made_" + name
		dsn = c.FormatDSN()
	}
	t.Run(name, func(t *testing.T) { f(t, dsn) })
}

// once checks that each migration was applied, and recorded, exactly once.
func once(t *testing.T, dialect, dsn string) {
	t.Helper()
	db, err := sql.Open(driver(dialect), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for query, want := range map[string]int{
		"SELECT COUNT(*) FROM applied WHERE version = 2":                                    1,
		"SELECT COUNT(*) FROM applied WHERE version = 3":                                    1,
		"SELECT COUNT(*) FROM " + goose.DefaultTablename + " WHERE version_id IN (1, 2, 3)": 3,
	} {
		var n int
		if err := db.QueryRow(query).Scan(&n); err != nil || n != want {
			t.Errorf("%s: %d, %v; want %d", query, n, err, want)
		}
	}
}

// process is one migrator, and what it said.
type process struct {
	*child.Process
	mu     sync.Mutex
	said   []string
	inside chan struct{}
}

func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{inside: make(chan struct{})}
	var err error
	p.Process, err = child.Start(nil, []string{role + "=" + strings.Join(args, " ")}, func(line string) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.said = append(p.said, line)
		if line == "inside" {
			close(p.inside)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	return p
}

func (p *process) waitInside(t *testing.T) {
	t.Helper()
	select {
	case <-p.inside:
	case <-p.Ended():
		t.Fatalf("ended before its migration: %v %q", p.Wait(), p.said)
	case <-time.After(30 * time.Second):
		t.Fatal("never came to its migration")
	}
}

// end waits for the end, and returns the last line: what was applied.
func (p *process) end(t *testing.T) string {
	t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(40 * time.Second):
		t.Fatal("did not end")
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return p.said[len(p.said)-1]
}

func TestOfFiveProcessesOneMigratesAlsoWhenTheFirstIsKilled(t *testing.T) {
	t.Parallel()
	engine := "redis://" + servers.Redis(t, nil).Addr
	databases(t, func(t *testing.T, dialect, dsn string) {
		for _, how := range []string{byLocker, byProvider} {
			anew(t, dialect, dsn, how, func(t *testing.T, dsn string) {
				first := start(t, dialect, dsn, engine, "pause", how)
				first.waitInside(t)
				var others []*process
				for range 4 {
					others = append(others, start(t, dialect, dsn, engine, "go", how))
				}
				first.Kill()
				all := map[string]int{}
				for _, p := range others {
					all[p.end(t)]++
				}
				if all["applied 2 false"] != 1 || all["applied 0 false"] != 3 {
					t.Errorf("the others: %v; want one that applied two migrations and three that applied none", all)
				}
				once(t, dialect, dsn)
			})
		}
	})
}

func TestAStoppedMigrationEndsWithItsLease(t *testing.T) {
	t.Parallel()
	engine := "redis://" + servers.Redis(t, nil).Addr
	databases(t, func(t *testing.T, dialect, dsn string) {
		first := start(t, dialect, dsn, engine, "pause", byLocker)
		first.waitInside(t)
		if err := first.Halt(); err != nil {
			t.Fatal(err)
		}
		if got := start(t, dialect, dsn, engine, "go", byLocker).end(t); got != "applied 2 false" {
			t.Errorf("the next one: %q; want 2 migrations applied", got)
		}
		if err := first.Proceed(); err != nil {
			t.Fatal(err)
		}
		if got := first.end(t); got != "applied 0 true" {
			t.Errorf("the stopped one: %q %q; want nothing applied, and a loss", got, first.said)
		}
		once(t, dialect, dsn)
	})
}

func TestALostEngineCancelsTheMigrationBeforeTheNextOneBegins(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, nil)
	databases(t, func(t *testing.T, dialect, dsn string) {
		for _, how := range []string{byLocker, byBoth} {
			anew(t, dialect, dsn, how, func(t *testing.T, dsn string) {
				proxy := servers.ProxyTo(t, server.Addr)
				first := start(t, dialect, dsn, "redis://"+proxy.Addr, "pause", how)
				first.waitInside(t)
				next := start(t, dialect, dsn, "redis://"+server.Addr, "pause", how)
				cut(proxy)
				if got := first.end(t); got != "applied 0 true" {
					t.Errorf("who lost the engine: %q %q; want nothing applied, and a loss", got, first.said)
				}
				next.waitInside(t)
				if err := next.Say("go on"); err != nil {
					t.Fatal(err)
				}
				if got := next.end(t); got != "applied 2 false" {
					t.Errorf("the next one: %q; want 2 migrations applied", got)
				}
				once(t, dialect, dsn)
			})
		}
	})
}

func cut(p *servers.Proxy) {
	p.Refuse(true)
	p.Reset()
}

// goose keeps the mutex of a Provider while that waits for its locker.
func TestACallOfTheProviderDoesNotKeepUpWaiting(t *testing.T) {
	t.Parallel()
	db, err := sql.Open(driver("postgres"), servers.Postgres(t, nil).URL("", ""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	locks, locker := inMemory(t, memlock.NewStore(nil))
	p, err := provider("postgres", db, nil, goose.WithLocker(locker))
	if err != nil {
		t.Fatal(err)
	}
	waits := func(n int) {
		for locks.Stats().Waiting < n {
			time.Sleep(time.Millisecond)
		}
	}
	other, err := locks.Lock(t.Context(), "migrate")
	if err != nil {
		t.Fatal(err)
	}
	var applied []*goose.MigrationResult
	up, asked := make(chan error, 1), make(chan error, 1)
	go func() {
		var err error
		applied, err = locker.Up(t.Context(), p)
		up <- err
	}()
	waits(1)
	go func() {
		_, err := p.Status(t.Context())
		asked <- err
	}()
	waits(2)
	if err := other.Unlock(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-up:
		if err != nil || len(applied) != 3 {
			t.Errorf("%d migrations applied, %v; want 3", len(applied), err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("Up waits for the Provider, which waits for the lease of Up")
	}
	if err := <-asked; !errors.Is(err, leasehold.ErrHeld) {
		t.Errorf("Status: %v; want ErrHeld", err)
	}
	if _, err := p.Status(t.Context()); err != nil {
		t.Errorf("Status after Up: %v", err)
	}
}

// goose cannot be told of a loss (the package's documentation): its migration goes on beside
// whoever holds the name then, and only the end of the Provider's call tells.
func TestALossUnderWithLockerIsToldWhenTheMigrationsHaveEnded(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, nil)
	databases(t, func(t *testing.T, dialect, dsn string) {
		locks := client(t, "redis://"+server.Addr)
		proxy := servers.ProxyTo(t, server.Addr)
		first := start(t, dialect, dsn, "redis://"+proxy.Addr, "pause", byProvider)
		first.waitInside(t)
		cut(proxy)
		lease, err := locks.Lock(t.Context(), nameOf(dialect))
		if err != nil {
			t.Fatal(err)
		}
		if err := first.Say("go on"); err != nil {
			t.Fatal(err)
		}
		if got := first.end(t); got != "applied 3 true" {
			t.Errorf("who lost the engine: %q %q; want three migrations applied, and a loss", got, first.said)
		}
		if err := lease.Unlock(); err != nil {
			t.Errorf("the lease beside it: %v", err)
		}
		if got := start(t, dialect, dsn, "redis://"+server.Addr, "go", byProvider).end(t); got != "applied 0 false" {
			t.Errorf("the next one: %q; want nothing left to apply", got)
		}
		once(t, dialect, dsn)
	})
}

func client(t *testing.T, url string) *leasehold.Client {
	t.Helper()
	eng, err := redis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	locks, err := leasehold.New(eng, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}
