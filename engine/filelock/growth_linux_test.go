package filelock

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

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

// Asking about names does not make them.
func TestAskingForANameMakesIt(t *testing.T) {
	dir := t.TempDir()
	e := openEngine(t, dir, quiet())
	id := engine.NewID()
	if cs, err := e.Renew(t.Context(), []engine.Renewal{{Name: "a", ID: id, Want: time.Minute}}); err != nil || cs[0].State != engine.Gone {
		t.Error(cs, err)
	}
	if cs, err := e.Leave(t.Context(), []engine.Claim{{Name: "b", ID: id}}); err != nil || cs[0].State != engine.Gone {
		t.Error(cs, err)
	}
	if err := e.Revoke(t.Context(), "c", 1, false); err != engine.ErrNoClaim {
		t.Error(err)
	}
	if n := recordsIn(t, dir); n != 0 {
		t.Errorf("%d names were made by asking for them", n)
	}
}

// What clients that were killed have left goes as well, however much it is:
// more than one sweep looks at, and without another minute's wait.
func TestSweepFallsBehind(t *testing.T) {
	dir := t.TempDir()
	dead := &client{Engine: openEngine(t, dir, quiet())}
	now := dead.store.clock
	dead.store.clock = func() time.Duration { return now() - 2*time.Minute } // so long ago
	const many = 2500
	last := uint64(0)
	for i := range many {
		r := exclusive(fmt.Sprint("job ", i))
		last = mustJoin(t, dead.Engine, r, engine.Held).Ticket
	}
	if n := recordsIn(t, dir); n != many {
		t.Fatalf("%d names in use have %d records", many, n)
	}
	dead.die()
	defer dead.Close()
	e := openEngine(t, dir, nil)
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		n := recordsIn(t, dir)
		if n == 0 {
			break
		}
		if time.Since(begin) > patient {
			t.Fatalf("%d names of a dead client are left after %v", n, time.Since(begin))
		}
	}
	if c := mustJoin(t, e, exclusive("job 7"), engine.Held); c.Ticket <= last {
		t.Errorf("ticket %d follows %d", c.Ticket, last)
	}
}
