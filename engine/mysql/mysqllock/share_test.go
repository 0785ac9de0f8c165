package mysqllock

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/engine/internal/sqllock/sqltest"
	"leasehold/lab/servers"
)

// share has calls made together. It is the state of each that was answered.
func share(t *testing.T, e *Engine, calls []sqllock.Call) map[string]engine.State {
	t.Helper()
	states := map[string]engine.State{}
	if err := e.client.Share(within(t), calls, func(i int, c engine.Claim) {
		if c.ID != calls[i].ID || c.Name != calls[i].Name {
			t.Errorf("the answer to %s is of %s", calls[i].Name, c.Name)
		}
		states[c.Name] = c.State
	}); err != nil {
		t.Fatal(err)
	}
	return states
}

// Callers of many names share statements, and each is answered for its own claim.
func TestCallersOfManyNamesShareStatements(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, nil) // whose calls are counted
	e, db := open(t, s.URL("", "")), connect(t, s.URL("", ""))
	made := func() (n int) {
		t.Helper()
		var name string
		if err := db.QueryRow(`SHOW GLOBAL STATUS LIKE 'Questions'`).Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	sqltest.CallersOfManyNamesShareStatements(t, e, made)
}

// A name that somebody else keeps locked keeps none waiting that shares a statement with it.
func TestAStuckNameKeepsNoneWaitingThatSharesItsStatement(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url), connect(t, url)
	var calls []engine.Request
	for i := range 8 {
		r := exclusive(fmt.Sprint("name ", i))
		leave(t, e, join(t, e, r))
		calls = append(calls, exclusive(r.Name))
	}
	tx := begin(t, db)
	lock(t, tx, "name 3")
	if got := share(t, e, sqltest.Calls(calls, false)); got["name 3"] != 0 || len(got) != 7 {
		t.Errorf("answered: %v", got)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	join(t, e, calls[3])
	tx = begin(t, db)
	lock(t, tx, "name 5")
	if got := share(t, e, sqltest.Calls(calls, true)); got["name 5"] != 0 || len(got) != 7 || got["name 3"] != engine.Held {
		t.Errorf("left: %v", got)
	}
}

// What is refused for the rows of one name costs no other: each is then made alone.
func TestRowsOfOneNameCostNoOtherThatSharesItsStatement(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url), connect(t, url)
	for _, name := range []string{"bad", "good"} {
		leave(t, e, join(t, e, exclusive(name)))
	}
	do(t, db, `CREATE TRIGGER refuse BEFORE INSERT ON @claims FOR EACH ROW
		BEGIN IF NEW.name = 'bad' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'bad'; END IF; END`)
	if got := share(t, e, sqltest.Calls([]engine.Request{exclusive("good"), exclusive("bad")}, false)); len(got) != 0 {
		t.Errorf("of what was rolled back is answered: %v", got)
	}
	if c := join(t, e, exclusive("good")); c.State != engine.Held {
		t.Errorf("the good name is %v", c.State)
	}
}

// Calls that do not fit into a packet are left out, and made alone.
func TestSharedCallsFitIntoAPacket(t *testing.T) {
	t.Parallel()
	s := servers.MariaDB(t, &servers.MariaDBOptions{Args: []string{"--max-allowed-packet=16384"}})
	e := open(t, s.URL("", ""))
	var calls []engine.Request
	for i := range 32 {
		r := exclusive(fmt.Sprint(strings.Repeat("long ", 80), i))
		leave(t, e, join(t, e, r))
		calls = append(calls, exclusive(r.Name))
	}
	if got := share(t, e, sqltest.Calls(calls, false)); len(got) == 0 || len(got) == len(calls) {
		t.Errorf("%d of %d calls are answered", len(got), len(calls))
	}
}

// Only what is simple is answered: what is to wait, to be counted or to be removed is not.
func TestWhatSharedCallsLeaveOut(t *testing.T) {
	t.Parallel()
	url := database(t)
	e, db := open(t, url), connect(t, url)
	held, waits := join(t, e, lasting("queue")), join(t, e, lasting("queue"))
	marked, expired, later := join(t, e, lasting("marked")), join(t, e, lasting("expired")), join(t, e, lasting("later"))
	if err := e.Revoke(within(t), "marked", marked.Ticket, false); err != nil {
		t.Fatal(err)
	}
	do(t, db, `UPDATE @claims SET deadline = 1 WHERE name = 'expired'`)
	do(t, db, `UPDATE @names SET seen = seen + 3600000000 WHERE name = 'later'`) // the clock has stepped back since
	var joins, leaves []engine.Request
	for _, c := range []engine.Claim{held, marked, expired, later} {
		joins = append(joins, exclusive(c.Name))
		leaves = append(leaves, engine.Request{Name: c.Name, ID: c.ID})
	}
	leaves = append(leaves, engine.Request{Name: "queue", ID: waits.ID}, engine.Request{Name: "nobody's", ID: waits.ID})
	calls := slices.Concat(sqltest.Calls(append(joins, exclusive("new")), false), sqltest.Calls(leaves, true))
	if got := share(t, e, calls); len(got) != 0 {
		t.Errorf("answered: %v", got)
	}
}
