package migratelock

import (
	"crypto/rand"
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/mysql"
	pgx "github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"leasehold"
	"leasehold/engine/redis"
	"leasehold/lab/servers"
)

// five has five clients migrate one database at once, and checks that one of them did it all.
func five(t *testing.T, driver, dsn string, instance func(db *sql.DB) (database.Driver, error)) {
	t.Helper()
	url := "redis://" + servers.Redis(t, nil).Addr
	results := make([]error, 5)
	var all sync.WaitGroup
	for i := range results {
		all.Go(func() {
			results[i] = func() error {
				eng, err := redis.Open(t.Context(), url)
				if err != nil {
					return err
				}
				locks, err := leasehold.New(eng, &leasehold.Options{TTL: 10 * time.Second})
				if err != nil {
					return err
				}
				defer locks.Close()
				db, err := sql.Open(driver, dsn)
				if err != nil {
					return err
				}
				defer db.Close()
				making, err := locks.Lock(t.Context(), "migrate") // WithInstance makes a table
				if err != nil {
					return err
				}
				inner, err := instance(db)
				if err := errors.Join(err, making.Unlock()); err != nil {
					return err
				}
				d, err := New(inner, locks, "migrate", nil)
				if err != nil {
					return err
				}
				defer d.Close()
				return d.Do(t.Context(), migrator(t, d).Up)
			}()
		})
	}
	all.Wait()
	did := 0
	for _, err := range results {
		switch {
		case err == nil:
			did++
		case !errors.Is(err, migrate.ErrNoChange):
			t.Error(err)
		}
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var rows int
	if err := db.QueryRow("SELECT COUNT(*) FROM applied").Scan(&rows); err != nil || rows != 2 || did != 1 {
		t.Errorf("%d clients migrated, %d rows, %v; want one and 2 rows", did, rows, err)
	}
}

func TestOneOfFiveMigratesThroughPgBouncerInTransactionMode(t *testing.T) {
	b := servers.PgBouncer(t, servers.Postgres(t, nil), "transaction")
	five(t, "pgx", "postgres://postgres@"+b.Addr+"/postgres?sslmode=disable&default_query_exec_mode=simple_protocol",
		func(db *sql.DB) (database.Driver, error) {
			return pgx.WithInstance(db, &pgx.Config{DatabaseName: rand.Text()})
		})
}

func TestOneOfFiveMigratesMariaDB(t *testing.T) {
	c := mysqldriver.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.MultiStatements = "root", "tcp", servers.MariaDB(t, nil).Addr, "test", true
	five(t, "mysql", c.FormatDSN(), func(db *sql.DB) (database.Driver, error) {
		return mysql.WithInstance(db, &mysql.Config{NoLock: true})
	})
}
