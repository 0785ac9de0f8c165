//go:build unix

package stores

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/fence/fencesql"
	"leasehold/optimistic"
)

type pieces struct{ n, version int64 }

// querier is *sql.DB or *sql.Tx.
type querier interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
	ExecContext(context.Context, string, ...any) (sql.Result, error)
}

func (d *database) row(q querier) optimistic.Row[pieces] {
	read, write := "SELECT n, version FROM stock WHERE id = 42",
		d.text("UPDATE stock SET n = $1, version = version + 1 WHERE id = 42 AND version = $2")
	return optimistic.Row[pieces]{
		Read: func(ctx context.Context) (p pieces, err error) {
			return p, q.QueryRowContext(ctx, read).Scan(&p.n, &p.version)
		},
		Write: func(ctx context.Context, old, next pieces) (bool, error) {
			return optimistic.Changed(q.ExecContext(ctx, write, next.n, old.version))
		},
	}
}

func pgxRow(pool *pgxpool.Pool) optimistic.Row[pieces] {
	return optimistic.Row[pieces]{
		Read: func(ctx context.Context) (p pieces, err error) {
			return p, pool.QueryRow(ctx, "SELECT n, version FROM stock WHERE id = 42").Scan(&p.n, &p.version)
		},
		Write: func(ctx context.Context, old, next pieces) (bool, error) {
			return optimistic.ChangedPgx(pool.Exec(ctx, "UPDATE stock SET n = $1, version = version + 1 WHERE id = 42 AND version = $2", next.n, old.version))
		},
	}
}

var errSoldOut = errors.New("sold out")

func take(p pieces) (pieces, error) {
	if p.n == 0 {
		return p, errSoldOut
	}
	p.n--
	return p, nil
}

// races is how many there are at most until two writers meet: on a busy machine each may come
// alone.
const races = 20

// race has 8 writers sell until sell says that nothing is left, and returns how many
// were sold.
func race(t *testing.T, sell func() (sold bool, err error)) (sold int64) {
	t.Helper()
	var n atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				ok, err := sell()
				if err != nil {
					t.Error(err)
					return
				}
				if !ok {
					return
				}
				n.Add(1)
			}
		})
	}
	wg.Wait()
	return n.Load()
}

// TestSoldOutExactly, by version and by one statement; and oversold by neither, which
// shows that the race is one.
func TestSoldOutExactly(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		rows := map[string]optimistic.Row[pieces]{"database/sql": d.row(d.DB)}
		if d.dialect == fencesql.PostgreSQL {
			pool, err := pgxpool.New(t.Context(), d.dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			rows["pgx"] = pgxRow(pool)
		}
		for driver, row := range rows {
			var conflicts int64
			for range races {
				d.exec(t, "UPDATE stock SET n = 100 WHERE id = 42")
				var stats optimistic.Stats
				o := &optimistic.Options{Attempts: 1000, Stats: &stats}
				sold := race(t, func() (bool, error) {
					_, err := optimistic.Update(within(t), o, row, take)
					if errors.Is(err, errSoldOut) {
						return false, nil
					}
					return true, err
				})
				t.Logf("%s: %d sold with %d conflicts", driver, sold, stats.Conflicts())
				if sold != 100 || d.pieces(t) != 0 || stats.Updates() != 100 {
					t.Errorf("%s: %d sold of 100, %d left", driver, sold, d.pieces(t))
				}
				if conflicts = stats.Conflicts(); conflicts > 0 {
					break
				}
			}
			if conflicts == 0 {
				t.Errorf("%s: no conflict: this shows nothing", driver)
			}
		}

		d.exec(t, "UPDATE stock SET n = 100 WHERE id = 42")
		sold := race(t, func() (bool, error) {
			return optimistic.Changed(d.ExecContext(within(t), "UPDATE stock SET n = n - 1 WHERE id = 42 AND n > 0"))
		})
		if sold != 100 || d.pieces(t) != 0 {
			t.Errorf("one statement: %d sold of 100, %d left", sold, d.pieces(t))
		}

		for range races {
			d.exec(t, "UPDATE stock SET n = 100 WHERE id = 42")
			sold = race(t, func() (bool, error) {
				n := d.pieces(t)
				if n <= 0 {
					return false, nil
				}
				return optimistic.Changed(d.ExecContext(within(t), d.text("UPDATE stock SET n = $1, version = version + 1 WHERE id = 42"), n-1))
			})
			t.Logf("read and write without a condition: %d sold of 100", sold)
			if sold > 100 {
				break
			}
		}
		if sold <= 100 {
			t.Error("not oversold: these writers do not race")
		}
	})
}

// TestOneTransactionAroundAllAttempts is what the package documentation warns of: at
// repeatable read it reads the same snapshot for ever.
func TestOneTransactionAroundAllAttempts(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		tx, err := d.BeginTx(within(t), &sql.TxOptions{Isolation: sql.LevelRepeatableRead})
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		row := d.row(tx)
		if _, err := row.Read(within(t)); err != nil {
			t.Fatal(err)
		}
		d.exec(t, "UPDATE stock SET version = version + 1 WHERE id = 42")
		o := &optimistic.Options{Attempts: 5, Pause: time.Microsecond}
		_, err = optimistic.Update(within(t), o, row, take)
		t.Log(err)
		if err == nil {
			t.Error("written over what it never read")
		}
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
		if _, err := optimistic.Update(within(t), o, d.row(d.DB), take); err != nil {
			t.Errorf("without the transaction: %v", err)
		}
	})
}

// TestDeadlocksAreConflicts: two transactions that lock two rows crosswise; the database
// ends one, and that one begins again.
func TestDeadlocksAreConflicts(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec(t, "INSERT INTO stock (id, n) VALUES (7, 100)")
		conflict := optimistic.Serialization
		if d.dialect == fencesql.MySQL {
			conflict = func(err error) bool { // as the documentation of Serialization has it
				my, ok := errors.AsType[*mysql.MySQLError](err)
				return ok && (my.Number == 1213 || my.Number == 1020)
			}
		}
		var stats optimistic.Stats
		var meet, wg sync.WaitGroup
		meet.Add(2) // both have locked one row before either locks the other
		both := func(first, second int) {
			met := false
			row := optimistic.Row[int]{
				Read: func(context.Context) (int, error) { return 0, nil },
				Write: func(ctx context.Context, _, _ int) (_ bool, err error) {
					tx := d.begin(t)
					defer tx.Rollback()
					for _, id := range []int{first, second} {
						if _, err := tx.ExecContext(ctx, d.text("UPDATE stock SET n = n - 1 WHERE id = $1"), id); err != nil {
							return false, err
						}
						if !met {
							met = true
							meet.Done()
							meet.Wait()
						}
					}
					return true, tx.Commit()
				},
			}
			o := &optimistic.Options{Conflict: conflict, Stats: &stats}
			if _, err := optimistic.Update(within(t), o, row, func(n int) (int, error) { return n, nil }); err != nil {
				t.Error(err)
			}
		}
		wg.Go(func() { both(42, 7) })
		wg.Go(func() { both(7, 42) })
		wg.Wait()
		if n := d.pieces(t); n != 98 || stats.Conflicts() == 0 {
			t.Errorf("%d pieces, %d conflicts", n, stats.Conflicts())
		}
	})
}
