package records

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"leasehold/engine"
)

// recordsIn counts the names that a directory has something of.
func recordsIn(t testing.TB, dir string) int {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "lines"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

// A client that uses each name once leaves a bounded number of them, however
// fast it is, and none when it is closed.
func TestNamesUsedOncePileUp(t *testing.T) {
	dir := t.TempDir()
	e, other := openEngine(t, dir), openEngine(t, dir)
	const many = 2000
	last, most := uint64(0), 0
	for i := range many {
		c := mustJoin(t, e, exclusive(fmt.Sprint("job ", i)), engine.Held)
		if c.Ticket <= last {
			t.Fatalf("ticket %d follows %d", c.Ticket, last)
		}
		last = c.Ticket
		mustLeave(t, e, c, engine.Held)
		if i%100 == 0 {
			most = max(most, recordsIn(t, dir))
		}
	}
	if most > maxSpent+2*e.records.most {
		t.Errorf("%d names that nobody uses are still there", most)
	}
	// What others wait for is not swept away.
	held := mustJoin(t, e, exclusive("in use"), engine.Held)
	waits := mustJoin(t, other, exclusive("in use"), engine.Waiting)
	for i := range 300 {
		mustLeave(t, e, mustJoin(t, e, exclusive(fmt.Sprint("more ", i)), engine.Held), engine.Held)
	}
	mustLeave(t, e, held, engine.Held)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	if n := recordsIn(t, dir); n != 1 {
		t.Errorf("after Close %d names are left, one is in use", n)
	}
	mustLeave(t, other, waits, engine.Held)
}
