package records

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
	"leasehold/engine/queuestore"
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

// A record gives back the memory of a long queue. What closes it still knows whether
// somebody is in the queue, and the last ticket, without which the name cannot be removed.
func TestTheNameOfALongQueueIsSpentOnceItIsEmpty(t *testing.T) {
	e := openEngine(t, t.TempDir()+"/locks")
	c := e.records
	change := func(change func(*queuestore.Record)) {
		t.Helper()
		if _, err := c.Change(t.Context(), "long", func(r *queuestore.Record) error { change(r); return nil }); err != nil {
			t.Fatal(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if kept := cap(c.records["long"].buf); kept > maxKept {
			t.Errorf("%d bytes are kept", kept)
		}
	}
	const long = 9000
	change(func(r *queuestore.Record) {
		r.Queue = queue.Queue{Last: long, Limit: long}
		for i := range uint64(long) {
			r.Queue.Places = append(r.Queue.Places, queue.Place{
				ID: engine.NewID(), Ticket: i + 1, Client: "client", Permits: 1, Held: true, Deadline: r.Now + time.Hour, Asked: time.Hour,
			})
		}
	})
	change(func(r *queuestore.Record) { r.Queue.Places[0].Deadline++ }) // reads the long queue
	c.spend(c.dropIdle(0))
	if len(c.spent) > 0 {
		t.Errorf("%d are in the queue, and its name may be removed: %v", long, c.spent)
	}
	change(func(r *queuestore.Record) { r.Queue.Places = nil })
	c.spend(c.dropIdle(0))
	if got := c.spent["long"].last; got != long {
		t.Errorf("nobody is in the queue, and its last ticket is %d; want %d", got, long)
	}
}
