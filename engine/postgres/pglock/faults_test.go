package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
)

func until(t testing.TB, not string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !f(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(not)
		}
	}
}

// The rows of an answer come before its commit, which may fail: then they were none.
func TestAnAnswerWhoseCommitFailedIsNone(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	do(t, pool, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'at commit'; END $$`)
	do(t, pool, `CREATE CONSTRAINT TRIGGER late AFTER INSERT ON @claims DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if c, err := e.Join(within(t), exclusive("a")); err == nil || c.State != engine.Unknown {
		t.Errorf("Join says %v, %v, of a commit that failed", c.State, err)
	}
	held := exclusive("b")
	do(t, pool, `DROP TRIGGER late ON @claims`)
	join(t, e, held)
	do(t, pool, `CREATE CONSTRAINT TRIGGER late AFTER DELETE ON @claims DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse()`)
	if cs, err := e.Leave(within(t), []engine.Claim{{Name: "b", ID: held.ID}}); err == nil || len(cs) > 0 {
		t.Errorf("Leave says %v, %v, of a commit that failed", cs, err)
	}
	do(t, pool, `DROP TRIGGER late ON @claims`)
	if c := renew(t, e, engine.Claim{Name: "b", ID: held.ID}, time.Second); c.State != engine.Held {
		t.Errorf("what could not be left is %v", c.State)
	}
}

// A deadlock with a transaction that is not ours costs a call nothing but time.
func TestADeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url+"&deadlock_timeout=1500"), connect(t, url+"&deadlock_timeout=60000")
	long := func(name string) engine.Request {
		r := exclusive(name)
		r.WaitTTL = time.Minute
		return r
	}
	first, second := join(t, e, long("a")), join(t, e, long("b"))
	tx, err := pool.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	lock := func(name string) {
		t.Helper()
		if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @names WHERE name = $1 FOR UPDATE`), []byte(name)); err != nil {
			t.Fatalf("the stranger's transaction: %v", err)
		}
	}
	lock(second.Name)
	type result struct {
		cs  []engine.Claim
		err error
	}
	left := make(chan result, 1)
	ctx := within(t)
	go func() {
		cs, err := e.Leave(ctx, []engine.Claim{second, first})
		left <- result{cs, err}
	}()
	until(t, "Leave does not wait for the second", func() bool { return waiting(t, pool) == 1 })
	if _, err := pool.Exec(within(t), defaults.in(`SELECT FROM @names WHERE name = $1 FOR UPDATE NOWAIT`), []byte(first.Name)); code(err) != "55P03" {
		t.Fatalf("Leave has not locked the first name first: %v", err)
	}
	lock(first.Name) // Leave has it, and finds out first that this cannot end
	if err := tx.Commit(within(t)); err != nil {
		t.Fatal(err)
	}
	r := <-left
	if r.err != nil || len(r.cs) != 2 || r.cs[0].State != engine.Held || r.cs[1].State != engine.Held {
		t.Errorf("Leave: %v, %v", r.cs, r.err)
	}
}

// waiting is how many connections to this database wait for a lock.
func waiting(t testing.TB, pool *pgxpool.Pool) int {
	return get[int](t, pool, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

// A caller who gives up while its statement waits for a row leaves no statement
// behind, and no claim.
func TestGivingUpInAStuckStatementLeavesNothing(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	leave(t, e, join(t, e, exclusive("a")))
	tx, err := pool.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @names FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(within(t))
	done := make(chan error, 1)
	go func() {
		_, err := e.Join(ctx, exclusive("a"))
		done <- err
	}()
	until(t, "the Join does not wait", func() bool { return waiting(t, pool) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Join: %v", err)
	}
	until(t, "its statement goes on", func() bool { return waiting(t, pool) == 0 })
	if err := tx.Commit(within(t)); err != nil {
		t.Fatal(err)
	}
	if c := join(t, e, exclusive("a")); c.State != engine.Held {
		t.Errorf("the next is %v", c.State)
	}
}

// An operator ends every session: the listener listens again and says so, the pool
// connects again, and nobody has lost anything.
func TestSessionsThatAnOperatorEnds(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, other, pool := open(t, url), open(t, url), connect(t, url)
	heard := watch(t, other)
	first := join(t, e, exclusive("a"))
	second := join(t, other, exclusive("a"))
	do(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'leasehold'`)
	expect(t, heard, func(c engine.Claim) bool { return c.Name == "" })
	var left []engine.Claim
	until(t, "Leave is never answered", func() (ok bool) {
		cs, err := e.Leave(within(t), []engine.Claim{first})
		left = cs
		return err == nil
	})
	if left[0].State != engine.Held {
		t.Errorf("the first was %v", left[0].State)
	}
	expect(t, heard, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })
}

// A connection that is silent for long is asked whether it stands, and goes on.
func TestASilentListenerGoesOn(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	conn, err := e.client.listener(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer bye(conn)
	for range 3 {
		if note, err := hear(within(t), conn, time.Millisecond); err != nil || note != "" {
			t.Fatalf("%q, %v", note, err)
		}
	}
	do(t, pool, `SELECT pg_notify($1, 'hello')`, e.client.channel)
	if note, err := hear(within(t), conn, 10*time.Second); err != nil || note != "hello" {
		t.Errorf("%q, %v", note, err)
	}
}

// counter counts the statements of a pool.
type counter struct{ n chan string }

func (c counter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, d pgx.TraceQueryStartData) context.Context {
	c.n <- d.SQL
	return ctx
}
func (c counter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// What a hand-over costs does not grow with those who wait: one statement of who
// leaves, one message to who holds.
func TestAHandOverIsOneStatement(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{3, 8, 40} {
		t.Run(fmt.Sprint(clients, " clients"), func(t *testing.T) {
			url := database(t)
			config, err := pgxpool.ParseConfig(url)
			if err != nil {
				t.Fatal(err)
			}
			count := counter{make(chan string, 100_000)}
			config.ConnConfig.Tracer = count
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			var engines []*Engine
			var claims []engine.Claim
			var hear []<-chan engine.Claim
			for range clients {
				e, err := New(within(t), pool, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				r := exclusive("a")
				r.WaitTTL = time.Minute
				engines, hear = append(engines, e), append(hear, watch(t, e))
				claims = append(claims, join(t, e, r))
			}
			for len(count.n) > 0 {
				<-count.n
			}
			for i := range clients - 1 {
				leave(t, engines[i], claims[i])
				got := expect(t, hear[i+1], func(c engine.Claim) bool { return c.State == engine.Held })
				if got.ID != claims[i+1].ID || got.Contended != (i+2 < clients) {
					t.Fatalf("hand-over %d: heard %+v", i, got)
				}
			}
			if n := len(count.n); n != clients-1 {
				t.Errorf("%d statements for %d hand-overs; the first: %s", n, clients-1, <-count.n)
			}
			for i, h := range hear {
				for len(h) > 0 {
					if c := <-h; i > 0 && c.ID != claims[i].ID {
						t.Errorf("client %d hears of another's claim", i)
					}
				}
			}
		})
	}
}

// Names that nobody uses for a day go, their tickets stay: a clock that stepped back
// over that day gives none out again.
func TestNamesGoAfterADayAndTicketsStillRise(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	do(t, pool, `CREATE TABLE shift AS SELECT 0::bigint AS by`)
	do(t, pool, `CREATE OR REPLACE FUNCTION @clock() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (SELECT by FROM public.shift); END $$`)
	var last uint64
	for i := range 300 {
		c := join(t, e, exclusive(fmt.Sprint("name ", i)))
		if last = c.Ticket; i%2 == 0 {
			leave(t, e, c) // the others are of clients that died
		}
	}
	do(t, pool, `UPDATE shift SET by = 25 * 3600 * 1000000::bigint`)
	joins := 0
	until(t, "the names never go", func() bool {
		for range 50 {
			joins++
			leave(t, e, join(t, e, exclusive("today")))
		}
		return get[int](t, pool, `SELECT count(*) FROM @names`) == 1
	})
	t.Logf("gone after %d Joins", joins)
	if n := get[int](t, pool, `SELECT count(*) FROM @claims`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
	do(t, pool, `UPDATE shift SET by = -3600 * 1000000::bigint`)
	if c := join(t, e, exclusive("name 299")); c.Ticket <= last {
		t.Errorf("ticket %d follows %d", c.Ticket, last)
	}
}

// Calls that wait for a row which somebody else keeps locked leave renewals of other
// names a connection.
func TestAStuckNameDoesNotKeepOthersFromRenewals(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url+"&pool_max_conns=3"), connect(t, url)
	lasts := exclusive("held")
	lasts.WaitTTL = time.Minute
	held := join(t, e, lasts)
	leave(t, e, join(t, e, exclusive("stuck")))
	tx, err := pool.Begin(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(within(t), defaults.in(`SELECT FROM @names WHERE name = 'stuck' FOR UPDATE`)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stuck sync.WaitGroup
	for range 3 {
		stuck.Go(func() { e.Join(ctx, exclusive("stuck")) })
		stuck.Go(func() { e.Leave(ctx, []engine.Claim{{Name: "stuck", ID: engine.NewID()}}) })
	}
	until(t, "they do not wait", func() bool { return waiting(t, pool) >= 2 })
	if got := renew(t, e, held, time.Second); got.State != engine.Held {
		t.Errorf("another name: %v", got.State)
	}
	if waiting(t, pool) < 2 {
		t.Error("the renewal waited for them")
	}
	cancel()
	stuck.Wait()
}

// Close gives up what stands in more lines than one of its calls takes.
func TestCloseGivesUpEveryLine(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	for i := range 150 {
		r := exclusive(fmt.Sprint(i))
		r.WaitTTL = time.Minute
		join(t, e, r)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if n := get[int](t, pool, `SELECT count(*) FROM @claims`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// A Join that sweeps may come upon the name it joins, which it has locked itself, so
// that nothing skips it.
func TestTheNameThatIsJoinedIsNotForgotten(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, pool := open(t, url), connect(t, url)
	do(t, pool, `CREATE TABLE shift AS SELECT 0::bigint AS by`)
	do(t, pool, `CREATE OR REPLACE FUNCTION @clock() RETURNS bigint LANGUAGE plpgsql AS $$
		BEGIN RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + (SELECT by FROM public.shift); END $$`)
	always := strings.Replace(function(t, "join"), "random() < 1.0 / 16", "true", 1)
	do(t, pool, strings.Replace(always, "CREATE FUNCTION", "CREATE OR REPLACE FUNCTION", 1))
	for day := range 3 {
		do(t, pool, `UPDATE shift SET by = $1`, int64(day)*25*time.Hour.Microseconds())
		c := join(t, e, exclusive("a"))
		if got := renew(t, e, c, time.Second); got.State != engine.Held {
			t.Fatalf("day %d: a claim that was just held is %v", day, got.State)
		}
		leave(t, e, c)
	}
}

// What a server answers is stored, whatever its default.
func TestCommitsAreStoredWhereTheDefaultIsNotTo(t *testing.T) {
	t.Parallel()
	url := database(t)
	open(t, url)
	pool := connect(t, url+"&synchronous_commit=off")
	if how := get[string](t, pool, `WITH l AS MATERIALIZED (SELECT @open('a')) SELECT current_setting('synchronous_commit') FROM l`); how != "on" {
		t.Errorf("synchronous_commit is %s", how)
	}
}

// Two names that a collation would make one are two.
func TestNamesOfOneCollationAreTwo(t *testing.T) {
	t.Parallel()
	e := open(t, database(t))
	for _, name := range []string{"a", "A", "á", "a\u0301", "a ", " a", "a\t", "ﬀ", "ff", "ß", "ss", "%", "_", `a\`, "a'", `a"`} {
		if c := join(t, e, exclusive(name)); c.State != engine.Held {
			t.Errorf("%q is %v", name, c.State)
		}
	}
}
