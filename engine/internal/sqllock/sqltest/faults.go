package sqltest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/kit"
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
	for i := range 300 {
		c := kit.Join(t, e, kit.Exclusive(fmt.Sprint("name ", i)))
		if last = c.Ticket; i%2 == 0 {
			kit.Leave(t, e, c) // the others are of clients that died
		}
	}
	set(start + 25*time.Hour.Microseconds())
	joins := 0
	kit.Until(t, "the names never go", func() bool {
		for range 50 {
			joins++
			kit.Leave(t, e, kit.Join(t, e, kit.Exclusive("today")))
		}
		return k.count(t, db, `SELECT COUNT(*) FROM @names`) == 1
	})
	t.Logf("gone after %d Joins", joins)
	if n := k.count(t, db, `SELECT COUNT(*) FROM @claims`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
	set(start - time.Hour.Microseconds())
	if c := kit.Join(t, e, kit.Exclusive("name 299")); c.Ticket <= last {
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
		c := kit.Join(t, e, kit.Exclusive("a"))
		if got := kit.Renew(t, e, c, time.Second); got.State != engine.Held {
			t.Fatalf("day %d: a claim that was just held is %v", day, got.State)
		}
		kit.Leave(t, e, c)
	}
}

// AStuckNameDoesNotKeepOthersFromRenewals: calls that wait for a row which somebody else
// keeps locked leave renewals of other names a connection.
func (k Kit) AStuckNameDoesNotKeepOthersFromRenewals(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, k.More(url, k.Conns+"=3")), k.Connect(t, url)
	held := kit.Join(t, e, kit.Lasting("held", time.Minute))
	kit.Leave(t, e, kit.Join(t, e, kit.Exclusive("stuck")))
	k.Lock(t, Begin(t, db), "stuck")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stuck sync.WaitGroup
	for range 3 {
		stuck.Go(func() { e.Join(ctx, kit.Exclusive("stuck")) })
		stuck.Go(func() { e.Leave(ctx, []engine.Claim{{Name: "stuck", ID: engine.NewID()}}) })
	}
	kit.Until(t, "they do not wait", func() bool { return k.Waiting(t, db) >= 2 })
	if got := kit.Renew(t, e, held, time.Second); got.State != engine.Held {
		t.Errorf("another name: %v", got.State)
	}
	if k.Waiting(t, db) < 2 {
		t.Error("the renewal waited for them")
	}
	cancel()
	stuck.Wait()
}

// CloseGivesUpEveryLine: also what stands in more lines than one of its calls takes.
func (k Kit) CloseGivesUpEveryLine(t *testing.T) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, url), k.Connect(t, url)
	for i := range 150 {
		kit.Join(t, e, kit.Lasting(fmt.Sprint(i), time.Minute))
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if n := k.count(t, db, `SELECT COUNT(*) FROM @claims`); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// NamesOfOneCollationAreTwo: also those that a collation would make one.
func (k Kit) NamesOfOneCollationAreTwo(t *testing.T) {
	t.Parallel()
	e := k.open(t, k.Database(t))
	for _, name := range []string{"a", "A", "á", "a\u0301", "a ", " a", "a\t", "ﬀ", "ff", "ß", "ss", "%", "_", `a\`, "a'", `a"`, "a\U0001F512", "a\U0001F513"} {
		kit.Joins(t, e, kit.Exclusive(name), engine.Held)
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
		kit.Joins(t, k.open(t, one), kit.Exclusive("a"), engine.Held)
		kit.Joins(t, k.open(t, one), kit.Exclusive("a"), engine.Waiting)
	}
}

// ErrorsShowNoPassword: sesame is the password of URLs that cannot be opened.
func (k Kit) ErrorsShowNoPassword(t *testing.T, urls ...string) {
	t.Parallel()
	for _, url := range urls {
		_, err := k.Open(kit.Within(t), url)
		if err == nil || strings.Contains(err.Error(), "same") {
			t.Errorf("%v", err)
		}
	}
}
