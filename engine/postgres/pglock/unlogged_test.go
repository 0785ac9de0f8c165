package pglock

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/internal/checked"
)

// forgetting is how long nothing is granted in these tests, and the TTL of every hold.
const forgetting = 5 * time.Second

func unlogged(url string, d time.Duration) string { return url + "&unlogged=" + d.String() }

// deadline is when a claim would have ended, by the server's clock.
func deadline(t *testing.T, admin *pgxpool.Pool, c engine.Claim) int64 {
	t.Helper()
	return get[int64](t, admin, `SELECT deadline FROM @claims WHERE id = $1`, c.ID[:])
}

func persistence(t *testing.T, admin *pgxpool.Pool) string {
	t.Helper()
	return get[string](t, admin, `SELECT string_agg(relpersistence::text, '' ORDER BY relname) FROM pg_class
		WHERE oid IN ('@names'::regclass, '@claims'::regclass, '@swept'::regclass, to_regclass('@memory'))`)
}

// A crash, and a failover, end every lease. Whoever was granted it before may trust it until its
// deadline, and nobody is granted the name before that. Each has its control: without the wait
// the name is granted while the deadline is ahead.
func TestAnUnloggedDatabaseGrantsNothingWhileFormerHoldersMayTrust(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{true, false} {
		if testing.Short() && !waits {
			continue
		}
		how := map[bool]string{true: "it waits", false: "control"}[waits]
		ttl := map[bool]time.Duration{true: forgetting, false: 10 * time.Minute}[waits]
		check := func(t *testing.T, admin *pgxpool.Pool, e *Engine, first engine.Claim, ends int64) {
			again(t, func() error {
				cs, err := e.Renew(within(t), []engine.Renewal{{Name: first.Name, ID: first.ID, Want: ttl}})
				if err == nil && cs[0].State != engine.Gone {
					t.Errorf("a forgotten claim is %v", cs[0].State)
				}
				return err
			})
			c := join(t, e, testutil.Lasting(first.Name, ttl))
			if waits {
				if c.State != engine.Waiting || c.PollAfter <= 0 || c.PollAfter > forgetting {
					t.Errorf("a Join at once is %v, and is to look after %v", c.State, c.PollAfter)
				}
				no := testutil.Lasting(first.Name, ttl)
				no.NoWait = true
				testutil.Joins(t, e, no, engine.Gone)
				q, err := e.Queue(within(t), first.Name)
				if err != nil || len(q.Claims) != 2 || !strings.Contains(q.Claims[0].Owner.Label, "the database crashed") {
					t.Errorf("the queue is %+v, %v", q, err)
				}
				until(t, "it is never granted", func() bool {
					c = renew(t, e, c, ttl)
					return c.State == engine.Held
				})
			}
			if now := get[int64](t, admin, `SELECT @clock()`); c.State != engine.Held || (now >= ends) != waits {
				t.Errorf("it is %v, %v after the deadline", c.State, time.Duration(now-ends)*time.Microsecond)
			}
			if c.Ticket <= first.Ticket {
				t.Errorf("ticket %d follows %d", c.Ticket, first.Ticket)
			}
			if n := get[int](t, admin, `SELECT count(*) FROM @swept`); n != 1 {
				t.Errorf("%d rows say how far names were swept", n)
			}
		}
		t.Run("crash, "+how, func(t *testing.T) {
			t.Parallel()
			s := server(t)
			e, admin := open(t, unlogged(s.URL("", ""), ttl)), connect(t, s.URL("", ""))
			if !waits {
				replace(t, admin, "forgotten", "IF t >= free THEN", "IF true THEN")
			}
			first := join(t, e, testutil.Lasting("a", ttl))
			ends := deadline(t, admin, first)
			if err := s.Restart(); err != nil {
				t.Fatal(err)
			}
			admin.Reset()
			check(t, admin, e, first, ends)
		})
		t.Run("failover, "+how, func(t *testing.T) {
			t.Parallel()
			p := replicated(t, "&unlogged="+ttl.String())
			e, admin := open(t, p.url), connect(t, p.primary.URL("", ""))
			if !waits {
				replace(t, admin, "forgotten", "IF t >= free THEN", "IF true THEN")
			}
			first := join(t, e, testutil.Lasting("a", ttl))
			ends := deadline(t, admin, first)
			until(t, "the replica does not have all", func() bool {
				n, err := p.primary.Query("SELECT count(*) FROM pg_stat_replication WHERE replay_lsn = pg_current_wal_lsn()")
				return err == nil && n == "1"
			})
			p.fail(t)
			check(t, connect(t, p.replica.URL("", "")), e, first, ends)
		})
	}
}

// A restart that is no crash forgets nothing.
func TestAnUnloggedDatabaseThatIsStoppedForgetsNothing(t *testing.T) {
	t.Parallel()
	s := server(t)
	e := open(t, unlogged(s.URL("", ""), time.Minute))
	c := join(t, e, testutil.Lasting("a", time.Minute))
	process, err := os.FindProcess(s.PID())
	if err == nil {
		err = process.Signal(os.Interrupt) // a fast shutdown
	}
	if err != nil {
		t.Fatal(err)
	}
	until(t, "it does not end", func() bool {
		_, err := os.Stat(filepath.Join(s.Dir, "data", "postmaster.pid"))
		return errors.Is(err, fs.ErrNotExist)
	})
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	again(t, func() error {
		cs, err := e.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Minute}})
		if err == nil && (cs[0].State != engine.Held || cs[0].Ticket != c.Ticket) {
			t.Errorf("it is %v", cs[0].State)
		}
		return err
	})
	if c := join(t, e, exclusive("b")); c.State != engine.Held {
		t.Errorf("a name that nobody held is %v", c.State)
	}
}

// After a crash many clients come back at once: every name is held by one claim of nobody,
// and whoever knows that no holder lives frees it.
func TestEachForgottenNameIsHeldByNobodyOnce(t *testing.T) {
	t.Parallel()
	s := server(t, "-c", "max_connections=300")
	url := s.URL("", "")
	open(t, unlogged(url, time.Hour)).Close()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	const clients, names = 8, 5
	var all sync.WaitGroup
	for range clients {
		e := open(t, url)
		for i := range names {
			for _, r := range []engine.Request{testutil.Lasting(fmt.Sprint(i), time.Minute), {Name: fmt.Sprint("p", i), ID: engine.NewID(), Permits: 1, Limit: 3, WaitTTL: time.Minute}} {
				all.Go(func() {
					if c, err := e.Join(within(t), r); err != nil || c.State != engine.Waiting {
						t.Errorf("%s is %v, %v", r.Name, c.State, err)
					}
				})
			}
		}
	}
	all.Wait()
	admin := connect(t, url)
	if n := get[int](t, admin, `SELECT count(*) FROM @claims WHERE client = 'leasehold'`); n != 2*names {
		t.Errorf("%d claims of nobody for %d names", n, 2*names)
	}
	if n := get[int](t, admin, `SELECT count(*) FROM @names`); n != 2*names {
		t.Errorf("%d rows for %d names", n, 2*names)
	}
	e := open(t, url)
	for name, held := range map[string]int{"0": 1, "p0": 3} {
		q, err := e.Queue(within(t), name)
		if err != nil || len(q.Claims) != 1+clients {
			t.Fatalf("%s has %d claims, %v", name, len(q.Claims), err)
		}
		if err := e.Revoke(within(t), name, q.Claims[0].Ticket, true); err != nil {
			t.Fatalf("Revoke: %v", err)
		}
		q, err = e.Queue(within(t), name)
		got := 0
		for _, c := range q.Claims {
			if c.State == engine.Held {
				got++
			}
		}
		if err != nil || got != held {
			t.Errorf("%d hold %s by then, %v; want %d", got, name, err, held)
		}
	}
}

// Of two that come first to a name at once, whoever makes its row has it held by nobody.
func TestWhoMakesTheRowHasAForgottenNameHeld(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, admin := open(t, unlogged(url, time.Hour)), connect(t, url)
	do(t, admin, `UPDATE @memory SET since = @clock()`)
	if c := join(t, e, exclusive("a")); c.State != engine.Waiting {
		t.Errorf("who makes the row is %v", c.State)
	}
	// Here another makes it first, and its claim of nobody is gone already.
	replace(t, admin, "join", `INSERT INTO @names SELECT n`, `INSERT INTO @names VALUES (n, 7, 1, 0, 0, 0, 9223372036854775807, 0); INSERT INTO @names SELECT n`)
	if c := join(t, e, exclusive("b")); c.State != engine.Held {
		t.Errorf("who comes second is %v", c.State)
	}
}

// What a client declares is what the tables are, and only their owner changes that.
func TestUnloggedIsTheTablesOwn(t *testing.T) {
	t.Parallel()
	url := database(t)
	admin := connect(t, url)
	before := open(t, url)
	if how := persistence(t, admin); how != "ppp" {
		t.Errorf("the tables are %q", how)
	}
	refused(t, unlogged(url, time.Minute), `are logged, and unlogged=1m0s was asked for: ask for what they have, or let their owner change them with SELECT "leasehold"."unlog"('60000000 microseconds')`)
	held := join(t, before, testutil.Lasting("a", time.Minute))
	do(t, admin, `SELECT @unlog('1 minute')`)
	if how := persistence(t, admin); how != "uuuu" {
		t.Errorf("the tables are %q", how)
	}
	if c := renew(t, before, held, time.Minute); c.State != engine.Held {
		t.Errorf("who held before the change is %v", c.State)
	}
	if c := join(t, before, exclusive("b")); c.State != engine.Held {
		t.Errorf("a free name is %v though nothing was forgotten", c.State)
	}
	// A client of before the change does not know of the bound: the database keeps it.
	if _, err := before.Join(within(t), testutil.Lasting("c", 2*time.Minute)); err == nil {
		t.Error("a longer TTL is granted")
	}
	if err := before.Check(within(t)); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("who was there before is not refused: %v", err)
	}
	for _, u := range []string{url, unlogged(url, time.Minute)} {
		e := open(t, u)
		if g := e.Guarantees(); g.MaxTTL != time.Minute || g.Fencing != engine.FencingMemory {
			t.Errorf("it declares %+v", g)
		}
		if err := e.Check(within(t)); err != nil {
			t.Errorf("Check: %v", err)
		}
		if _, err := checked.New(e).Join(within(t), testutil.Lasting("d", 2*time.Minute)); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("a longer TTL: %v", err)
		}
	}
	refused(t, unlogged(url, time.Hour), "have unlogged=1m0s")
	refused(t, unlogged(url, time.Millisecond), "outside 1s to")
	refused(t, url+"&unlogged=long", "not a duration")

	// Claims that live for longer than is waited for, and a wait that is not over, forbid a change.
	for delay, why := range map[string]string{"30 seconds": "live for longer", "1 millisecond": "outside", "2 days": "outside"} {
		if _, err := admin.Exec(within(t), defaults.in(`SELECT @unlog($1::interval)`), delay); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("unlog(%s): %v", delay, err)
		}
	}
	do(t, admin, `UPDATE @memory SET since = @clock()`)
	if _, err := admin.Exec(within(t), defaults.in(`SELECT @unlog('0')`)); err == nil || !strings.Contains(err.Error(), "wait for that") {
		t.Errorf("while it waits: %v", err)
	}
	do(t, admin, `UPDATE @memory SET since = 0`)
	do(t, admin, `SELECT @unlog('0')`)
	if how := persistence(t, admin); how != "ppp" {
		t.Errorf("the tables are %q", how)
	}
	if c := renew(t, before, held, 2*time.Minute); c.State != engine.Held {
		t.Errorf("who held is %v", c.State)
	}
	if err := before.Check(within(t)); err != nil {
		t.Errorf("who was there before is what the tables are again: %v", err)
	}
}

func TestSchemaMakesUnloggedTables(t *testing.T) {
	t.Parallel()
	url := database(t)
	admin := connect(t, url)
	for _, d := range []time.Duration{0, time.Minute, 0} { // run again, without: they stay
		text, err := Schema(&Options{Unlogged: d})
		if err == nil {
			_, err = admin.Exec(within(t), text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if how := persistence(t, admin); how != "uuuu" {
		t.Errorf("the tables are %q", how)
	}
}

func TestARightOfUnloggedTablesThatIsMissingIsNamed(t *testing.T) {
	t.Parallel()
	s := server(t)
	url := s.URL("", "")
	open(t, unlogged(url, time.Minute)).Close()
	admin := connect(t, url)
	do(t, admin, `CREATE ROLE app LOGIN`)
	do(t, admin, `GRANT USAGE ON SCHEMA leasehold TO app`)
	do(t, admin, `GRANT SELECT, INSERT, UPDATE, DELETE ON leasehold.names, leasehold.claims TO app`)
	do(t, admin, `GRANT SELECT, UPDATE ON leasehold.swept TO app`)
	refused(t, s.URL("app", ""), "right")
	do(t, admin, `GRANT INSERT ON leasehold.swept TO app`)
	do(t, admin, `GRANT SELECT ON leasehold.memory TO app`)
	refused(t, s.URL("app", ""), "right")
	do(t, admin, `GRANT INSERT ON leasehold.memory TO app`)
	if err := s.Restart(); err != nil { // a user with the least begins the wait
		t.Fatal(err)
	}
	var e *Engine
	until(t, "it never opens", func() bool {
		is, err := Open(within(t), s.URL("app", ""))
		if err != nil {
			t.Log(err)
			return false
		}
		e = is.(*Engine)
		return true
	})
	defer e.Close()
	if c := join(t, e, exclusive("a")); c.State != engine.Waiting {
		t.Errorf("it is %v", c.State)
	}
}

// The leases of the library, as programs see it.
func TestALeaseOfUnloggedTablesIsLostInACrash(t *testing.T) {
	t.Parallel()
	s := server(t)
	locks, err := leasehold.New(open(t, unlogged(s.URL("", ""), 3*time.Second)), &leasehold.Options{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	first, err := locks.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	second, err := locks.Lock(within(t), "b") // is not granted while somebody of before may hold it
	if err != nil {
		t.Fatal(err)
	}
	if first.Valid() {
		t.Error("the former lease is valid beside it")
	}
	if err := second.Unlock(); err != nil {
		t.Error(err)
	}
}
