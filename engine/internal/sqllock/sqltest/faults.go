package sqltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

// NamesGoAfterADayAndTicketsStillRise: names that nobody uses for a day go, their tickets
// stay, and a clock that stepped back over that day gives none out again.
func (k Kit) NamesGoAfterADayAndTicketsStillRise(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, url), k.Connect(t, url)
	set := k.Clock(t, url)
	start := time.Now().UnixMicro()
	set(start)
	var last uint64
	names := 300
	if testing.Short() {
		names = 60
	}
	for i := range names {
		set(start + int64(i)) // the last name by its bytes is not the one with the last ticket
		c := testutil.Join(t, e, testutil.Exclusive(fmt.Sprint("name ", i)))
		if last = c.Ticket; i%2 == 0 {
			testutil.Leave(t, e, c) // the others are of clients that died
		}
	}
	set(start + 25*time.Hour.Microseconds())
	joins := 0
	testutil.Until(t, "the names never go", func() bool {
		for range 50 {
			joins++
			testutil.Leave(t, e, testutil.Join(t, e, testutil.Exclusive("today")))
		}
		return k.count(t, db, `SELECT COUNT(*) FROM @names`) == 1
	})
	t.Logf("gone after %d Joins", joins)
	if n := k.count(t, db, `SELECT COUNT(*) FROM @claims`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
	set(start - time.Hour.Microseconds())
	if c := testutil.Join(t, e, testutil.Exclusive(fmt.Sprint("name ", names-1))); c.Ticket <= last {
		t.Errorf("ticket %d follows %d", c.Ticket, last)
	}
}

// TheNameThatIsJoinedIsNotForgotten: the Join that comes by a name's row after a day may
// be one of that very name, whose row it has locked itself, so that nothing skips it.
func (k Kit) TheNameThatIsJoinedIsNotForgotten(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e := k.open(t, url)
	k.Sweep(t, url)
	set := k.Clock(t, url)
	for day := range 3 {
		set(time.Now().UnixMicro() + int64(day)*25*time.Hour.Microseconds())
		c := testutil.Join(t, e, testutil.Exclusive("a"))
		if got := testutil.Renew(t, e, c, time.Second); got.State != engine.Held {
			t.Fatalf("day %d: a claim that was just held is %v", day, got.State)
		}
		testutil.Leave(t, e, c)
	}
}

// SweepingWaitsForNobody: a Join that comes by what somebody else has locked, the row of
// "swept" or that of a name which was unused for a day, goes on without it.
func (k Kit) SweepingWaitsForNobody(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, url), k.Connect(t, url)
	set := k.Clock(t, url)
	k.Sweep(t, url)
	start := time.Now().UnixMicro()
	set(start)
	testutil.Leave(t, e, testutil.Join(t, e, testutil.Exclusive("old")))
	set(start + 25*time.Hour.Microseconds())
	for _, row := range []string{`SELECT last FROM @swept FOR UPDATE`, `SELECT last FROM @names WHERE name = 'old' FOR UPDATE`} {
		tx := Begin(t, db)
		var last int64
		if err := tx.QueryRowContext(testutil.Within(t), k.In(row)).Scan(&last); err != nil {
			t.Fatal(err)
		}
		for range 2 { // one of two begins with the first name
			testutil.Leave(t, e, testutil.Join(t, e, testutil.Exclusive("new")))
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Leave(t, e, testutil.Join(t, e, testutil.Exclusive("new")))
	testutil.Leave(t, e, testutil.Join(t, e, testutil.Exclusive("new")))
	if n := k.count(t, db, `SELECT COUNT(*) FROM @names WHERE name = 'old'`); n != 0 {
		t.Error("the old name was never swept: mend this test")
	}
}

// ANameIsMadeThoughSweptIsEmpty: whoever empties "swept" takes away what tickets of
// forgotten names rise over, and nothing else.
func (k Kit) ANameIsMadeThoughSweptIsEmpty(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, url), k.Connect(t, url)
	k.Sweep(t, url)
	if _, err := db.ExecContext(testutil.Within(t), k.In(`DELETE FROM @swept`)); err != nil {
		t.Fatal(err)
	}
	testutil.Joins(t, e, testutil.Exclusive("new"), engine.Held)
	testutil.Joins(t, e, testutil.Exclusive("newer"), engine.Held)
}

// WhoComesFirstToANameMeets: many who join a name that nobody has used yet make it once.
func (k Kit) WhoComesFirstToANameMeets(t *testing.T) {
	t.Parallel()
	e := k.open(t, k.More(k.Database(t), k.Conns+"=16"))
	Storm(t, testutil.Within(t), e, 16, true) // each connection has made its first call
	for i := range 20 {
		name := fmt.Sprint("new ", i)
		errs := make(chan error)
		start := make(chan struct{})
		ctx := testutil.Within(t)
		for range 8 {
			go func() {
				<-start
				_, err := e.Join(ctx, testutil.Exclusive(name))
				errs <- err
			}()
		}
		close(start)
		for range 8 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		l, err := e.Queue(ctx, name)
		if err != nil || len(l.Claims) != 8 || l.Claims[0].State != engine.Held || l.Claims[1].State != engine.Waiting {
			t.Errorf("%v, %v", l, err)
		}
	}
}

// AStuckNameDoesNotKeepOthersFromRenewals: calls that wait for a row which somebody else
// keeps locked leave renewals of other names a connection. (A renewal in one call with that of
// the stuck name waits with it.)
func (k Kit) AStuckNameDoesNotKeepOthersFromRenewals(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, k.More(url, k.Conns+"=3")), k.Connect(t, url)
	held := testutil.Join(t, e, testutil.Lasting("held", time.Minute))
	testutil.Leave(t, e, testutil.Join(t, e, testutil.Exclusive("stuck")))
	k.Lock(t, Begin(t, db), "stuck")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stuck sync.WaitGroup
	for range 3 {
		stuck.Go(func() { e.Join(ctx, testutil.Exclusive("stuck")) })
		stuck.Go(func() { e.Leave(ctx, []engine.Claim{{Name: "stuck", ID: engine.NewID()}}) })
	}
	testutil.Until(t, "they do not wait", func() bool { return k.Waiting(t, db) >= 2 })
	if got := testutil.Renew(t, e, held, time.Second); got.State != engine.Held {
		t.Errorf("another name: %v", got.State)
	}
	if k.Waiting(t, db) < 2 {
		t.Error("the renewal waited for them")
	}
	cancel()
	stuck.Wait()
}

// TheClockIsReadAfterTheWait: a call that waited for the row of its name goes by the
// clock as it is once it has the row. By what it was before the wait a clock would seem to
// have stepped back, and deadlines that others were granted meanwhile would be cut.
func (k Kit) TheClockIsReadAfterTheWait(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, e engine.Engine, held, next engine.Claim) error{
		"Join": func(ctx context.Context, e engine.Engine, _, _ engine.Claim) error {
			_, err := e.Join(ctx, testutil.Exclusive("a"))
			return err
		},
		"Renew": func(ctx context.Context, e engine.Engine, held, next engine.Claim) error { // two need the row
			_, err := e.Renew(ctx, []engine.Renewal{{Name: "a", ID: held.ID, Want: time.Hour}, {Name: "a", ID: next.ID, Want: time.Hour}})
			return err
		},
		"Leave": func(ctx context.Context, e engine.Engine, held, _ engine.Claim) error {
			_, err := e.Leave(ctx, []engine.Claim{held})
			return err
		},
		"Evict": func(ctx context.Context, e engine.Engine, _, next engine.Claim) error {
			return e.Revoke(ctx, "a", next.Ticket, false)
		},
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			url := k.Database(t)
			e, db := k.open(t, url), k.Connect(t, url)
			held := testutil.Joins(t, e, testutil.Lasting("a", time.Minute), engine.Held)
			next := testutil.Joins(t, e, testutil.Lasting("a", time.Minute), engine.Waiting)
			tx := Begin(t, db)
			k.Lock(t, tx, "a")
			done := make(chan error, 1)
			ctx := testutil.Within(t)
			go func() { done <- call(ctx, e, held, next) }()
			testutil.Until(t, "the call does not wait", func() bool { return k.Waiting(t, db) == 1 })
			released := int(time.Now().UnixMicro()) // the server's clock is this machine's
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			went := `SELECT seen FROM @names`
			if name == "Renew" { // the second of its claims did not wait
				went = `SELECT MIN(deadline) - 3600000000 FROM @claims`
			}
			if at := k.count(t, db, went); at < released {
				t.Errorf("it went by a moment %d us before it had the row", released-at)
			}
		})
	}
}

// ABatchLocksNamesInTheirOrder: whatever the order of its claims, so that two batches do
// not wait for each other. One that waits for the first name has nothing of the second.
func (k Kit) ABatchLocksNamesInTheirOrder(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, url), k.Connect(t, url)
	a, b := testutil.Join(t, e, testutil.Lasting("a", time.Minute)), testutil.Join(t, e, testutil.Lasting("b", time.Minute))
	batches := map[string]func(context.Context) ([]engine.Claim, error){
		"Renew": func(ctx context.Context) ([]engine.Claim, error) {
			return e.Renew(ctx, []engine.Renewal{{Name: "b", ID: b.ID, Want: time.Hour}, {Name: "a", ID: a.ID, Want: time.Hour}})
		},
		"Leave": func(ctx context.Context) ([]engine.Claim, error) { return e.Leave(ctx, []engine.Claim{b, a}) },
	}
	for _, name := range []string{"Renew", "Leave"} {
		tx := Begin(t, db)
		take := func(table, name string) {
			t.Helper()
			var is []byte
			if err := tx.QueryRowContext(testutil.Within(t), k.In(`SELECT name FROM `+table+` WHERE name = '`+name+`' FOR UPDATE NOWAIT`)).Scan(&is); err != nil {
				t.Errorf("the row of %s in %s: %v", name, table, err)
			}
		}
		take("@names", "a")
		take("@claims", "a")
		done := make(chan error, 1)
		ctx := testutil.Within(t)
		go func() {
			_, err := batches[name](ctx)
			done <- err
		}()
		testutil.Until(t, "the batch does not wait", func() bool { return k.Waiting(t, db) == 1 })
		take("@names", "b")
		take("@claims", "b")
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// NamesOfOneCollationAreTwo: also those that a collation would make one.
func (k Kit) NamesOfOneCollationAreTwo(t *testing.T) {
	t.Parallel()
	e := k.open(t, k.Database(t))
	for _, name := range []string{"a", "A", "á", "a\u0301", "a ", " a", "a\t", "ﬀ", "ff", "ß", "ss", "%", "_", `a\`, "a'", `a"`, "a\U0001F512", "a\U0001F513"} {
		testutil.Joins(t, e, testutil.Exclusive(name), engine.Held)
	}
}

// ManyCreateTheSchemaAtOnce: many clients that come first at the same time find one.
func (k Kit) ManyCreateTheSchemaAtOnce(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	errs := make(chan error)
	for range 8 {
		go func() {
			e, err := k.Open(t.Context(), url)
			if err == nil {
				err = e.Close()
			}
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// ClientsMeetWhoseTablesAreTheSame: and do not, in one database, where a parameter of the
// URL makes them others.
func (k Kit) ClientsMeetWhoseTablesAreTheSame(t *testing.T, parameters ...string) {
	t.Parallel()
	url := k.Database(t)
	for _, p := range append(parameters, "") {
		one := k.More(url, p)
		testutil.Joins(t, k.open(t, one), testutil.Exclusive("a"), engine.Held)
		testutil.Joins(t, k.open(t, one), testutil.Exclusive("a"), engine.Waiting)
	}
}

// ErrorsShowNoPassword: sesame is the password of URLs that cannot be opened.
func (k Kit) ErrorsShowNoPassword(t *testing.T, urls ...string) {
	t.Parallel()
	for _, url := range urls {
		_, err := k.Open(testutil.Within(t), url)
		if err == nil || strings.Contains(err.Error(), "same") {
			t.Errorf("%v", err)
		}
	}
}
