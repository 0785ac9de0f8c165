package filelock

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/records"
)

// as is the options of a client that sees a file of a container's own in place of
// the kernel's identity.
func as(boot [16]byte) *Options {
	o := quiet()
	o.masked = &boot
	return o
}

// Only the kernel's own file says which boot this is.
func TestAMaskedBootIsNotKnown(t *testing.T) {
	file := filepath.Join(t.TempDir(), "boot_id")
	if err := os.WriteFile(file, []byte("01234567-89ab-cdef-0123-456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, known := range map[string]bool{
		"/proc/sys/kernel/random/boot_id": true,
		"/proc/sys/kernel/random/uuid":    false, // another one each time
		"/proc/version":                   false,
		file:                              false,
	} {
		boot, err := bootID(path)
		if err != nil || (boot != [16]byte{}) != known {
			t.Errorf("%s: boot %x, %v; want one that is known: %v", path, boot, err, known)
		}
	}
	if _, err := bootID(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("without /proc there is no error")
	}
}

// A client that does not know the boot, as in a container, excludes those that do,
// and declares what it cannot promise.
func TestClientsThatDoNotKnowTheBootExcludeThoseThatDo(t *testing.T) {
	dir := t.TempDir()
	host, container := openEngine(t, dir, quiet()), openEngine(t, dir, as([16]byte{}))
	for _, order := range [][2]*Engine{{host, container}, {container, host}, {container, openEngine(t, dir, as([16]byte{}))}} {
		first := mustJoin(t, order[0], exclusive("x"), engine.Held)
		second := mustJoin(t, order[1], exclusive("x"), engine.Waiting)
		if second.Ticket <= first.Ticket {
			t.Errorf("ticket %d follows %d", second.Ticket, first.Ticket)
		}
		mustLeave(t, order[0], first, engine.Held)
		mustLeave(t, order[1], second, engine.Held)
	}
	if got := host.Guarantees().Fencing; got != engine.FencingAlways {
		t.Errorf("a client that knows the boot declares fencing %v", got)
	}
	if got := container.Guarantees().Fencing; got != engine.FencingMemory {
		t.Errorf("a client that does not know the boot declares fencing %v", got)
	}
}

// Two that live and name different boots do not share a kernel, or one of them is
// deceived. Whoever comes second is refused; nothing is granted past who holds.
func TestLivingClientsThatDisagreeAreRefused(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, as([16]byte{1})), openEngine(t, dir, as([16]byte{2}))
	held := mustJoin(t, a, exclusive("x"), engine.Held)
	_, err := b.Join(t.Context(), exclusive("x"))
	if !errors.Is(err, engine.ErrRefused) || !errors.Is(err, records.ErrDisagree) || !strings.Contains(err.Error(), dir) {
		t.Errorf("Join: %v; want a refusal that says where and why", err)
	}
	if _, err := b.Queue(t.Context(), "x"); !errors.Is(err, records.ErrDisagree) {
		t.Errorf("Queue: %v", err)
	}
	if _, err := b.store.records.Sweep(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if got := renewed(t, a, held); got != engine.Held {
		t.Errorf("the holder is %v", got)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	mustJoin(t, b, exclusive("x"), engine.Held)
}

// What a client wrote that does not know the boot is of the boot of the next one
// that does, and ends with it.
func TestWhoKnowsTheBootNotesIt(t *testing.T) {
	dir := t.TempDir()
	container, host := openEngine(t, dir, as([16]byte{})), openEngine(t, dir, as([16]byte{1}))
	r := exclusive("x")
	r.Detached, r.WaitTTL = true, time.Hour
	mustJoin(t, container, r, engine.Held)
	mustLeave(t, host, mustJoin(t, host, exclusive("x"), engine.Waiting), engine.Waiting)
	after := as([16]byte{2})
	mustJoin(t, openEngine(t, dir, after), exclusive("x"), engine.Held)
}

// The clock does not go back within a boot: who reads a later one than its own
// shares no clock with who wrote it, or the machine was started since.
func TestALaterClockIsAnotherBootOrADisagreement(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, as([16]byte{})), openEngine(t, dir, as([16]byte{}))
	now := a.store.clock
	a.store.clock = func() time.Duration { return now() + time.Hour }
	first := mustJoin(t, a, exclusive("x"), engine.Held)
	if _, err := b.Join(t.Context(), exclusive("x")); !errors.Is(err, records.ErrDisagree) {
		t.Errorf("Join beside a holder that lives: %v", err)
	}
	a.store.lives.Die() // as with its machine
	if c := mustJoin(t, b, exclusive("x"), engine.Held); c.Ticket <= first.Ticket {
		t.Errorf("ticket %d follows %d", c.Ticket, first.Ticket)
	}
}

// The same with a mount namespace, as systemd-nspawn and LXC make it.
func TestContainersWithABootOfTheirOwnExcludeEachOther(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	inside := func(id string) *remote {
		file := filepath.Join(t.TempDir(), "boot_id")
		if err := os.WriteFile(file, []byte(id+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		script := `mount --bind "$1" /proc/sys/kernel/random/boot_id && exec "$2" "$3"`
		need(t, exec.Command("unshare", "-m", "sh", "-c", `mount --bind "$1" /proc/sys/kernel/random/boot_id`, "sh", file).Run(), "a mount namespace")
		var r remote
		r.cmd, r.in, r.out = startAs(t, "client", exec.Command("unshare", "-m", "sh", "-c", script, "sh", file, os.Args[0], dir))
		return r.begin(t)
	}
	a, b, host := inside("01234567-89ab-cdef-0123-456789abcdef"), inside("fedcba98-7654-3210-fedc-ba9876543210"), newRemote(t, dir)
	first, second, third := engine.NewID(), engine.NewID(), engine.NewID()
	if c := a.do("join", "x", first); c.State != engine.Held {
		t.Fatalf("the first is %v", c.State)
	}
	if c := b.do("join", "x", second); c.State != engine.Waiting {
		t.Fatalf("the second, in another container, is %v", c.State)
	}
	if c := host.do("join", "x", third); c.State != engine.Waiting {
		t.Fatalf("the third, outside, is %v", c.State)
	}
	a.signal(unix.SIGKILL)
	if n := b.notification(); n.Claim.ID != second || n.Claim.State != engine.Held {
		t.Errorf("the second was told %+v", n.Claim)
	}
	b.signal(unix.SIGKILL)
	if n := host.notification(); n.Claim.ID != third || n.Claim.State != engine.Held {
		t.Errorf("the third was told %+v", n.Claim)
	}
}

// A power cut loses what was not synced, and a board without a battery begins years
// earlier. Tickets rise all the same.
func TestTicketsRiseOverAPowerCut(t *testing.T) {
	for what, lose := range map[string]func(dir string) error{
		"everything that is not synced": func(dir string) error {
			return errors.Join(os.RemoveAll(filepath.Join(dir, "lines")), os.RemoveAll(filepath.Join(dir, "floor")))
		},
		"and the reserve's last name": func(dir string) error {
			marks, _ := filepath.Glob(filepath.Join(dir, "reserve", "*"))
			if len(marks) != 1 {
				return errors.New("no mark")
			}
			return errors.Join(os.RemoveAll(filepath.Join(dir, "lines")), os.RemoveAll(filepath.Join(dir, "floor")), os.Rename(marks[0], marks[0]+".new"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			last := uint64(0)
			for boot := range byte(4) {
				o := quiet()
				o.boot = func([16]byte) [16]byte { return [16]byte{1, boot} }
				o.micros = func() uint64 { return 1_000_000 } // the first second of 1970
				e, err := New(dir, o)
				if err != nil {
					t.Fatal(err)
				}
				e.store.clock = func() time.Duration { return time.Minute } // of which no ticket profits
				for range 3 {
					c := mustJoin(t, e, exclusive("x"), engine.Held)
					if c.Ticket <= last {
						t.Fatalf("boot %d: ticket %d follows %d", boot, c.Ticket, last)
					}
					last = c.Ticket
					mustLeave(t, e, c, engine.Held)
				}
				if err := e.Close(); err != nil {
					t.Fatal(err)
				}
				if marks, _ := os.ReadDir(filepath.Join(dir, "reserve")); len(marks) > 2 {
					t.Errorf("boot %d: the reserve has %d marks; want 2 at most", boot, len(marks))
				}
				if boot < 3 {
					if err := lose(dir); err != nil && boot == 0 {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// What earlier boots have reserved is there for every client of this one, not only for
// the first that reserves for itself.
func TestTicketsRiseForEveryClientAfterAPowerCut(t *testing.T) {
	dir := t.TempDir()
	in := func(boot byte) *Options {
		o := quiet()
		o.boot = func([16]byte) [16]byte { return [16]byte{1, boot} }
		return o
	}
	before := openEngine(t, dir, in(1))
	old := mustJoin(t, before, exclusive("y"), engine.Held)
	mustLeave(t, before, old, engine.Held)
	if err := errors.Join(before.Close(), os.RemoveAll(filepath.Join(dir, "lines")), os.RemoveAll(filepath.Join(dir, "floor"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"x", "y"} {
		o := in(2)
		o.micros = func() uint64 { return 1_000_000 } // the first second of 1970
		e := openEngine(t, dir, o)
		if c := mustJoin(t, e, exclusive(name), engine.Held); c.Ticket <= old.Ticket {
			t.Errorf("ticket %d of %q follows %d", c.Ticket, name, old.Ticket)
		}
	}
}
