package filelock

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine"

	"leasehold/engine/filelock/internal/records"
)

func renewed(t *testing.T, e *Engine, c engine.Claim) engine.State {
	t.Helper()
	cs, err := e.Renew(t.Context(), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	return cs[0].State
}

// linkedTime is after how long what is in use is looked for again.
const linkedTime = 100 * time.Millisecond

// An operator, or a clean-up job, removes records that are in use. Whoever
// holds in one learns it by renewing; whoever waits does too; who comes
// meanwhile must not join what is removed.
func TestRecordIsRemovedUnderItsHolder(t *testing.T) {
	for what, remove := range map[string]func(dir, name string) error{
		"the record": func(dir, name string) error { return os.RemoveAll(filepath.Join(dir, records.Path(name))) },
		"its number": func(dir, name string) error { return os.Remove(filepath.Join(dir, records.Path(name), "1")) },
		"all queues": func(dir, name string) error { return os.RemoveAll(filepath.Join(dir, "lines")) },
		"all of it":  func(dir, name string) error { return os.RemoveAll(dir) },
		"and another in its place": func(dir, name string) error {
			path := filepath.Join(dir, records.Path(name))
			was, err := os.ReadFile(filepath.Join(path, "1"))
			return errors.Join(err, os.RemoveAll(path), os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "1"), was[:100], 0o600))
		},
		"moved away": func(dir, name string) error {
			path := filepath.Join(dir, records.Path(name))
			return os.Rename(path, path+".old")
		},
		"removed, and a backup has hard links": func(dir, name string) error {
			path := filepath.Join(dir, records.Path(name))
			return errors.Join(os.Link(filepath.Join(path, "1"), filepath.Join(dir, "backup")), os.RemoveAll(path))
		},
		"all queues moved, and others in their place": func(dir, name string) error {
			path := filepath.Join(dir, "lines")
			return errors.Join(os.Rename(path, path+".old"), os.Mkdir(path, 0o700))
		},
		"all of it moved, and another in its place": func(dir, name string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.MkdirAll(filepath.Join(dir, "lines"), 0o700))
		},
		"and a symbolic link": func(dir, name string) error {
			path := filepath.Join(dir, records.Path(name))
			return errors.Join(os.RemoveAll(path), os.Symlink("/nowhere", path))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			a, b := openEngine(t, dir, quiet()), openEngine(t, dir, quiet())
			held := mustJoin(t, a, exclusive("x"), engine.Held)
			waits := mustJoin(t, b, exclusive("x"), engine.Waiting)
			if got := renewed(t, a, held); got != engine.Held {
				t.Fatalf("the holder is %v", got)
			}
			if err := remove(dir, "x"); err != nil {
				t.Fatal(err)
			}
			for _, e := range []*Engine{a, b} {
				now := e.store.clock()
				e.store.clock = func() time.Duration { return now + linkedTime }
			}
			if got := renewed(t, a, held); got != engine.Gone {
				t.Errorf("the holder of what was removed is %v", got)
			}
			if got := renewed(t, b, waits); got != engine.Gone {
				t.Errorf("who waits in what was removed is %v", got)
			}
			cs, err := a.Leave(t.Context(), []engine.Claim{held})
			if strings.HasPrefix(what, "all of it") && errors.Is(err, os.ErrNotExist) {
				return // by now it knows that nothing will get better here, and says so
			}
			if err != nil || cs[0].State != engine.Gone {
				t.Errorf("Leave says %v, %v", cs, err)
			}
		})
	}
}

// A record that nobody is in is removed, as clean-up jobs do. Some still have it
// open: they must not hold in it while others hold in a new one.
func TestRemovedRecordServesOn(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, quiet()), openEngine(t, dir, quiet())
	c := mustJoin(t, a, exclusive("x"), engine.Held)
	mustLeave(t, a, c, engine.Held)
	if err := os.RemoveAll(filepath.Join(dir, records.Path("x"))); err != nil {
		t.Fatal(err)
	}
	now := a.store.clock()
	a.store.clock = func() time.Duration { return now + linkedTime } // not a moment later
	first := mustJoin(t, a, exclusive("x"), engine.Held)
	second := mustJoin(t, b, exclusive("x"), engine.Waiting)
	mustLeave(t, a, first, engine.Held)
	if got := renewed(t, b, second); got != engine.Held {
		t.Errorf("the second is %v", got)
	}
}

// A client whose files vanish is dead for everybody. It must not go on as if it
// was not: others would end each of its claims.
func TestClientWithoutItsFileStarves(t *testing.T) {
	for what, remove := range map[string]func(dir, client string) error{
		"the file": func(dir, client string) error { return os.Remove(filepath.Join(dir, "clients", client)) },
		"all of its files": func(dir, client string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "clients", client)),
				os.Remove(filepath.Join(dir, "clients", client+".d")), os.Remove(filepath.Join(dir, "clients", client+".s")))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			a, b := openEngine(t, dir, quiet()), openEngine(t, dir, quiet())
			held := mustJoin(t, b, exclusive("x"), engine.Held)
			lost := mustJoin(t, a, exclusive("x"), engine.Waiting)
			if err := remove(dir, a.store.client); err != nil {
				t.Fatal(err)
			}
			now := a.store.clock()
			a.store.clock = func() time.Duration { return now + linkedTime }
			_ = renewed(t, a, lost) // whatever it says
			again := mustJoin(t, a, exclusive("x"), engine.Waiting)
			behind := mustJoin(t, b, exclusive("x"), engine.Waiting)
			if _, err := a.Leave(t.Context(), []engine.Claim{lost}); err != nil {
				t.Fatal(err)
			}
			// It is told, it is listened for, and nobody takes it for dead.
			notified := make(chan engine.Claim, 64)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_ = a.Watch(ctx, func(c engine.Claim) { notified <- c })
			}()
			defer func() { cancel(); <-ended }()
			mustLeave(t, b, held, engine.Held)
			for all, received := false, false; !received || !all; {
				select {
				case c := <-notified:
					all = all || c.Name == "" // what was sent to its old sockets is lost
					if received = received || c.ID == again.ID; c.ID == again.ID && c.State != engine.Held {
						t.Fatalf("told was %v", c.State)
					}
				case <-time.After(patient):
					t.Fatal("it is not told that it holds")
				}
			}
			if got := renewed(t, b, behind); got != engine.Waiting {
				t.Errorf("who is behind it is %v", got)
			}
			life, err := a.LifeFile()
			if err != nil {
				t.Fatal(err)
			}
			defer life.Close()
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			if got := renewed(t, b, behind); got != engine.Held {
				t.Errorf("after Close who is behind it is %v", got)
			}
			files, _ := os.ReadDir(filepath.Join(dir, "clients"))
			for _, f := range files {
				if !strings.HasPrefix(f.Name(), b.store.client) {
					t.Errorf("%s is left", f.Name())
				}
			}
		})
	}
}

// Where no new file can be made, or nobody else comes, it says so, however often
// it is asked.
func TestDirectoryIsGoneInUse(t *testing.T) {
	for what, remove := range map[string]func(dir string) error{
		"removed": os.RemoveAll,
		"moved, and another in its place": func(dir string) error {
			return errors.Join(os.Rename(dir, dir+".old"), os.MkdirAll(filepath.Join(dir, "lines"), 0o700))
		},
		"its clients moved, and others in their place": func(dir string) error {
			path := filepath.Join(dir, "clients")
			return errors.Join(os.Rename(path, path+".old"), os.Mkdir(path, 0o700))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			a := openEngine(t, dir, quiet())
			mustLeave(t, a, mustJoin(t, a, exclusive("x"), engine.Held), engine.Held)
			if err := remove(dir); err != nil {
				t.Fatal(err)
			}
			now := a.store.clock()
			a.store.clock = func() time.Duration { return now + linkedTime }
			_, _ = a.Join(t.Context(), exclusive("y")) // it may be noticed after the first
			for _, name := range []string{"x", "x", "z"} {
				_, err := a.Join(t.Context(), exclusive(name))
				if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "open a new engine") {
					t.Errorf("Join of %q: %v", name, err)
				}
			}
		})
	}
}

// A client that had claims, and whose file cannot be made again, is dead for everybody:
// to renew what it held would say what others do not see.
func TestWhoHasNoFileAnyMoreProvesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a := openEngine(t, dir, quiet())
	held := mustJoin(t, a, exclusive("x"), engine.Held)
	clients := filepath.Join(dir, "clients")
	if err := errors.Join(os.Rename(clients, clients+".old"), os.Mkdir(clients, 0o700)); err != nil {
		t.Fatal(err)
	}
	now := a.store.clock()
	a.store.clock = func() time.Duration { return now + linkedTime }
	_ = renewed(t, a, held) // it is noticed after this one
	if cs, err := a.Renew(t.Context(), []engine.Renewal{{Name: "x", ID: held.ID, Want: time.Minute}}); err == nil {
		t.Errorf("others take it for dead, and Renew says %+v", cs)
	}
}

// Who had to make a new file is not taken for dead by those who have the old one open.
func TestWhoMadeANewFileLives(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, quiet()), openEngine(t, dir, quiet())
	held := mustJoin(t, a, exclusive("x"), engine.Held)
	if b.store.Dead(a.store.client) { // and has it open now
		t.Fatal("it lives")
	}
	if err := os.Remove(filepath.Join(dir, "clients", a.store.client)); err != nil {
		t.Fatal(err)
	}
	now := a.store.clock()
	a.store.clock = func() time.Duration { return now + linkedTime }
	_ = renewed(t, a, held)
	if b.store.Dead(a.store.client) {
		t.Error("it made a new file, and is taken for dead")
	}
}

// What stands where a record belongs, and is none, is refused by name.
func TestWhatCannotGetBetterIsRetried(t *testing.T) {
	place := func(dir string) string { return filepath.Join(dir, records.Path("x")) }
	for what, put := range map[string]func(path string) error{
		"a symbolic link":            func(path string) error { return os.Symlink("/tmp", path) },
		"a dangling symbolic link":   func(path string) error { return os.Symlink("/nowhere", path) },
		"a file":                     func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
		"a symbolic link for number": func(path string) error { return errors.Join(os.Mkdir(path, 0o700), os.Symlink("/dev/null", path+"/1")) },
		"a folder for number":        func(path string) error { return os.MkdirAll(path+"/1", 0o700) },
		"a folder for next number": func(path string) error {
			return errors.Join(os.MkdirAll(path+"/2", 0o700), os.WriteFile(path+"/1", nil, 0o600))
		},
		"a pipe for number": func(path string) error {
			return errors.Join(os.Mkdir(path, 0o700), unix.Mkfifo(path+"/1", 0o600))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			a := openEngine(t, dir, quiet()) // a sweep may remove a folder before there is anything in it
			if err := put(place(dir)); err != nil {
				t.Fatal(err)
			}
			_, err := a.Join(t.Context(), exclusive("x"))
			if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), place(dir)) || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("Join: %v", err)
			}
			// Nobody is in the queue there: that is no secret, and no error.
			id := engine.NewID()
			if cs, err := a.Renew(t.Context(), []engine.Renewal{{Name: "x", ID: id, Want: time.Minute}}); err != nil || cs[0].State != engine.Gone {
				t.Errorf("Renew: %v, %v", cs, err)
			}
			mustLeave(t, a, engine.Claim{Name: "x", ID: id}, engine.Gone)
			if l, err := a.Queue(t.Context(), "x"); err != nil || len(l.Claims) > 0 {
				t.Errorf("Queue: %v, %v", l, err)
			}
			mustJoin(t, a, exclusive("y"), engine.Held)
			for l, err := range a.Queues(t.Context(), "") {
				if err != nil || l.Name != "y" {
					t.Errorf("Queues: %v, %v", l, err)
				}
			}
			if err := os.RemoveAll(place(dir)); err != nil {
				t.Fatal(err)
			}
			mustJoin(t, a, exclusive("x"), engine.Held)
		})
	}
}

// No inodes are left: the first system call of founding fails, whatever is free
// otherwise.
func TestNoInodes(t *testing.T) {
	dir := mount(t, "size=1m,nr_inodes=40,mode=0700", 0)
	a := openEngine(t, dir, nil)
	known := mustJoin(t, a, exclusive("known"), engine.Held)
	for i := 0; ; i++ {
		f, err := os.Create(filepath.Join(dir, "ballast"+strings.Repeat("x", i)))
		if err != nil {
			break
		}
		f.Close()
	}
	_, err := a.Join(t.Context(), exclusive("new"))
	if !errors.Is(err, engine.ErrRefused) || !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "inode") {
		t.Errorf("a new name without inodes: %v", err)
	}
	if got := renewed(t, a, known); got != engine.Held {
		t.Errorf("what has its room is %v", got)
	}
}

// On a full disk one looks: New, Queue and Queues need no room. Join says what is
// missing, where, and what to do; it leaves nothing behind, and works when there is
// room. What was detached is given back.
func TestAFullDiskCanBeLookedAt(t *testing.T) {
	for what, room := range map[string]struct{ options, says string }{
		"no room":   {"size=96k,mode=0700", "free some"},
		"no inodes": {"size=1m,nr_inodes=24,mode=0700", "inode"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := mount(t, room.options, 0)
			first := openEngine(t, dir, nil)
			r := exclusive("held")
			r.Detached, r.WaitTTL = true, time.Hour
			held := mustJoin(t, first, r, engine.Held)
			if err := first.Close(); err != nil {
				t.Fatal(err)
			}
			for i := 0; ; i++ {
				if os.WriteFile(filepath.Join(dir, "ballast"+strconv.Itoa(i)), make([]byte, 4096), 0o600) != nil {
					break
				}
			}
			e := openEngine(t, dir, quiet())
			if l, err := e.Queue(t.Context(), "held"); err != nil || len(l.Claims) != 1 {
				t.Errorf("Queue: %+v, %v; want the claim that holds", l, err)
			}
			for l, err := range e.Queues(t.Context(), "") {
				if err != nil || l.Name != "held" {
					t.Errorf("Queues: %+v, %v; want %q", l, err, "held")
				}
			}
			for _, name := range []string{"held", "new"} {
				if _, err := e.Join(t.Context(), exclusive(name)); !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), room.says) {
					t.Errorf("Join of %q: %v; want ENOSPC, %s and %q", name, err, dir, room.says)
				}
			}
			if _, err := e.LifeFile(); err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), room.says) {
				t.Errorf("LifeFile of a client without one: %v; want one that names %s and says %q", err, dir, room.says)
			}
			mustLeave(t, e, held, engine.Held)
			if left, _ := os.ReadDir(filepath.Join(dir, "clients")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
			ballast, _ := filepath.Glob(filepath.Join(dir, "ballast*"))
			for _, f := range ballast {
				if err := os.Remove(f); err != nil {
					t.Fatal(err)
				}
			}
			mustJoin(t, e, exclusive("new"), engine.Held)
		})
	}
}

// barredRole is a process of a user without privileges.
func barredRole(args []string) error {
	dir := args[0]
	e, err := New(dir, nil)
	if err != nil {
		return err
	}
	defer e.Close()
	ctx := context.Background()
	c, err := e.Join(ctx, exclusive("known"))
	if err != nil || c.State != engine.Held {
		return errors.Join(err, errors.New("the first Join"))
	}
	for _, sub := range []string{"lines", "new"} {
		if err := os.Chmod(filepath.Join(dir, sub), 0o500); err != nil {
			return err
		}
	}
	_, err = e.Join(ctx, exclusive("new"))
	if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "writable") {
		return errors.Join(errors.New("a new name where nothing may be written"), err)
	}
	// Nothing has to be made for what is there.
	if _, err := e.Renew(ctx, []engine.Renewal{{Name: "known", ID: c.ID, Want: time.Minute}}); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, records.Path("known"), "1"), 0); err != nil {
		return err
	}
	e2, err := New(dir, nil)
	if err == nil {
		defer e2.Close()
		_, err = e2.Join(ctx, exclusive("known"))
		if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "writable") {
			return errors.Join(errors.New("a record that may not be opened"), err)
		}
		// It may hold there, for all one knows: nothing learned, and no refusal.
		if _, err = e2.Renew(ctx, []engine.Renewal{{Name: "known", ID: c.ID, Want: time.Minute}}); err == nil || errors.Is(err, engine.ErrRefused) {
			return errors.Join(errors.New("a renewal in a record that may not be opened"), err)
		}
	}
	_, err = os.Stdout.WriteString("as it should be\n")
	return err
}

func TestNoPermission(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	need(t, os.Chown(dir, 12345, 12345), "giving a directory away")
	// The way there has to be open to that user.
	for at := filepath.Dir(dir); at != filepath.Dir(at) && at != filepath.Clean(os.TempDir()); at = filepath.Dir(at) {
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(filepath.Dir(dir), "program")
	if out, err := exec.Command("cp", os.Args[0], program).CombinedOutput(); err != nil {
		t.Fatal(err, string(out))
	}
	cmd := exec.Command(program, dir)
	cmd.Env = append(os.Environ(), "FILELOCK_ROLE=barred")
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	need(t, cmd.Start(), "a process of another user")
	said, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || string(said) != "as it should be\n" {
		t.Errorf("it says %q, %v", said, err)
	}
}
