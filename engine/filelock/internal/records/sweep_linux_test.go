package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"

	"leasehold/engine/filelock/internal/disk"
)

// sweeper is an engine for which everything has been idle long enough, and
// which sweeps when it is told to.
func sweeper(t *testing.T, dir string) *client {
	t.Helper()
	e := openEngine(t, dir)
	e.records.idle = 1
	return e
}

func sweepAll(t *testing.T, e *client) {
	t.Helper()
	time.Sleep(time.Microsecond) // by any clock it is later now
	if _, err := e.records.Sweep(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
}

// freeze stops an engine's clock, so that it does not look again whether a name
// leads to its files: what it finds out, it finds by what stands in them.
func freeze(es ...*client) {
	for _, e := range es {
		now := e.records.clock()
		e.records.clock = func() time.Duration { return now }
	}
}

// addNumber replaces the record of a name, as somebody does who finds its lock
// held by one that is stopped.
func addNumber(t *testing.T, e *client, name string) {
	t.Helper()
	r := newRecord(e.records.lines, name, fileName(name))
	if err := r.find(); err != nil {
		t.Fatal(err)
	}
	defer r.shut()
	if err := e.records.replace(r); err != nil {
		t.Fatal(err)
	}
}

func numbersOf(t *testing.T, dir, name string) []string {
	t.Helper()
	files, err := os.ReadDir(filepath.Join(dir, "lines", fileName(name)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var ns []string
	for _, f := range files {
		ns = append(ns, f.Name())
	}
	return ns
}

func TestSweepTakesWhatIsInUse(t *testing.T) {
	t.Run("detached claims of a dead client, before their TTL", func(t *testing.T) {
		dir := t.TempDir()
		dead := openEngine(t, dir)
		r := exclusive("x")
		r.Detached, r.WaitTTL = true, time.Hour
		mustJoin(t, dead, r, engine.Held)
		e := sweeper(t, dir)
		e.records.dead = func(client string) bool { return client == dead.records.owner }
		sweepAll(t, e)
		mustJoin(t, e, exclusive("x"), engine.Waiting)
		later := e.records.clock
		e.records.clock = func() time.Duration { return later() + 2*time.Hour }
		mustJoin(t, e, exclusive("x"), engine.Held)
	})
	t.Run("a lower number that the record is read from", func(t *testing.T) {
		dir := t.TempDir()
		a, e := openEngine(t, dir), sweeper(t, dir)
		mustJoin(t, a, exclusive("x"), engine.Held)
		addNumber(t, a, "x")
		sweepAll(t, e)
		if got := numbersOf(t, dir, "x"); !slices.Equal(got, []string{"1", "2"}) {
			t.Errorf("left is %v", got)
		}
		mustJoin(t, e, exclusive("x"), engine.Waiting)
	})
	// Who holds the lock of number 1 must find 2 when it looks, however many
	// others there are by then.
	for _, used := range []bool{false, true} {
		t.Run(fmt.Sprintf("the number after one that is locked, in use %v", used), func(t *testing.T) {
			dir := t.TempDir()
			a, e := openEngine(t, dir), sweeper(t, dir)
			mustLeave(t, a, mustJoin(t, a, exclusive("x"), engine.Held), engine.Held)
			stuck := newRecord(a.records.lines, "x", fileName("x"))
			if err := stuck.find(); err != nil {
				t.Fatal(err)
			}
			defer stuck.shut()
			if ok, err := stuck.f.TryLock(); err != nil || !ok {
				t.Fatal(ok, err)
			}
			addNumber(t, a, "x")
			addNumber(t, a, "x")
			c := mustJoin(t, e, exclusive("x"), engine.Held)
			if !used {
				mustLeave(t, e, c, engine.Held)
			}
			sweepAll(t, e)
			if got := numbersOf(t, dir, "x"); !slices.Equal(got, []string{"1", "2", "3"}) {
				t.Errorf("left is %v", got)
			}
			stuck.f.Unlock()
			sweepAll(t, e)
			if got := numbersOf(t, dir, "x"); used && !slices.Equal(got, []string{"3"}) || !used && got != nil {
				t.Errorf("with nobody stopped, left is %v", got)
			}
		})
	}
	t.Run("a record whose tickets are above the high-water mark", func(t *testing.T) {
		dir := t.TempDir()
		e := sweeper(t, dir)
		c := mustJoin(t, e, exclusive("x"), engine.Held)
		mustLeave(t, e, c, engine.Held)
		time.Sleep(time.Microsecond)
		if gone, err := e.records.removeRecord(fileName("x"), c.Ticket-1, 1); err != nil || gone || recordsIn(t, dir) != 1 {
			t.Errorf("with the high-water mark below its last ticket it is gone: %v, %v", gone, err)
		}
		if gone, err := e.records.removeRecord(fileName("x"), c.Ticket, 1); err != nil || !gone || recordsIn(t, dir) != 0 {
			t.Errorf("with the high-water mark at its last ticket it is gone: %v, %v", gone, err)
		}
	})
	t.Run("a claim joined since it was looked at", func(t *testing.T) {
		dir := t.TempDir()
		a, e := openEngine(t, dir), sweeper(t, dir)
		mustJoin(t, a, exclusive("x"), engine.Held)
		if gone, err := e.records.removeRecord(fileName("x"), engine.MaxTicket, 1); err != nil || gone {
			t.Errorf("a record in use is gone: %v, %v", gone, err)
		}
		mustJoin(t, e, exclusive("x"), engine.Waiting)
	})
}

// Several have a record open when it is swept. Each has to see by what stands in
// it that it is gone, also after another has looked into it.
func TestSweptRecordServesOn(t *testing.T) {
	for _, replaced := range []bool{false, true} {
		t.Run(fmt.Sprintf("replaced %v", replaced), func(t *testing.T) {
			dir := t.TempDir()
			a, b, e := openEngine(t, dir), openEngine(t, dir), sweeper(t, dir)
			freeze(a, b)
			for _, e := range []*client{a, b} {
				mustLeave(t, e, mustJoin(t, e, exclusive("x"), engine.Held), engine.Held)
			}
			if replaced { // and the new number used, by neither of them
				addNumber(t, a, "x")
				mustLeave(t, e, mustJoin(t, e, exclusive("x"), engine.Held), engine.Held)
			}
			sweepAll(t, e)
			if n := recordsIn(t, dir); n != 0 {
				t.Fatalf("%d records are left", n)
			}
			mustJoin(t, a, exclusive("x"), engine.Held)
			mustJoin(t, b, exclusive("x"), engine.Waiting)
			if l, err := e.Queue(t.Context(), "x"); err != nil || len(l.Claims) != 2 {
				t.Errorf("two have joined: %+v, %v", l.Claims, err)
			}
		})
	}
}

func TestTheFloorFalls(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir), openEngine(t, dir)
	high := uint64(time.Now().AddDate(1, 0, 0).UnixMicro())
	for i, last := range []uint64{high, high - 5, 1, 0} {
		if err := []*client{a, b}[i%2].records.raiseHighWater(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if got, err := a.records.readHighWater(); err != nil || got != high {
			t.Fatalf("raised to %d and then to %d it is %d, %v", high, last, got, err)
		}
	}
	if c := mustJoin(t, b, exclusive("new"), engine.Held); c.Ticket != high+1 {
		t.Errorf("ticket %d of a new name; the high-water mark is %d", c.Ticket, high)
	}
}

// pages is a file that reads otherwise each time.
type pages [][]byte

func (p *pages) ReadAt(b []byte, off int64) (int, error) {
	page := (*p)[0]
	if off+int64(len(b)) >= int64(len(page)) && len(*p) > 1 {
		*p = (*p)[1:] // this one is read to its end
	}
	if off >= int64(len(page)) {
		return 0, io.EOF
	}
	return copy(b, page[off:]), nil
}

func TestATornReadIsBelieved(t *testing.T) {
	whole := make([]byte, firstSize)
	s := state{name: "x", queue: queue.Queue{Last: 7}}
	slot := appendState(append([]byte(nil), blankHead[:]...), &s)
	seal(slot, 3)
	off, _ := slotAt(0, 3)
	copy(whole[off:], slot)
	torn := func(at int) []byte {
		b := slices.Clone(whole)
		b[int(off)+at] ^= 1
		return b
	}
	for what, c := range map[string]struct {
		reads pages
		known bool
	}{
		"whole":                       {pages{whole}, true},
		"torn once":                   {pages{torn(30), whole}, true},
		"torn twice, in other places": {pages{torn(30), torn(31), whole}, true},
		"torn in the head":            {pages{torn(5), torn(9), whole}, true},
		"empty, then written":         {pages{nil, whole}, true},
		"damaged for good":            {pages{torn(30)}, false},
		"empty for good":              {pages{nil}, false},
	} {
		t.Run(what, func(t *testing.T) {
			r := newRecord(disk.Dir{}, "x", "")
			payload, seq, known, err := r.readSteady(&c.reads)
			if err != nil || known != c.known {
				t.Fatalf("known %v, %v", known, err)
			}
			if known && (seq != 3 || string(payload) != string(slot[slotHead:])) {
				t.Errorf("sequence %d says %q", seq, payload)
			}
		})
	}
}

// A sweep may fail each time. No record goes then, but what dead clients left does.
func TestASweepThatFailsStillLooksForDeadClients(t *testing.T) {
	dir := t.TempDir()
	e := sweeper(t, dir)
	const names = 200 // a sweep begins anywhere, and meets at least one of them
	for i := range names {
		mustLeave(t, e, mustJoin(t, e, exclusive(fmt.Sprint("x", i)), engine.Held), engine.Held)
	}
	if err := os.Symlink("/nowhere", filepath.Join(dir, "floor")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.records.Sweep(t.Context(), ""); !errors.Is(err, ErrHighWater) || recordsIn(t, dir) != names {
		t.Fatalf("a high-water mark that is none was raised: %v, %d records", err, recordsIn(t, dir))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	looks, clock := 0, e.records.clock
	e.records.clock = func() time.Duration {
		if looks++; looks == 10 { // as many sweeps at most
			cancel()
		}
		return clock()
	}
	called := false
	e.records.SweepLoop(ctx, func(context.Context) error {
		called = true
		cancel()
		return nil
	})
	if !called {
		t.Error("nobody looked for dead clients")
	}
}
