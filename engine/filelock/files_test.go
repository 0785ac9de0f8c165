package filelock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
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

func exclusive(name string) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Units: engine.Max, Limit: engine.Max, WaitTTL: time.Minute}
}

func mustJoin(t testing.TB, e *Engine, r engine.Request, want engine.State) engine.Claim {
	t.Helper()
	c, err := e.Join(t.Context(), r)
	if err != nil {
		t.Fatalf("Join %q: %v", r.Name, err)
	}
	if c.State != want {
		t.Fatalf("Join %q: %v, want %v", r.Name, c.State, want)
	}
	return c
}

func mustLeave(t testing.TB, e *Engine, c engine.Claim, want engine.State) {
	t.Helper()
	cs, err := e.Leave(t.Context(), []engine.Claim{c})
	if err != nil || cs[0].State != want {
		t.Fatalf("Leave %q: %v %v, want %v", c.Name, cs, err, want)
	}
}

// recordFile is the path of the one number a name's record has.
func recordFile(t testing.TB, dir, name string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "lines", fileName(name), "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files of %q: %v %v", name, files, err)
	}
	return files[0]
}

func TestDamagedFiles(t *testing.T) {
	for what, damage := range map[string]func(b []byte) []byte{
		"empty":           func([]byte) []byte { return nil },
		"one byte":        func([]byte) []byte { return []byte{0} },
		"all zero":        func(b []byte) []byte { return make([]byte, len(b)) },
		"cut in half":     func(b []byte) []byte { return b[:300] },
		"cut in the head": func(b []byte) []byte { return b[:7] },
		"garbage": func(b []byte) []byte {
			rand.Read(b)
			return b
		},
		"garbage behind the magic": func(b []byte) []byte {
			for off := 0; off+4 < len(b); off += slotSize {
				rand.Read(b[off:])
				copy(b[off:], slotMagic)
			}
			return b
		},
		"one bit":        func(b []byte) []byte { return flip(b, slotHead+40) },
		"sealed text":    func(b []byte) []byte { return sealed(b, []byte("this is not a line")) },
		"sealed nothing": func(b []byte) []byte { return sealed(b, nil) },
		"very long":      func(b []byte) []byte { return append(b, make([]byte, 1<<20)...) },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
			last := mustJoin(t, a, exclusive("x"), engine.Held)
			mustLeave(t, a, last, engine.Held)
			path := recordFile(t, dir, "x")
			was, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(was), 0o600); err != nil {
				t.Fatal(err)
			}
			// One with the file open, one that opens it now, one that looks.
			if l, err := b.Line(t.Context(), "x"); err != nil || len(l.Claims) > 0 {
				t.Fatalf("Line: %+v %v", l, err)
			}
			first := mustJoin(t, a, exclusive("x"), engine.Held)
			if first.Ticket <= last.Ticket {
				t.Errorf("ticket %d follows %d", first.Ticket, last.Ticket)
			}
			second := mustJoin(t, b, exclusive("x"), engine.Waiting)
			mustLeave(t, a, first, engine.Held)
			mustLeave(t, b, second, engine.Held)
		})
	}
}

func flip(b []byte, at int) []byte {
	for ; at < len(b); at += slotSize {
		b[at] ^= 4
	}
	return b
}

func sealed(b, payload []byte) []byte {
	s := append(make([]byte, slotHead), payload...)
	seal(s, 1<<40)
	copy(b, s)
	return b
}

// After a crash of the machine whatever stands in the files is an empty line.
func TestOtherBoot(t *testing.T) {
	dir := t.TempDir()
	before, after := openEngine(t, dir, nil), openEngine(t, dir, rebooted())
	r := exclusive("x")
	r.Detached, r.WaitTTL = true, time.Hour
	old := mustJoin(t, before, r, engine.Held)
	if l, err := after.Line(t.Context(), "x"); err != nil || len(l.Claims) > 0 {
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
	before := openEngine(t, dir, nil)
	mustLeave(t, before, mustJoin(t, before, exclusive("x"), engine.Held), engine.Held)
	ahead := uint64(time.Now().AddDate(1, 0, 0).UnixMicro())
	r := newRecord(before.store.cells.lines, "x", fileName("x"))
	if err := r.find(); err != nil {
		t.Fatal(err)
	}
	defer r.shut()
	r.state = state{boot: before.store.cells.boot(), name: "x"}
	r.state.line.Last = ahead
	r.out = appendState(append(r.out[:0], blankHead[:]...), &r.state)
	seal(r.out, 1000)
	if err := before.store.cells.store(r, 1000); err != nil {
		t.Fatal(err)
	}
	after := openEngine(t, dir, rebooted())
	c := mustJoin(t, after, exclusive("x"), engine.Held)
	if c.Ticket != ahead+1 {
		t.Errorf("ticket %d follows %d", c.Ticket, ahead)
	}
	// The floor carries it over the end of the record, for every name.
	mustLeave(t, after, c, engine.Held)
	after.store.cells.idle = 1
	if _, err := after.store.cells.sweep(t.Context(), ""); err != nil {
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
		"ß", "SS", "ſ", "s", "K", "k", "\u212a", "\u200b", "\ufeff", "🔒", fileName("a"),
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
	for l, err := range b.Lines(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l.Name)
	}
	slices.Sort(got)
	slices.Sort(names)
	if !slices.Equal(got, names) {
		t.Errorf("Lines shows %d names, %d are held:\n%q\n%q", len(got), len(names), got, names)
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) != 1 {
		t.Errorf("something was written outside of the directory: %v", entries)
	}
}

// More names than records are kept open, and a line longer than any slot.
func TestManyNamesAndLongLines(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
	many := 3 * a.store.cells.most
	var cs []engine.Claim
	for i := range many {
		cs = append(cs, mustJoin(t, a, exclusive(fmt.Sprint("name ", i)), engine.Held))
	}
	if n := len(a.store.cells.records); n > a.store.cells.most {
		t.Errorf("%d records are open", n)
	}
	var rs []engine.Renewal
	for _, c := range cs {
		rs = append(rs, engine.Renewal{Name: c.Name, ID: c.ID, Want: time.Hour})
	}
	got, err := a.Renew(t.Context(), rs)
	if err != nil || len(got) != many {
		t.Fatalf("Renew of %d answers %d: %v", many, len(got), err)
	}
	for _, c := range got {
		if c.State != engine.Held || c.TTL != time.Hour {
			t.Fatalf("renewed is %+v", c)
		}
	}

	var in []engine.Claim
	for i := range 300 {
		r := exclusive("long")
		r.Owner = engine.Owner{Host: "host", Label: strings.Repeat("l", 500), PID: i, Since: time.Now()}
		want := engine.Waiting
		if i == 0 {
			want = engine.Held
		}
		in = append(in, mustJoin(t, []*Engine{a, b}[i%2], r, want))
	}
	l, err := b.Line(t.Context(), "long")
	if err != nil || len(l.Claims) != len(in) {
		t.Fatalf("a line of %d is shown as one of %d: %v", len(in), len(l.Claims), err)
	}
	for i, c := range l.Claims {
		if c.Ticket != in[i].Ticket || c.Owner.PID != i || len(c.Owner.Label) != 500 {
			t.Fatalf("place %d is %+v", i, c)
		}
	}
	for i, c := range in {
		mustLeave(t, []*Engine{a, b}[i%2], c, engine.Held)
	}
	st, err := os.Stat(recordFile(t, dir, "long"))
	if err != nil || st.Size() > classEnd(2) {
		t.Errorf("an empty line that was long once takes %d bytes: %v", st.Size(), err)
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
	l, err := b.Line(t.Context(), "x")
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
		t.Error("Line shows a claim's ID")
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
