//go:build unix

package stores

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/jackc/pgx/v5"

	"leasehold"
	"leasehold/engine"
	"leasehold/fence"
	"leasehold/fence/fencesql"
	"leasehold/optimistic"
)

func pass(name string, token leasehold.Token, mode engine.Modes) fence.Pass {
	return fence.Pass{Name: name, Token: token, Mode: mode}
}

func nothing(*sql.Tx) error { return nil }

// checks are the ways to check in a transaction of their own.
func checks(t *testing.T, d *database) map[string]func(fence.Pass) error {
	ways := map[string]func(fence.Pass) error{
		"database/sql": func(p fence.Pass) error { return d.dialect.Do(within(t), d.DB, p, nothing) },
	}
	if d.dialect == fencesql.PostgreSQL {
		c, err := pgx.Connect(within(t), d.dsn)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close(context.Background()) })
		ways["pgx"] = func(p fence.Pass) error {
			return pgx.BeginFunc(within(t), c, func(tx pgx.Tx) error { return fencesql.CheckPgx(within(t), tx, p) })
		}
	}
	return ways
}

// TestAsInMemory: whatever comes in whatever order, the table of marks lets in whom
// fence.Memory lets in, with the same marks.
func TestAsInMemory(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		dice := rand.New(rand.NewPCG(seed, 0))
		for way, check := range checks(t, d) {
			model, refused := &fence.Memory{}, 0
			// Names that a collation would make one, and the longest.
			names := []string{"n", "N", "n ", "ñ", "日本", long('x'), long('y')}
			for range 300 {
				p := pass(way+names[dice.IntN(len(names)-2)], leasehold.Token(1805961216000000001+dice.Uint64N(12)),
					[]engine.Modes{engine.Exclusive, engine.Shared, engine.Permits}[dice.IntN(3)])
				if dice.IntN(8) == 0 {
					p.Name = names[len(names)-1-dice.IntN(2)]
				}
				want := model.Do(t.Context(), p, func() error { return nil })
				got := check(p)
				stale, _ := errors.AsType[*fence.StaleError](got)
				wanted, _ := errors.AsType[*fence.StaleError](want)
				switch {
				case wanted != nil && (stale == nil || *stale != *wanted),
					wanted == nil && (got == nil) != (want == nil), errors.Is(got, fence.ErrPass) != errors.Is(want, fence.ErrPass):
					t.Fatalf("%s: %+v: %v, want %v", way, p, got, want)
				}
				if wanted != nil {
					refused++
				}
			}
			if refused < 30 {
				t.Errorf("%s: only %d were refused: this shows nothing", way, refused)
			}
			d.exec(t, "DELETE FROM leasehold_marks")
		}
	})
}

// long is a name of engine.MaxName bytes.
func long(b byte) string {
	name := make([]byte, engine.MaxName)
	for i := range name {
		name[i] = b
	}
	return string(name)
}

// TestALetInWriteComesBeforeANewerOne: who was let in and is slow has written before a
// newer token is let in, which then reads what was written. Also the very first time,
// when there is no mark to lock; and behind a reader, who sees no write of a newer one.
func TestALetInWriteComesBeforeANewerOne(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		for why, first := range map[string]fence.Pass{
			"first": pass("first", 1, engine.Exclusive), "first reader": pass("first reader", 1, engine.Shared),
			"seen": pass("seen", 2, engine.Exclusive), "seen by a reader": pass("seen by a reader", 2, engine.Shared),
		} {
			if first.Token == 2 {
				if err := d.dialect.Do(within(t), d.DB, pass(first.Name, 1, engine.Exclusive), nothing); err != nil {
					t.Fatal(err)
				}
			}
			d.exec(t, "UPDATE stock SET n = 100 WHERE id = 42")
			old := d.begin(t)
			if err := d.dialect.Check(within(t), old, first); err != nil {
				t.Fatalf("%s: %v", why, err)
			}
			read, done := 0, make(chan struct{})
			go func() {
				defer close(done)
				err := d.dialect.Do(within(t), d.DB, pass(first.Name, 3, engine.Exclusive), func(tx *sql.Tx) error {
					return tx.QueryRowContext(within(t), "SELECT n FROM stock WHERE id = 42").Scan(&read)
				})
				if err != nil {
					t.Errorf("%s: the newer one: %v", why, err)
				}
			}()
			waited := d.blocked(t, done)
			if _, err := old.ExecContext(within(t), "UPDATE stock SET n = 99 WHERE id = 42"); err != nil {
				t.Fatalf("%s: %v", why, err)
			}
			if err := old.Commit(); err != nil {
				t.Fatalf("%s: %v", why, err)
			}
			<-done
			if !waited || read != 99 {
				t.Errorf("%s: the newer one waited: %v, and read %d, not what was written before", why, waited, read)
			}
			if err := d.dialect.Do(within(t), d.DB, first, nothing); !errors.Is(err, fence.ErrStale) {
				t.Errorf("%s: afterwards: %v", why, err)
			}
		}
	})
}

// TestACheckSeesPastTheSnapshot: the transaction has read something, then a newer token is
// let in elsewhere. What the transaction read before does not show it.
func TestACheckSeesPastTheSnapshot(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
			for _, mode := range []engine.Modes{engine.Exclusive, engine.Shared} {
				n := "n, " + level.String() + ", " + mode.String()
				if err := d.dialect.Do(within(t), d.DB, pass(n, 1, engine.Exclusive), nothing); err != nil {
					t.Fatal(err)
				}
				tx, err := d.BeginTx(within(t), &sql.TxOptions{Isolation: level})
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				for _, table := range []string{"stock", "leasehold_marks"} {
					var rows int
					if err := tx.QueryRowContext(within(t), "SELECT count(*) FROM "+table).Scan(&rows); err != nil {
						t.Fatal(err)
					}
				}
				if err := d.dialect.Do(within(t), d.DB, pass(n, 3, engine.Exclusive), nothing); err != nil {
					t.Fatal(err)
				}
				err = d.dialect.Check(within(t), tx, pass(n, 2, mode))
				serialization := d.dialect == fencesql.PostgreSQL && level == sql.LevelRepeatableRead
				if serialization != optimistic.Serialization(err) || !serialization && !errors.Is(err, fence.ErrStale) {
					t.Errorf("%s: %v", n, err)
				}
			}
		}
	})
}

// TestReadersCheckTogether: a reader's transaction does not keep out another reader.
func TestReadersCheckTogether(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		if err := d.dialect.Do(within(t), d.DB, pass("n", 1, engine.Exclusive), nothing); err != nil {
			t.Fatal(err)
		}
		one, two := d.begin(t), d.begin(t)
		for _, tx := range []*sql.Tx{one, two} { // the second would wait for the first until the test's bound
			if err := d.dialect.Check(within(t), tx, pass("n", 2, engine.Shared)); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestWhatIsRolledBackRaisesNoMark(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		full := errors.New("full")
		err := d.dialect.Do(within(t), d.DB, pass("n", 9, engine.Exclusive), func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(within(t), "UPDATE stock SET n = 1 WHERE id = 42"); err != nil {
				t.Error(err)
			}
			return full
		})
		if err != full || d.pieces(t) != 100 {
			t.Fatalf("%v, %d pieces", err, d.pieces(t))
		}
		if err := d.dialect.Do(within(t), d.DB, pass("n", 8, engine.Exclusive), nothing); err != nil {
			t.Errorf("nobody had written: %v", err)
		}
	})
}

// TestColumn is the one-line form of the package documentation.
func TestColumn(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		const big = 1805961216000000001
		for _, step := range []struct {
			why   string
			token leasehold.Token
			n     int
			stale bool
		}{
			{"the first", big, 90, false},
			{"the same again, which changes no row in MySQL", big, 90, false},
			{"the next", big + 36, 80, false},
			{"the first, late", big, 89, true},
			{"the next goes on", big + 36, 79, false},
		} {
			before := d.pieces(t)
			err := column(within(t), d.DB, d.text, step.n, pass("stock:42", step.token, engine.Exclusive))
			if errors.Is(err, fence.ErrStale) != step.stale || !step.stale && err != nil {
				t.Fatalf("%s: %v", step.why, err)
			}
			if stale, ok := errors.AsType[*fence.StaleError](err); ok && (stale.Mark != big+36 || stale.Token != big) {
				t.Errorf("%s: %+v", step.why, stale)
			}
			want := step.n
			if step.stale {
				want = before
			}
			if n := d.pieces(t); n != want {
				t.Fatalf("%s: %d pieces", step.why, n)
			}
		}
	})
}

// TestErrorsOfTheDatabaseAreNotStale: without the table nobody is let in.
func TestErrorsOfTheDatabaseAreNotStale(t *testing.T) {
	onEach(t, func(t *testing.T, d *database) {
		d.exec(t, "DROP TABLE leasehold_marks")
		for _, mode := range []engine.Modes{engine.Exclusive, engine.Shared} {
			err := d.dialect.Do(within(t), d.DB, pass("n", 1, mode), func(*sql.Tx) error { t.Error("let in"); return nil })
			if err == nil || errors.Is(err, fence.ErrStale) {
				t.Error(err)
			}
		}
		if err := fencesql.Dialect(0).Do(within(t), d.DB, pass("n", 1, engine.Exclusive), nothing); err == nil {
			t.Error("no dialect is one")
		}
	})
}
