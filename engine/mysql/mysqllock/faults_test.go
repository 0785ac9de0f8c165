package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/lab/servers"
)

var begin, lock = sqltest.Begin, rows.Lock

// waiting is how many statements in this database wait for a lock. The server shows
// what it found when it was last asked, unless that was a tenth of a second ago: tests
// that ask side by side must not ask in step, or it never looks again.
func waiting(t testing.TB, db *sql.DB) int {
	t.Helper()
	time.Sleep(120*time.Millisecond + rand.N(400*time.Millisecond))
	return get[int](t, db, `SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'
		AND trx_mysql_thread_id IN (SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE())`)
}

// A deadlock with a transaction that is not ours costs a call nothing but time.
func TestADeadlockIsTriedAgain(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url), connect(t, url)
	a, b := join(t, e, lasting("a")), join(t, e, lasting("b"))
	do(t, db, `CREATE TABLE heavy (i INT PRIMARY KEY)`)
	tx := begin(t, db)
	for i := range 100 { // InnoDB ends the transaction that has written less
		if _, err := tx.ExecContext(within(t), `INSERT INTO heavy VALUES (?)`, i); err != nil {
			t.Fatal(err)
		}
	}
	lock(t, tx, "b")
	type result struct {
		cs  []engine.Claim
		err error
	}
	renewed := make(chan result, 1)
	ctx := within(t)
	go func() {
		cs, err := e.Renew(ctx, []engine.Renewal{{Name: "b", ID: b.ID, Want: 10 * time.Second}, {Name: "a", ID: a.ID, Want: 10 * time.Second}})
		renewed <- result{cs, err}
	}()
	until(t, "the renewal does not wait for b", func() bool { return waiting(t, db) == 1 })
	lock(t, tx, "a") // the renewal has it, and is ended for that
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	r := <-renewed
	if r.err != nil || len(r.cs) != 2 || r.cs[0].State != engine.Held || r.cs[0].Name != "b" || r.cs[1].State != engine.Held {
		t.Errorf("Renew: %v, %v", r.cs, r.err)
	}
	if query(t, "SELECT COUNT FROM information_schema.INNODB_METRICS WHERE NAME = 'lock_deadlocks'") == "0" {
		t.Error("there was no deadlock: mend this test")
	}
}

func query(t testing.TB, sql string) string {
	t.Helper()
	out, err := shared.Server.Query(sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A row that somebody keeps locked for longer than the server waits is asked for
// again, with the same claim.
func TestALockThatIsNotGivenInTimeIsTriedAgain(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url+"?innodb_lock_wait_timeout=3"), connect(t, url)
	leave(t, e, join(t, e, exclusive("a")))
	tx := begin(t, db)
	lock(t, tx, "a")
	joined := make(chan error, 1)
	ctx := within(t)
	go func() {
		c, err := e.Join(ctx, exclusive("a"))
		if err == nil && c.State != engine.Held {
			err = fmt.Errorf("it is %v", c.State)
		}
		joined <- err
	}()
	until(t, "the Join does not wait", func() bool { return waiting(t, db) == 1 })
	time.Sleep(3500 * time.Millisecond) // the server's three seconds have passed
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-joined; err != nil {
		t.Error(err)
	}
}

// While somebody keeps a table locked, as a backup does, callers give up again and again,
// and each leaves a statement behind that waits in a connection of its own. Those end
// before the lock does: else one client would use up every connection of the server.
// (MariaDB ends them by itself. MySQL does not: see MySQLD of package servers.)
func TestATableThatSomebodyLocksDoesNotCollectConnections(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, admin := open(t, url), connect(t, url)
	conn, err := admin.Conn(within(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() // which gives up the lock: conn is not put back into its pool
	defer discard(conn)
	if _, err := conn.ExecContext(within(t), defaults.in(`LOCK TABLES @names WRITE`)); err != nil {
		t.Fatal(err)
	}
	const callers = 5
	waiting := func() int {
		return get[int](t, admin, `SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND STATE LIKE 'Waiting for table%'`)
	}
	ctx, giveUp := context.WithCancel(within(t))
	defer giveUp()
	answers := make(chan error, callers)
	for i := range callers {
		go func() {
			_, err := e.Join(ctx, exclusive(fmt.Sprint(i)))
			answers <- err
		}()
	}
	until(t, "nobody waits for the table", func() bool { return waiting() == callers })
	giveUp()
	for range callers {
		if err := <-answers; err == nil {
			t.Error("a name was joined in a table that somebody else has locked")
		}
	}
	until(t, "the statements of callers who gave up wait on", func() bool { return waiting() == 0 })
}

// A caller who gives up while its statement waits for a row is answered at once. The
// statement waits on, which no server notices; a Leave that comes after it removes what
// it made.
func TestGivingUpInAStuckStatementLeavesNothing(t *testing.T) {
	t.Parallel()
	url := database(t)
	// The Join that is given up waits in the server until the Leave has been seen to wait too.
	e, db := open(t, url+"?innodb_lock_wait_timeout=30"), connect(t, url)
	leave(t, e, join(t, e, exclusive("a")))
	tx := begin(t, db)
	lock(t, tx, "a")
	ctx, cancel := context.WithCancel(within(t))
	r := lasting("a")
	done := make(chan error, 1)
	go func() {
		_, err := e.Join(ctx, r)
		done <- err
	}()
	until(t, "the Join does not wait", func() bool { return waiting(t, db) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Join: %v", err)
	}
	left := make(chan error, 1)
	ctx = within(t)
	go func() {
		_, err := e.Leave(ctx, []engine.Claim{{Name: "a", ID: r.ID}})
		left <- err
	}()
	until(t, "the Leave does not wait", func() bool { return waiting(t, db) == 2 })
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-left; err != nil {
		t.Errorf("Leave: %v", err)
	}
	if c := join(t, e, exclusive("a")); c.State != engine.Held {
		t.Errorf("the next is %v", c.State)
	}
}

// An operator ends every session: the pool connects again, and nobody has lost
// anything.
func TestSessionsThatAnOperatorEnds(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url), connect(t, url)
	first, second := join(t, e, lasting("a")), join(t, e, lasting("a"))
	rows, err := db.QueryContext(within(t), `SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE() AND ID <> CONNECTION_ID()`)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		t.Fatal("there is no session to end: mend this test")
	}
	for _, id := range ids {
		if _, err := db.ExecContext(within(t), fmt.Sprint("KILL ", id)); err != nil && code(err) != 1094 { // 1094: it has ended meanwhile
			t.Fatal(err)
		}
	}
	var left []engine.Claim
	until(t, "Leave is never answered", func() bool {
		cs, err := e.Leave(within(t), []engine.Claim{first})
		left = cs
		return err == nil
	})
	if left[0].State != engine.Held {
		t.Errorf("the first was %v", left[0].State)
	}
	again(t, func() error { // on a connection of which the pool may not know yet that it was ended
		cs, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: second.ID, Want: time.Second}})
		if err == nil && (len(cs) != 1 || cs[0].State != engine.Held) {
			t.Errorf("the second is %v", cs)
		}
		return err
	})
}

// A procedure that an operator stops in the middle leaves no transaction open, on a
// connection that goes back to the pool with it.
func TestAStoppedProcedureKeepsNoRowLocked(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url+"?max-conns=1"), connect(t, url)
	leave(t, e, join(t, e, exclusive("a")))
	other := open(t, url)
	do(t, db, `CREATE TABLE blocker (i INT)`)
	do(t, db, `INSERT INTO blocker VALUES (1)`)
	tx := begin(t, db)
	if _, err := tx.ExecContext(within(t), `UPDATE blocker SET i = 2`); err != nil {
		t.Fatal(err)
	}
	replace(t, db, "clock", "BEGIN\n", "BEGIN\n\tSELECT i INTO t FROM blocker FOR UPDATE;\n")
	joined := make(chan error, 1)
	ctx := within(t)
	go func() {
		_, err := e.Join(ctx, exclusive("a"))
		joined <- err
	}()
	until(t, "the Join does not wait", func() bool { return waiting(t, db) == 1 })
	id := get[int64](t, db, `SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'
		AND trx_mysql_thread_id IN (SELECT ID FROM information_schema.PROCESSLIST WHERE DB = DATABASE())`)
	do(t, db, fmt.Sprint("KILL QUERY ", id))
	if err := <-joined; err == nil {
		t.Error("a Join that was stopped says nothing of it")
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	replace(t, db, "clock", "BEGIN\n", "BEGIN\n")
	if c := join(t, other, exclusive("a")); c.State != engine.Held {
		t.Errorf("the next is %v", c.State)
	}
}

// One whose holder was killed is held by the next within a second of its TTL, though
// nothing sweeps.
func TestAKilledHoldersTTL(t *testing.T) {
	t.Parallel()
	url := database(t)
	const ttl = 2 * time.Second
	client := func(e engine.Engine) *leasehold.Client {
		c, err := leasehold.New(e, &leasehold.Options{TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	db := connect(t, url)
	round := func() time.Duration {
		dying := open(t, url)
		first, err := client(dying).Lock(within(t), "a")
		if err != nil {
			t.Fatal(err)
		}
		died := sqllock.Micros(get[int64](t, db, `SELECT `+clock))
		kill(dying)
		next, err := client(open(t, url)).Lock(within(t), "a")
		if err != nil {
			t.Fatal(err)
		}
		if next.Token() <= first.Token() {
			t.Errorf("token %v follows %v", next.Token(), first.Token())
		}
		// By the server's clock, which gave the next its ticket: it joined at once, and came
		// to hold when the queue last moved.
		moved := get[int64](t, db, `SELECT moved FROM @names`)
		if err := next.Unlock(); err != nil {
			t.Error(err)
		}
		return sqllock.Micros(moved) - died
	}
	var after time.Duration
	for range 5 { // a round in which the machine stands still takes longer
		if after = round(); after <= ttl+time.Second {
			return
		}
	}
	t.Errorf("the next held %v after the death of who held with a TTL of %v, and as late four times before", after, ttl)
}

// A queue is read after its row is locked, and not as it was when the transaction first
// read anything: REPEATABLE READ, these servers' default, would do that, and miss the
// claim that was put there meanwhile.
func TestAQueueIsNotReadFromBeforeTheWait(t *testing.T) {
	t.Parallel()
	url := database(t)
	// A wait that the server ended would be begun anew, and read what is there by then.
	e := openOn(t, sessions(t, url, transaction("isolation")+"='REPEATABLE-READ'", "innodb_lock_wait_timeout=60"))
	db := connect(t, url)
	// The first of a batch reads without a lock, and what the transaction sees from then
	// on would be from then; the second waits.
	first, second := join(t, e, lasting("a")), join(t, e, lasting("b"))
	tx := begin(t, db)
	lock(t, tx, "b")
	renewed := make(chan engine.Claim, 1)
	ctx := within(t)
	go func() {
		cs, err := e.Renew(ctx, []engine.Renewal{
			{Name: "a", ID: first.ID, Want: time.Second}, {Name: "b", ID: second.ID, Want: time.Second},
		})
		if err != nil || len(cs) != 2 {
			t.Errorf("Renew: %v, %v", cs, err)
		}
		renewed <- append(cs, engine.Claim{}, engine.Claim{})[1]
	}()
	until(t, "the Renew does not wait", func() bool { return waiting(t, db) == 1 })
	for _, sql := range []string{
		`INSERT INTO @claims SELECT name, ticket + 1, x'01', client, owner, units, deadline, asked, detached, evicted FROM @claims WHERE name = 'b'`,
		`UPDATE @names SET last = last + 1, size = 2 WHERE name = 'b'`,
	} {
		if _, err := tx.ExecContext(within(t), defaults.in(sql)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if c := <-renewed; c.State != engine.Held || !c.Contended {
		t.Errorf("%v, contended: %v, with a claim behind it that was committed before it had the row", c.State, c.Contended)
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

// How often a queue is looked at follows when somebody last came to hold there.
func TestAQueueKnowsWhenItMoved(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url), connect(t, url)
	moved := func() int64 { return get[int64](t, db, `SELECT moved FROM @names`) }
	a := join(t, e, exclusive("a"))
	first := moved()
	if seen := get[int64](t, db, `SELECT seen FROM @names`); first != seen {
		t.Errorf("held at %d, and moved at %d", seen, first)
	}
	b := join(t, e, exclusive("a"))
	renew(t, e, a, time.Second)
	renew(t, e, b, 2*time.Minute) // which it has not, so that this writes
	if got := moved(); got != first {
		t.Errorf("nobody came to hold, and it moved at %d after %d", got, first)
	}
	leave(t, e, a)
	if got := moved(); got <= first {
		t.Errorf("the next one holds, and it moved at %d", got)
	}
}

// Who waits for names that stand still asks for all of them at once, at most twice a
// second, and writes nothing then.
func TestIdleWaiters(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil)
	url := s.URL("", "")
	const names, waiters, seconds = 10, 3, 4
	holder := open(t, url)
	for i := range names {
		r := exclusive(fmt.Sprint("name ", i))
		r.WaitTTL = time.Minute
		join(t, holder, r)
	}
	db := connect(t, url)
	do(t, db, `UPDATE @names SET moved = moved - 60000000`) // held for a minute
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{}, names*waiters)
	for range waiters {
		locks, err := leasehold.New(open(t, url), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		for i := range names {
			go func() {
				if _, err := locks.Lock(ctx, fmt.Sprint("name ", i)); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				ended <- struct{}{}
			}()
		}
	}
	until(t, "they do not wait", func() bool { return get[int](t, db, `SELECT COUNT(*) FROM @claims`) == names*(1+waiters) })
	count := func(what string) int {
		t.Helper()
		out, err := s.Query("SHOW GLOBAL STATUS LIKE '" + what + "'")
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(strings.Fields(out)[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	time.Sleep(2 * time.Second) // their lifetimes are raised by then
	var calls, most int
	for range 3 { // what was late before a window is made in it
		began := time.Now()
		before := count("Questions")
		time.Sleep(seconds * time.Second)
		calls, most = count("Questions")-before-1, int(2*waiters*time.Since(began).Seconds())+1
		t.Logf("%d calls of %d clients in %d s", calls, waiters, seconds)
		if calls <= most {
			break
		}
	}
	if calls > most {
		t.Errorf("%d calls of %d clients in %d s, more than %d", calls, waiters, seconds, most)
	}
	cancel()
	for range names * waiters {
		<-ended
	}
}
