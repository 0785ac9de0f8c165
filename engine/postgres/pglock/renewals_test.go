package pglock

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
)

// stage is a name with a holder and one who waits, and a clock that the test moves.
type stage struct {
	*testing.T
	e               *Engine
	pool            *pgxpool.Pool
	holder, waiting engine.Claim
}

func newStage(t *testing.T, holder time.Duration) *stage {
	t.Helper()
	url := database(t)
	s := &stage{T: t, e: open(t, url), pool: connect(t, url)}
	setClock(t, s.pool)
	r := exclusive("a")
	r.WaitTTL = holder
	s.holder = join(t, s.e, r)
	r = exclusive("a")
	r.WaitTTL = time.Minute
	s.waiting = join(t, s.e, r)
	return s
}

func (s *stage) move(by time.Duration) {
	s.Helper()
	do(s, s.pool, `UPDATE test_clock SET t = t + $1`, by.Microseconds())
}

// begin is a transaction of somebody else's, with what it has done so far.
func (s *stage) begin(sql ...string) pgx.Tx {
	s.Helper()
	tx, err := s.pool.Begin(within(s))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { tx.Rollback(context.Background()) })
	for _, text := range sql {
		if _, err := tx.Exec(within(s), defaults.in(text)); err != nil {
			s.Fatal(err)
		}
	}
	return tx
}

// A renewal does without the lock of the name while nothing has expired, and goes
// through it as soon as something may have.
func TestARenewalLocksTheNameWhenSomethingMayHaveExpired(t *testing.T) {
	t.Parallel()
	t.Run("nothing has: it waits for nobody who has the name", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, time.Minute)
		s.begin(`SELECT FROM @names FOR UPDATE`)
		for want, c := range map[engine.State]engine.Claim{engine.Held: s.holder, engine.Waiting: s.waiting} {
			if got := renew(s, s.e, c, time.Minute); got.State != want || got.Contended != (want == engine.Held) {
				t.Errorf("%v, contended: %v", got.State, got.Contended)
			}
		}
	})
	t.Run("the holder has: who waits holds", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, 100*time.Millisecond)
		s.move(150 * time.Millisecond)
		if got := renew(t, s.e, s.waiting, time.Minute); got.State != engine.Held {
			t.Errorf("%v", got.State)
		}
	})
	t.Run("the clock stepped back: nobody stays for longer than asked", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, time.Minute)
		s.move(-10 * time.Second)
		renew(t, s.e, s.waiting, time.Minute)
		if over := get[int64](t, s.pool, `SELECT max(deadline - asked) - @clock() FROM @claims`); over > 0 {
			t.Errorf("a deadline is %v further ahead than asked", sqllock.Micros(over))
		}
	})
	t.Run("the row is old: it is written, or sweep would find it unused", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, time.Minute)
		for range 5 {
			s.move(600 * time.Millisecond)
			renew(t, s.e, s.waiting, time.Minute)
		}
		if age := get[int64](t, s.pool, `SELECT @clock() - max(seen) FROM @names`); age > 1e6 {
			t.Errorf("written %v ago", sqllock.Micros(age))
		}
	})
	t.Run("two claims of one name: two calls could wait for each other", func(t *testing.T) {
		t.Parallel()
		s := newStage(t, time.Minute)
		tx := s.begin(`SELECT FROM @names FOR UPDATE`)
		done := make(chan error, 1)
		ctx := within(t)
		go func() {
			_, err := s.e.Renew(ctx, []engine.Renewal{{Name: "a", ID: s.waiting.ID, Want: time.Minute}, {Name: "a", ID: s.holder.ID, Want: time.Minute}})
			done <- err
		}()
		until(t, "it does not wait for the name", func() bool { return waiting(t, s.pool) == 1 })
		if err := errors.Join(tx.Commit(within(t)), <-done); err != nil {
			t.Error(err)
		}
	})
}

// Who is let hold while its renewal waits for its row is told that it holds.
func TestARenewalSaysWhatWasDecidedWhileItWaited(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Minute)
	// As a Leave of the holder's does it.
	tx := s.begin(`DELETE FROM @claims c USING @names n WHERE c.name = n.name AND c.ticket <= n.upto`,
		`UPDATE @claims SET told = false`, `UPDATE @names SET upto = (SELECT ticket FROM @claims), size = 1`)
	type result struct {
		cs  []engine.Claim
		err error
	}
	done := make(chan result, 1)
	ctx := within(t)
	go func() {
		cs, err := s.e.Renew(ctx, []engine.Renewal{{Name: "a", ID: s.waiting.ID, Want: time.Minute}})
		done <- result{cs, err}
	}()
	until(t, "the renewal does not wait", func() bool { return waiting(t, s.pool) == 1 })
	if err := tx.Commit(within(t)); err != nil {
		t.Fatal(err)
	}
	if r := <-done; r.err != nil || r.cs[0].State != engine.Held || r.cs[0].Contended {
		t.Errorf("%+v", r)
	}
}

// A claim whose renewal is under way while its deadline passes is still there: who
// joins with another limit waits for that, and is refused.
func TestALimitIsNotChangedUnderARenewal(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Minute)
	leave(t, s.e, s.waiting)
	tx := s.begin(`UPDATE @claims SET deadline = deadline + 3600000000`)
	s.move(2 * time.Minute)
	done := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := s.e.Join(ctx, engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 3, WaitTTL: time.Second})
		done <- err
	}()
	until(t, "the Join does not wait", func() bool { return waiting(t, s.pool) == 1 })
	if err := tx.Commit(within(t)); err != nil {
		t.Fatal(err)
	}
	var limit *engine.LimitError
	if err := <-done; !errors.As(err, &limit) {
		t.Errorf("%v", err)
	}
}

// A renewal that is answered is stored, whatever the server's default.
func TestRenewalsAreStoredWhereTheDefaultIsNotTo(t *testing.T) {
	t.Parallel()
	s := newStage(t, time.Minute)
	lazy := connect(t, s.e.client.pool.Config().ConnString()+"&synchronous_commit=off")
	how := get[string](t, lazy, `WITH l AS MATERIALIZED (SELECT @renewing('a', $1, 1000000, true)) SELECT current_setting('synchronous_commit') FROM l`, s.waiting.ID[:])
	if how != "on" {
		t.Errorf("synchronous_commit is %s", how)
	}
}
