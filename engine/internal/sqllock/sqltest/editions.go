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

// Editions are what tests of functions need that are older or newer than this client's.
type Editions struct {
	First func(t testing.TB, url string) // makes the tables and functions of the first edition
	Say   func(t testing.TB, url string, newest, oldest int)
	Run   func(t testing.TB, url string) // what "leasehold schema" prints
	Is    func(t testing.TB, url string) int

	// Join, Renew and Leave of a client of the first edition, of name a, as SQL.
	Join, Renew, Leave string

	// Stranger is the URL for a user who may lock, and may not replace anything.
	Stranger func(t testing.TB, url string) string
	Command  string // that is to be run
}

// OlderFunctionsAreReplaced by who may, while clients of the older edition lock.
func (k Kit) OlderFunctionsAreReplaced(t *testing.T, e Editions) {
	t.Parallel()
	url := k.Database(t)
	e.First(t, url)
	db := k.Connect(t, url)
	old := func(call string) {
		t.Helper()
		if _, err := db.ExecContext(testutil.Within(t), k.In(call)); err != nil {
			t.Fatalf("a client of the first edition: %v", err)
		}
	}
	old(e.Join)
	k.Refused(t, e.Stranger(t, url), e.Command)
	k.Refused(t, k.More(url, "no-create"), e.Command)
	a := k.open(t, url)
	if n := e.Is(t, url); n < 2 {
		t.Errorf("the edition is %d", n)
	}
	second := testutil.Joins(t, a, testutil.Lasting("a", time.Minute), engine.Waiting)
	old(e.Renew)
	old(e.Leave)
	if c := testutil.Renew(t, a, second, time.Minute); c.State != engine.Held {
		t.Errorf("behind a client of the first edition that left, it is %v", c.State)
	}
	old(e.Join)
	if l, err := a.Queue(testutil.Within(t), "a"); err != nil || len(l.Claims) != 2 || l.Claims[1].State != engine.Waiting {
		t.Errorf("the queue of both is %v, %v", l, err)
	}
	k.open(t, e.Stranger(t, url))
}

// NewerFunctionsServeOrAreRefused: and are left as they are.
func (k Kit) NewerFunctionsServeOrAreRefused(t *testing.T, e Editions) {
	t.Parallel()
	url := k.Database(t)
	k.open(t, url)
	e.Say(t, url, 1000, 2)
	a := k.open(t, url)
	testutil.Joins(t, a, testutil.Exclusive("a"), engine.Held)
	if n := e.Is(t, url); n != 1000 {
		t.Errorf("a newer edition was replaced by %d", n)
	}
	e.Say(t, url, 1000, 999)
	k.Refused(t, url, "update this program")
}

// TheSchemaMayBeRunAgain while others lock, as often as one likes.
func (k Kit) TheSchemaMayBeRunAgain(t *testing.T, e Editions) {
	t.Parallel()
	url := k.Database(t)
	e.Run(t, url)
	a := k.open(t, k.More(url, "no-create"))
	held := testutil.Joins(t, a, testutil.Lasting("held", time.Minute), engine.Held)
	ctx, end := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := a.Join(ctx, testutil.Exclusive(fmt.Sprint("pair ", i)))
				if err == nil {
					_, err = a.Leave(ctx, []engine.Claim{c})
				}
				if err != nil && ctx.Err() == nil && !strings.Contains(err.Error(), "context") {
					t.Errorf("while it is run: %v", err)
				}
			}
		})
	}
	for range 5 {
		e.Run(t, url)
	}
	end()
	all.Wait()
	if c := testutil.Renew(t, a, held, time.Minute); c.State != engine.Held {
		t.Errorf("what was held is %v", c.State)
	}
}
