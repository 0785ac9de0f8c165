package sqltest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
)

// hostile is what somebody may do to the rows of the name bad.
var hostile = []string{
	`UPDATE @names SET upto = 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @names SET upto = -9223372036854775808 WHERE name = 'bad'`,
	`UPDATE @names SET last = 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @names SET last = -9223372036854775808 WHERE name = 'bad'`,
	`UPDATE @names SET used = 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @names SET used = -9223372036854775808 WHERE name = 'bad'`,
	`UPDATE @names SET size = -2147483648 WHERE name = 'bad'`,
	`UPDATE @names SET size = 2147483647 WHERE name = 'bad'`,
	`UPDATE @names SET lim = -5 WHERE name = 'bad'`,
	`UPDATE @names SET soonest = -9223372036854775808 WHERE name = 'bad'`,
	`UPDATE @names SET seen = 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @names SET seen = -9223372036854775808, soonest = 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @claims SET units = 0 WHERE name = 'bad'`,
	`UPDATE @claims SET units = -2147483648 WHERE name = 'bad'`,
	`UPDATE @claims SET deadline = 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @claims SET deadline = 9223372036854775807, asked = 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @claims SET deadline = -9223372036854775808 WHERE name = 'bad'`,
	`UPDATE @claims SET asked = -9223372036854775808 WHERE name = 'bad'`,
	`UPDATE @claims SET ticket = ticket - 9223372036854775807 WHERE name = 'bad'`,
	`UPDATE @claims SET ticket = 9223372036854775807 WHERE name = 'bad' AND ticket > (SELECT upto FROM @names WHERE name = 'bad')`,
	`UPDATE @claims SET owner = CONVERTED WHERE name = 'bad'`,
	`DELETE FROM @names WHERE name = 'bad'`,
	`DELETE FROM @claims WHERE name = 'bad'`,
	`UPDATE @claims SET evicted = true WHERE name = 'bad'`,
}

// spoil is what somebody may do to the rows of any name. With -short it is every fourth of
// what HostileRowsHarmNoOtherName does.
func (k Kit) spoil(url string) map[string]func(testing.TB, string) {
	kinds := map[string]func(testing.TB, string){}
	for i, sql := range hostile {
		if testing.Short() && i%4 > 0 {
			continue
		}
		kinds[sql] = func(t testing.TB, name string) {
			db := k.Connect(t, url)
			run := func(sql string) {
				if _, err := db.Exec(k.In(strings.NewReplacer("CONVERTED", k.Binary, "'bad'", "'"+name+"'").Replace(sql))); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
			run(sql)
			t.Cleanup(func() {
				run(`DELETE FROM @claims WHERE name = 'bad'`)
				run(`DELETE FROM @names WHERE name = 'bad'`)
			})
		}
	}
	return kinds
}

// HostileRowsHarmNoOtherName: whatever stands in the rows of one name, no call panics, or
// waits for ever, or believes it, and other names go on, also in the same batch.
func (k Kit) HostileRowsHarmNoOtherName(t *testing.T) {
	t.Parallel()
	binary := k.Binary
	url := k.Database(t)
	e, db := k.open(t, url), k.Connect(t, url)
	good := testutil.Joins(t, e, testutil.Lasting("good", time.Hour), engine.Held)
	exec := func(sql string) {
		t.Helper()
		if _, err := db.ExecContext(testutil.Within(t), k.In(sql)); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for _, sql := range hostile {
		sql = strings.ReplaceAll(sql, "CONVERTED", binary)
		exec(`DELETE FROM @claims WHERE name <> 'good'`)
		exec(`DELETE FROM @names WHERE name <> 'good'`)
		first := testutil.Joins(t, e, testutil.Lasting("bad", time.Minute), engine.Held)
		second := testutil.Joins(t, e, testutil.Lasting("bad", time.Minute), engine.Waiting)
		exec(sql)
		ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
		check := func(what string, cs []engine.Claim, err error) {
			if errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("%s: %s does not end", sql, what)
			}
			for _, c := range cs {
				if c.TTL < 0 || c.TTL > engine.MaxTTL || c.Ticket > engine.MaxTicket {
					t.Errorf("%s: %s says %+v", sql, what, c)
				}
			}
		}
		cs, err := e.Renew(ctx, []engine.Renewal{{Name: "bad", ID: first.ID, Want: time.Second}, {Name: "good", ID: good.ID, Want: time.Hour}, {Name: "bad", ID: second.ID, Want: time.Second}})
		check("Renew", cs, err)
		renewed := false
		for _, c := range cs {
			renewed = renewed || c.Name == "good" && c.State == engine.Held
		}
		if !renewed {
			t.Errorf("%s: the good name in the same batch is not renewed: %v, %v", sql, cs, err)
		}
		try := testutil.Exclusive("bad")
		try.NoWait = true
		c, err := e.Join(ctx, try)
		check("Join", []engine.Claim{c}, err)
		c, err = e.Join(ctx, testutil.Exclusive("bad"))
		check("Join", []engine.Claim{c}, err)
		_, err = e.Queue(ctx, "bad")
		check("Line", nil, err)
		seen := false
		for l, err := range e.Queues(ctx, "") {
			check("Lines", nil, err)
			seen = seen || l.Name == "good" && len(l.Claims) == 1
		}
		if !seen {
			t.Errorf("%s: the good name is not listed", sql)
		}
		check("Evict", nil, e.Revoke(ctx, "bad", second.Ticket, true))
		cs, err = e.Leave(ctx, []engine.Claim{first, second})
		check("Leave", cs, err)
		cancel()
	}
	exec(`DELETE FROM @claims WHERE name <> 'good'`)
	exec(`UPDATE @names SET name = ` + binary + ` WHERE name = 'bad'`)
	exec(`INSERT INTO @claims SELECT ` + binary + `, ticket, id, client, owner, units, deadline, asked, detached, evicted` + k.Notified + ` FROM @claims`)
	for l, err := range e.Queues(testutil.Within(t), "") {
		if err != nil || l.Name != "good" {
			t.Errorf("a name that nobody can lock is listed: %q, %v", l.Name, err)
		}
	}
	testutil.Leaves(t, e, good, engine.Held)
}

// WhatIsUsedMeanwhileIsNotSwept: a name that was unused for a day when it was looked at may
// be used until its row is locked. It stays, with who holds it.
func (k Kit) WhatIsUsedMeanwhileIsNotSwept(t *testing.T, found string) {
	t.Parallel()
	url := k.Database(t)
	e, db := k.open(t, url), k.Connect(t, url)
	set := k.Clock(t, url)
	k.Sweep(t, url)
	start := time.Now().UnixMicro()
	set(start)
	testutil.Join(t, e, testutil.Exclusive("old"))
	set(start + 25*time.Hour.Microseconds())
	k.Replace(t, url, "sweep", found, found+"\nUPDATE @names SET seen = t + 86400000000 WHERE name = n"+k.Column+" AND name = 'old';\n")
	for range 3 {
		testutil.Leave(t, e, testutil.Join(t, e, testutil.Exclusive("new")))
	}
	if n := k.count(t, db, `SELECT COUNT(*) FROM @names WHERE name = 'old'`); n != 1 {
		t.Error("a name that was just used is forgotten")
	}
}
