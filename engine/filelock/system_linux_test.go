package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"leasehold/engine"
	"leasehold/lab/servers"
)

// need skips loudly what this machine cannot show.
func need(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil {
		servers.Missing(t, fmt.Sprintf("%s: %v: run the tests as root", what, err))
	}
}

// mount makes a small file system of the test's own.
func mount(t *testing.T, options string, flags uintptr) string {
	t.Helper()
	dir := t.TempDir()
	need(t, unix.Mount("leasehold", dir, "tmpfs", flags, options), "mounting a tmpfs")
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

func TestDirectoriesThatAreRefused(t *testing.T) {
	refused := func(t *testing.T, dir, why string) {
		t.Helper()
		e, err := New(dir, nil)
		if err == nil {
			e.Close()
			t.Fatalf("New accepts a directory that is %s", why)
		}
		if !strings.Contains(err.Error(), why) {
			t.Errorf("the error does not say %q: %v", why, err)
		}
	}
	t.Run("a symbolic link", func(t *testing.T) {
		dir := t.TempDir()
		link := filepath.Join(dir, "link")
		if err := os.Symlink(t.TempDir(), link); err != nil {
			t.Fatal(err)
		}
		refused(t, link, "symbolic link")
	})
	t.Run("a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, path, "not a directory")
	})
	t.Run("writable by others", func(t *testing.T) {
		for _, mode := range []os.FileMode{0o770, 0o707, 0o777 | os.ModeSticky} {
			dir := t.TempDir()
			if err := os.Chmod(dir, mode); err != nil {
				t.Fatal(err)
			}
			refused(t, dir, "can be written by others")
		}
	})
	t.Run("somebody else's", func(t *testing.T) {
		dir := t.TempDir()
		need(t, os.Chown(dir, 12345, 12345), "giving a directory away")
		refused(t, dir, "belongs to user 12345")
	})
	t.Run("a subdirectory that is a symbolic link", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink(t.TempDir(), filepath.Join(dir, "lines")); err != nil {
			t.Fatal(err)
		}
		refused(t, dir, "lines")
	})
	t.Run("read-only", func(t *testing.T) {
		dir := mount(t, "size=64k,mode=0700", 0)
		need(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""), "mounting read-only")
		refused(t, dir, "writable")
	})
}

func TestNewDirectoriesAreClosedToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	e := openEngine(t, dir, nil)
	mustJoin(t, e, exclusive("x"), engine.Held)
	err := filepath.Walk(dir, func(path string, st os.FileInfo, err error) error {
		switch {
		case err != nil:
			return err
		case st.IsDir() && st.Mode().Perm() != 0o700:
			t.Errorf("%s has mode %v", path, st.Mode())
		case st.Mode().IsRegular() && st.Mode().Perm() != 0o600:
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A directory whose path is longer than a socket's address may be.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 50), strings.Repeat("path", 50))
	a := newRemote(t, dir)
	b := newRemote(t, dir)
	first, second := engine.NewID(), engine.NewID()
	a.do("join", "x", first)
	if c := b.do("join", "x", second); c.State != engine.Waiting {
		t.Fatalf("the second is %v", c.State)
	}
	a.do("leave", "x", first)
	if n := b.notification(); n.Claim.ID != second || n.Claim.State != engine.Held {
		t.Errorf("told was %+v", n.Claim)
	}
}

func TestDiskFull(t *testing.T) {
	dir := mount(t, "size=512k,mode=0700", 0)
	a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
	mustLeave(t, a, mustJoin(t, a, exclusive("known"), engine.Held), engine.Held)
	held := mustJoin(t, a, exclusive("held"), engine.Held)
	fill := filepath.Join(dir, "ballast")
	for size := 512 << 10; size > 0; size /= 2 {
		for f, _ := os.OpenFile(fill, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); ; {
			if _, err := f.Write(make([]byte, size)); err != nil {
				f.Close()
				break
			}
		}
	}

	// What has its room goes on.
	waits := mustJoin(t, b, exclusive("held"), engine.Waiting)
	mustLeave(t, a, held, engine.Held)
	mustLeave(t, b, waits, engine.Held)
	mustLeave(t, b, mustJoin(t, b, exclusive("known"), engine.Held), engine.Held)

	// What needs more says so and changes nothing.
	_, err := a.Join(t.Context(), exclusive("new"))
	if !errors.Is(err, unix.ENOSPC) || errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "no room") {
		t.Errorf("a new name on a full disk: %v", err)
	}
	first := mustJoin(t, a, exclusive("known"), engine.Held)
	in := 1
	for ; err == nil || in == 1; in++ {
		r := exclusive("known")
		r.Owner.Label = strings.Repeat("x", 900)
		if _, err = b.Join(t.Context(), r); err == nil && in > 100 {
			t.Fatal("a queue grew without room")
		}
		if err != nil {
			break
		}
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a longer queue on a full disk: %v", err)
	}
	l, err := b.Queue(t.Context(), "known")
	if err != nil || len(l.Claims) != in || l.Claims[0].Ticket != first.Ticket {
		t.Errorf("after a Join that failed %d claims are in the queue, not %d: %v", len(l.Claims), in, err)
	}
	mustLeave(t, a, first, engine.Held)
	if left, err := os.ReadDir(filepath.Join(dir, "new")); err != nil || len(left) > 0 {
		t.Errorf("half-made records are left: %v %v", left, err)
	}
	if made, err := os.ReadDir(filepath.Join(dir, "lines")); err != nil || len(made) != 2 {
		t.Errorf("a record without room was founded: %v %v", made, err)
	}

	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	mustJoin(t, a, exclusive("new"), engine.Held)
}

// A receiver that is stopped gets more notifications than fit. None blocks its sender,
// and when it continues it looks at everything.
func TestQueueFull(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/net/unix/max_dgram_qlen")
	if err != nil {
		t.Fatal(err)
	}
	room, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	dir := filepath.Join(t.TempDir(), "state")
	b, slow := openEngine(t, dir, nil), newRemote(t, dir)
	waiting := map[engine.ID]string{}
	var held []engine.Claim
	for i := range room + 100 {
		name := fmt.Sprint("name ", i)
		held = append(held, mustJoin(t, b, exclusive(name), engine.Held))
		id := engine.NewID()
		waiting[id] = name
		if c := slow.do("join", name, id); c.State != engine.Waiting {
			t.Fatalf("%q is %v", name, c.State)
		}
	}
	slow.signal(unix.SIGSTOP)
	slow.stopped()
	for _, c := range held {
		mustLeave(t, b, c, engine.Held)
	}
	slow.signal(unix.SIGCONT)
	for notified := 0; notified < len(waiting); notified++ {
		n := slow.notification()
		if n.Claim.Name == "" {
			t.Logf("after %d notifications it was told to look at everything", notified)
			return
		}
	}
}

// Somebody who dies between giving up and saying so tells nobody; who waited
// is told all the same, by whoever hears of the death.
func TestDeathBeforeTelling(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	a, b := newRemote(t, dir), newRemote(t, dir)
	first, second := engine.NewID(), engine.NewID()
	a.do("join", "x", first)
	b.do("join", "x", second)
	a.order(order{Do: "leave", Name: "x", ID: first.Secret(), At: "sending", Kill: true})
	if n := b.notification(); n.Claim.ID != second || n.Claim.State != engine.Held {
		t.Errorf("told was %+v", n.Claim)
	}
}

// Deaths in the middle of a queue, of one after the other, leave no gap in who
// listens to whom.
func TestEveryDeathIsHeard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	var procs []*remote
	var ids []engine.ID
	for i := range 5 {
		p, id := newRemote(t, dir), engine.NewID()
		want := engine.Waiting
		if i == 0 {
			want = engine.Held
		}
		if c := p.do("join", "x", id); c.State != want {
			t.Fatalf("place %d is %v", i, c.State)
		}
		procs, ids = append(procs, p), append(ids, id)
	}
	for _, i := range []int{2, 1, 0} {
		procs[i].signal(unix.SIGKILL)
		_, _ = procs[i].cmd.Process.Wait()
	}
	if n := procs[3].notification(); n.Claim.ID != ids[3] || n.Claim.State != engine.Held {
		t.Errorf("told was %+v", n.Claim)
	}
	procs[3].signal(unix.SIGKILL)
	if n := procs[4].notification(); n.Claim.ID != ids[4] || n.Claim.State != engine.Held {
		t.Errorf("told was %+v", n.Claim)
	}
}

// Permits: the first in the queue hears of the death of every holder, also of those
// that came to hold after it joined.
func TestEveryHolderIsHeard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	permit := func(e *Engine, permits int32) engine.Claim {
		r := engine.Request{Name: "x", ID: engine.NewID(), Permits: permits, Limit: 2, WaitTTL: time.Minute}
		c, err := e.Join(context.Background(), r)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	// a and b hold; c waits, d waits behind it. b leaves, c holds, and now d
	// is the first in the queue and has to hear of a, whom it never met.
	a, b, c, d := &client{Engine: openEngine(t, dir, nil)}, openEngine(t, dir, nil), openEngine(t, dir, nil), openEngine(t, dir, nil)
	defer a.Close()
	permit(a.Engine, 1)
	second := permit(b, 1)
	permit(c, 1)
	listenedFor(t, a.store.client, 1) // by c
	last := permit(d, 1)
	notifications := make(chan engine.Claim, 64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = d.Watch(ctx, func(c engine.Claim) { notifications <- c })
	}()
	<-notifications
	mustLeave(t, b, second, engine.Held)
	listenedFor(t, a.store.client, 2) // d is told to look, and connects to a
	a.die()
	select {
	case got := <-notifications:
		if got.ID != last.ID || got.State != engine.Held {
			t.Errorf("told was %+v", got)
		}
	case <-time.After(patient):
		t.Error("the first in the queue was not told that a holder died")
	}
	cancel()
	<-ended
}

// listenedFor waits until as many clients listen for the end of one.
func listenedFor(t *testing.T, client string, want int) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(time.Millisecond) {
		sockets, err := os.ReadFile("/proc/net/unix")
		if err != nil {
			t.Fatal(err)
		}
		got := -1 // the one that they connect to
		for socket := range strings.Lines(string(sockets)) {
			if strings.HasSuffix(socket, "/"+client+".s\n") {
				got++
			}
		}
		if got == want {
			return
		}
		if time.Since(begin) > patient {
			t.Fatalf("%d clients listen for the end of a holder, want %d", got, want)
		}
	}
}

// A child process does not keep its parent's claims.
func TestChildDoesNotInherit(t *testing.T) {
	dir := t.TempDir()
	a := &client{Engine: openEngine(t, dir, nil)}
	defer a.Close()
	b := openEngine(t, dir, nil)
	mustJoin(t, a.Engine, exclusive("x"), engine.Held)
	child := exec.Command("sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	}()
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", child.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", child.Process.Pid, fd.Name()))
		if strings.HasPrefix(to, dir) {
			t.Errorf("the child has %s", to)
		}
	}
	a.die()
	mustJoin(t, b, exclusive("x"), engine.Held)
}

// What dead clients leave is swept: their files, and the queues they were in.
func TestDeadClientsAreSwept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	for range 3 {
		p := newRemote(t, dir)
		p.do("join", "x", engine.NewID())
		p.signal(unix.SIGKILL)
		_, _ = p.cmd.Process.Wait()
	}
	e := openEngine(t, dir, &Options{idle: 1, hook: func(string) {}})
	if _, err := e.store.records.Sweep(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if err := e.store.lives.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"lines", "clients", "new"} {
		files, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), e.store.client) {
				t.Errorf("%s/%s is left", sub, f.Name())
			}
		}
	}
}
