package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/queuestore"

	"leasehold/engine/filelock/internal/disk"
	"leasehold/engine/filelock/internal/records"
)

func openEngine(t testing.TB, dir string, o *Options) *Engine {
	t.Helper()
	e, err := New(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

// quiet engines sweep only when told to: nothing of theirs runs by itself, so
// that a test may change them.
func quiet() *Options { return &Options{hook: func(string) {}} }

// rebooted ones believe that the machine was started anew.
func rebooted() *Options {
	o := quiet()
	o.boot = func(boot [16]byte) [16]byte {
		boot[3]++
		return boot
	}
	return o
}

var mustJoin, mustLeave = testutil.Joins, testutil.Leaves

func exclusive(name string) engine.Request { return testutil.Lasting(name, time.Minute) }

// recordFile is the path of the one number a name's record has.
func recordFile(t testing.TB, dir, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, records.Path(name), "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of %q: %v %v", name, files, err)
	}
	return files[0]
}

// After a crash of the machine whatever stands in the files is an empty queue.
func TestOtherBoot(t *testing.T) {
	dir := t.TempDir()
	before, after := openEngine(t, dir, nil), openEngine(t, dir, rebooted())
	r := exclusive("x")
	r.Detached, r.WaitTTL = true, time.Hour
	old := mustJoin(t, before, r, engine.Held)
	if l, err := after.Queue(t.Context(), "x"); err != nil || len(l.Claims) > 0 {
		t.Errorf("a claim of another boot is shown: %+v %v", l, err)
	}
	c := mustJoin(t, after, exclusive("x"), engine.Held)
	if c.Ticket <= old.Ticket {
		t.Errorf("ticket %d after the boot follows %d before", c.Ticket, old.Ticket)
	}
}

// Tickets that can be read count even if the wall clock stepped far back: here
// the old one is a year ahead.
func TestTicketsOfAnotherBootCount(t *testing.T) {
	dir := t.TempDir()
	before := openEngine(t, dir, quiet())
	mustLeave(t, before, mustJoin(t, before, exclusive("x"), engine.Held), engine.Held)
	ahead := uint64(time.Now().AddDate(1, 0, 0).UnixMicro())
	if _, err := before.store.records.Change(t.Context(), "x", func(c *queuestore.Record) error {
		c.Queue.Last = ahead
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	o := rebooted()
	o.idle = 1
	after := openEngine(t, dir, o)
	c := mustJoin(t, after, exclusive("x"), engine.Held)
	if c.Ticket <= ahead {
		t.Errorf("ticket %d follows %d", c.Ticket, ahead)
	}
	// The floor carries it over the end of the record, for every name.
	mustLeave(t, after, c, engine.Held)
	if _, err := after.store.records.Sweep(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if files, _ := os.ReadDir(filepath.Join(dir, "lines")); len(files) > 0 {
		t.Fatalf("idle records are left: %v", files)
	}
	for _, name := range []string{"x", "y"} {
		if got := mustJoin(t, after, exclusive(name), engine.Held); got.Ticket <= c.Ticket {
			t.Errorf("ticket %d of %q after its record went follows %d", got.Ticket, name, c.Ticket)
		}
	}
}

// All of these are held at once: on disk they are different names.
func TestNastyNames(t *testing.T) {
	names := []string{
		"a", "A", "ä", "Ä", "a\u0308", "a ", " a", "a.", ".", "..", "../a", "a/..", "a/b", `a\b`, "/", "//", "%2f", "%2F",
		"{a}", "a\n", "\n", "a\r", "\t", "\x7f", "\x01", "*", "?", "[a]", "~", "$HOME", "-rf", "a:b", "con", "NUL", "lines", "floor", "1",
		"ß", "SS", "ſ", "s", "K", "k", "\u212a", "\u200b", "\ufeff", "🔒", filepath.Base(records.Path("a")),
		strings.Repeat("x", engine.MaxName), strings.Repeat("ü", engine.MaxName/2), strings.Repeat("../", 170),
	}
	dir := t.TempDir()
	a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
	for _, name := range names {
		mustJoin(t, a, exclusive(name), engine.Held)
	}
	for _, name := range names {
		r := exclusive(name)
		r.NoWait = true
		mustJoin(t, b, r, engine.Gone)
	}
	var got []string
	for l, err := range b.Queues(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.Name)
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("Queues shows %d names, %d are held:\n%q\n%q", len(got), len(names), got, names)
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Errorf("something was written outside of the directory: %v", entries)
	}
}

func TestOwnersAreShown(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
	owner := engine.Owner{
		Host: "büro\n", PID: 1 << 30, Label: "a label", Since: time.Now().Round(0),
		Holds: []engine.Hold{{Name: "other", Ticket: engine.MaxTicket}, {Name: "third", Ticket: 1}},
	}
	r := exclusive("x")
	r.Owner = owner
	first := mustJoin(t, a, r, engine.Held)
	mustJoin(t, a, exclusive("x"), engine.Waiting)
	l, err := b.Queue(t.Context(), "x")
	if err != nil || len(l.Claims) != 2 {
		t.Fatal(l, err)
	}
	if got := l.Claims[0].Owner; got.Text() != owner.Text() {
		t.Errorf("owner\n%s is shown as\n%s", owner.Text(), got.Text())
	}
	if got := l.Claims[1].Owner; got.Text() != (engine.Owner{}).Text() {
		t.Errorf("an owner that said nothing is shown as %s", got.Text())
	}
	if l.Claims[0].ID != (engine.ID{}) {
		t.Error("Queue shows a claim's ID")
	}
	mustLeave(t, a, first, engine.Held)
}

// A closed engine gives its claims up and leaves no file behind.
func TestCloseLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
	mustJoin(t, a, exclusive("x"), engine.Held)
	r := exclusive("y")
	r.Detached = knowsBoot
	mustJoin(t, a, r, engine.Held)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	mustJoin(t, b, exclusive("x"), engine.Held)
	if knowsBoot {
		mustJoin(t, b, exclusive("y"), engine.Waiting)
	}
	files, _ := os.ReadDir(filepath.Join(dir, "clients"))
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), b.store.client) {
			t.Errorf("%s is left", f.Name())
		}
	}
	if _, err := a.Join(context.Background(), exclusive("z")); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("Join after Close: %v", err)
	}
}

func TestDefaultDir(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		root bool
		want string
	}{
		{map[string]string{"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", "XDG_STATE_HOME": "/x", "HOME": "/h"}, true, "/var/lib/a"},
		{map[string]string{"XDG_STATE_HOME": "/x", "HOME": "/h"}, true, "/x/leasehold"},
		{map[string]string{"HOME": "/root"}, true, "/var/lib/leasehold"},
		{map[string]string{"HOME": "/h", "XDG_STATE_HOME": "relative", "STATE_DIRECTORY": "too"}, false, "/h/.local/state/leasehold"},
		{map[string]string{}, true, "/var/lib/leasehold"},
	} {
		got, err := defaultDir(func(k string) string { return c.env[k] }, c.root, false)
		if err != nil || got != c.want {
			t.Errorf("%v, root %v: %q %v, want %q", c.env, c.root, got, err, c.want)
		}
	}
	_, err := defaultDir(func(string) string { return "" }, false, false)
	if err == nil || !strings.Contains(err.Error(), "--engine") || !strings.Contains(err.Error(), "LEASEHOLD_ENGINE") {
		t.Errorf("with nothing to go by: %v", err)
	}
}

// TestRenewalsDoNotWaitForACrowdThatJoins: as many calls as may work at a time are
// stuck, and more wait for them; what is held is renewed all the same, also in a name
// whose record is not open.
func TestRenewalsDoNotWaitForACrowdThatJoins(t *testing.T) {
	t.Parallel()
	stuck, free := make(chan struct{}, 1000), make(chan struct{})
	var crowd atomic.Bool
	e := openEngine(t, t.TempDir()+"/locks", &Options{hook: func(step string) {
		if crowd.Load() && step == "made" { // a record that is being founded
			stuck <- struct{}{}
			<-free
		}
	}})
	places := shareOf(disk.Limit()).records
	ask := func(name string) engine.Request {
		return engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute}
	}
	var rs []engine.Renewal
	for i := range places + 1 { // more than are kept open
		c, err := e.Join(t.Context(), ask(fmt.Sprint("held ", i)))
		if err != nil || c.State != engine.Held {
			t.Fatal(c, err)
		}
		rs = append(rs, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Minute})
	}
	crowd.Store(true)
	var joins sync.WaitGroup
	defer joins.Wait()
	defer close(free)
	for i := range 2 * places {
		joins.Go(func() { e.Join(context.Background(), ask(fmt.Sprint("crowd ", i))) })
	}
	for range places {
		<-stuck
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	cs, err := e.Renew(ctx, rs)
	if err != nil || len(cs) != len(rs) {
		t.Fatalf("%d of %d are renewed: %v", len(cs), len(rs), err)
	}
	for _, c := range cs {
		if c.State != engine.Held {
			t.Errorf("%+v", c)
		}
	}
}

// TestAStrangerInThePlaceOfTheFloorIsNamed: not the queue that was asked for, which
// nobody should remove.
func TestAStrangerInThePlaceOfTheFloorIsNamed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/locks"
	e := openEngine(t, dir, quiet())
	highWater := filepath.Join(dir, "floor")
	if err := errors.Join(os.RemoveAll(highWater), os.WriteFile(highWater, []byte("junk"), 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := e.Join(t.Context(), engine.Request{Name: "a", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute})
	if err == nil || !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), highWater+" has the name of a record") {
		t.Errorf("Join: %v", err)
	}
}
