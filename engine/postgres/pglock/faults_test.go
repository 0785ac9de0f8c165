package pglock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
	"leasehold/lab/servers"
)

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
	e, pool := open(t, url+"&options=-c%20deadlock_timeout%3D6000"), connect(t, url+"&deadlock_timeout=60000")
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
	return get[int](t, pool, lockWaits)
}

const lockWaits = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`

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
	received := watch(t, other)
	first := join(t, e, exclusive("a"))
	second := join(t, other, exclusive("a"))
	do(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'leasehold'`)
	expect(t, received, func(c engine.Claim) bool { return c.Name == "" })
	var left []engine.Claim
	until(t, "Leave is never answered", func() (ok bool) {
		cs, err := e.Leave(within(t), []engine.Claim{first})
		left = cs
		return err == nil
	})
	if left[0].State != engine.Held {
		t.Errorf("the first was %v", left[0].State)
	}
	expect(t, received, func(c engine.Claim) bool { return c.ID == second.ID && c.State == engine.Held })
}

// A listener that comes back while the server takes no new connections leaves alone the
// one that renewals have.
func TestAListenerDoesNotTakeTheLastConnection(t *testing.T) {
	t.Parallel()
	url := database(t)
	p := servers.ProxyTo(t, shared.Server.Addr)
	e, pool := open(t, strings.Replace(url, shared.Server.Addr, p.Addr, 1)), connect(t, url)
	watch(t, e)
	r := exclusive("a")
	r.WaitTTL = time.Minute
	c := join(t, e, r)
	p.Refuse(true)
	do(t, pool, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	until(t, "the listener does not try to come back", func() bool { return p.Refused() >= 3 })
	if c = renew(t, e, c, time.Minute); c.State != engine.Held {
		t.Errorf("what was held is %v", c.State)
	}
}

// Who listens connects as the caller's pool does, whose hooks may know the password.
func TestTheListenerConnectsAsThePoolDoes(t *testing.T) {
	t.Parallel()
	config, err := pgxpool.ParseConfig(database(t))
	if err != nil {
		t.Fatal(err)
	}
	var refuse atomic.Int32 // which of the two
	refused := errors.New("refused")
	config.BeforeConnect = func(_ context.Context, c *pgx.ConnConfig) error {
		c.RuntimeParams["application_name"] = "before"
		if refuse.Load() == 1 {
			return refused
		}
		return nil
	}
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, `SET work_mem = '5MB'`)
		if refuse.Load() == 2 {
			return refused
		}
		return err
	}
	e := openOn(t, config)
	conn, err := e.client.listener(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer bye(conn)
	var before, after string
	if err := conn.QueryRow(within(t), `SELECT current_setting('application_name'), current_setting('work_mem')`).Scan(&before, &after); err != nil || before != "before" || after != "5MB" {
		t.Errorf("its settings are %q and %q, %v", before, after, err)
	}
	for which := range int32(2) {
		refuse.Store(which + 1)
		if conn, err := e.client.listener(within(t)); !errors.Is(err, refused) {
			t.Errorf("hook %d refuses it, which is not said: %v", which+1, err)
			if err == nil {
				bye(conn)
			}
		}
	}
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
		if notification, err := receive(within(t), conn, time.Millisecond); err != nil || notification != "" {
			t.Fatalf("%q, %v", notification, err)
		}
	}
	do(t, pool, `SELECT pg_notify($1, 'hello')`, e.client.channel)
	if notification, err := receive(within(t), conn, 10*time.Second); err != nil || notification != "hello" {
		t.Errorf("%q, %v", notification, err)
	}
}

// One that was cut without a word is found out by that, and given up.
func TestAListenerThatWasCutIsGivenUp(t *testing.T) {
	t.Parallel()
	url := database(t)
	p := servers.ProxyTo(t, shared.Server.Addr)
	e := open(t, strings.Replace(url, shared.Server.Addr, p.Addr, 1))
	conn, err := e.client.listener(within(t))
	if err != nil {
		t.Fatal(err)
	}
	p.BlackHole(true)
	if notification, err := receive(within(t), conn, time.Millisecond); err == nil {
		t.Errorf("heard %q of a connection on which nothing comes any more", notification)
	}
	p.Reset() // so that nothing waits to be told of the end
	bye(conn)
	p.BlackHole(false)
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
	sizes := []int{3, 8, 40}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, clients := range sizes {
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
			var receive []<-chan engine.Claim
			for range clients {
				e, err := New(within(t), pool, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				r := exclusive("a")
				r.WaitTTL = time.Minute
				engines, receive = append(engines, e), append(receive, watch(t, e))
				claims = append(claims, join(t, e, r))
			}
			for len(count.n) > 0 {
				<-count.n
			}
			for i := range clients - 1 {
				leave(t, engines[i], claims[i])
				got := expect(t, receive[i+1], func(c engine.Claim) bool { return c.State == engine.Held })
				if got.ID != claims[i+1].ID || got.Contended != (i+2 < clients) {
					t.Fatalf("hand-over %d: heard %+v", i, got)
				}
			}
			if n := len(count.n); n != clients-1 {
				t.Errorf("%d statements for %d hand-overs; the first: %s", n, clients-1, <-count.n)
			}
			for i, h := range receive {
				for len(h) > 0 {
					if c := <-h; i > 0 && c.ID != claims[i].ID {
						t.Errorf("client %d hears of another's claim", i)
					}
				}
			}
		})
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

func TestNamesGoAfterADayAndTicketsStillRise(t *testing.T) {
	rows.NamesGoAfterADayAndTicketsStillRise(t)
}
func TestTheNameThatIsJoinedIsNotForgotten(t *testing.T) { rows.TheNameThatIsJoinedIsNotForgotten(t) }
func TestABatchLocksNamesInTheirOrder(t *testing.T)      { rows.ABatchLocksNamesInTheirOrder(t) }
func TestSweepingWaitsForNobody(t *testing.T)            { rows.SweepingWaitsForNobody(t) }
func TestANameIsMadeThoughSweptIsEmpty(t *testing.T)     { rows.ANameIsMadeThoughSweptIsEmpty(t) }
func TestWhoComesFirstToANameMeets(t *testing.T)         { rows.WhoComesFirstToANameMeets(t) }
func TestTheClockIsReadAfterTheWait(t *testing.T)        { rows.TheClockIsReadAfterTheWait(t) }
func TestNamesOfOneCollationAreTwo(t *testing.T)         { rows.NamesOfOneCollationAreTwo(t) }
func TestAStuckNameDoesNotKeepOthersFromRenewals(t *testing.T) {
	rows.AStuckNameDoesNotKeepOthersFromRenewals(t)
}
