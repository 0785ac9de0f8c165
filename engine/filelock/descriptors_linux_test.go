package filelock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"leasehold/engine"
)

// fewRole is a process that may have only so many files open.
func fewRole(args []string) error {
	limit, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
		return err
	}
	o := &Options{}
	if args[2] == "swept" {
		o = quiet() // what a sweep takes is what the role takes
	}
	e, err := New(args[0], o)
	if err != nil {
		fmt.Println("New:", err)
		return nil
	}
	defer e.Close()
	return map[string]func(*Engine, int) error{
		"hold": holdMany, "at once": manyAtOnce, "eat": eatAll, "peers": meetMany, "swept": holdBesideASweep,
	}[args[2]](e, int(limit))
}

// join is Join and no waiting.
func joinFew(e *Engine, name string) (engine.Claim, error) {
	r := exclusive(name)
	r.NoWait = true
	c, err := e.Join(context.Background(), r)
	if err == nil && c.State != engine.Held {
		err = fmt.Errorf("%q is %v", name, c.State)
	}
	return c, err
}

func openFiles() int {
	files, _ := os.ReadDir("/proc/self/fd")
	return len(files) - 1 // one is the directory's
}

// holdMany holds many names at once, and says how many files are open.
func holdMany(e *Engine, limit int) error {
	most := 0
	for i := range 500 {
		if _, err := joinFew(e, fmt.Sprint("name ", i)); err != nil {
			return fmt.Errorf("name %d: %w", i, err)
		}
		most = max(most, openFiles())
	}
	fmt.Println("open", most)
	return nil
}

// holdBesideASweep holds many names while a sweep has all open that it may have.
func holdBesideASweep(e *Engine, limit int) error {
	for range sweeps {
		f, err := os.Open("/dev/null")
		if err != nil {
			return err
		}
		defer f.Close()
	}
	return holdMany(e, limit)
}

// manyAtOnce uses many names at the same time.
func manyAtOnce(e *Engine, limit int) error {
	var wg sync.WaitGroup
	errs := make(chan error, 300)
	for i := range cap(errs) {
		wg.Go(func() {
			for range 5 {
				c, err := joinFew(e, fmt.Sprint("name ", i))
				if err == nil {
					_, err = e.Leave(context.Background(), []engine.Claim{c})
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	fmt.Println("open", openFiles())
	return nil
}

// eatAll leaves no descriptor to the engine but those that it has.
func eatAll(e *Engine, limit int) error {
	for i := range 20 {
		if _, err := joinFew(e, fmt.Sprint("name ", i)); err != nil {
			return err
		}
	}
	var eaten []*os.File
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		eaten = append(eaten, f)
	}
	// It closes what it kept, and goes on.
	if _, err := joinFew(e, "another"); err != nil {
		return err
	}
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		eaten = append(eaten, f)
	}
	for i := 0; ; i++ { // until there is nothing left to close
		_, err := joinFew(e, fmt.Sprint("yet another ", i))
		if f, err := os.Open("/dev/null"); err == nil {
			eaten = append(eaten, f)
		}
		if err != nil {
			if errors.Is(err, engine.ErrRefused) {
				return fmt.Errorf("refused, though files may be closed: %w", err)
			}
			fmt.Println("says", err)
			break
		}
		if i == 100 {
			return errors.New("descriptors from nowhere")
		}
	}
	for _, f := range eaten {
		f.Close()
	}
	if _, err := joinFew(e, "at last"); err != nil {
		return err
	}
	return nil
}

// meetMany waits behind holders of many other processes' clients.
func meetMany(e *Engine, limit int) error {
	most := 0
	for i := range 200 {
		r := exclusive(fmt.Sprint("held ", i))
		if c, err := e.Join(context.Background(), r); err != nil || c.State != engine.Waiting {
			return fmt.Errorf("%q is %v, %v", r.Name, c.State, err)
		}
		most = max(most, openFiles())
	}
	fmt.Println("open", most)
	return nil
}

func few(t *testing.T, dir string, limit int, what string) string {
	t.Helper()
	_, _, out := start(t, "few", dir, strconv.Itoa(limit), what)
	b, err := io.ReadAll(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestDescriptorsRunOut(t *testing.T) {
	for _, c := range []struct {
		limit int
		what  string
	}{
		{1024, "hold"}, {256, "hold"}, {64, "hold"}, {1024, "at once"}, {256, "at once"}, {64, "at once"}, {28, "at once"},
	} {
		t.Run(fmt.Sprintf("%s at a limit of %d", c.what, c.limit), func(t *testing.T) {
			t.Parallel()
			said := few(t, filepath.Join(t.TempDir(), "state"), c.limit, c.what)
			var open int
			if n, _ := fmt.Sscanf(said, "open %d", &open); n != 1 {
				t.Fatalf("it says %q", said)
			}
			if c.limit >= 64 && open > c.limit/2 {
				t.Errorf("%d files are open", open)
			}
		})
	}
	t.Run("behind the clients of others", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		for i := range 200 {
			mustJoin(t, openEngine(t, dir, quiet()), exclusive(fmt.Sprint("held ", i)), engine.Held)
		}
		said := few(t, dir, 256, "peers")
		var open int
		if n, _ := fmt.Sscanf(said, "open %d", &open); n != 1 || open > 128 {
			t.Errorf("it says %q", said)
		}
	})
	t.Run("all eaten by others", func(t *testing.T) {
		said := few(t, filepath.Join(t.TempDir(), "state"), 256, "eat")
		if !strings.HasPrefix(said, "says ") || !strings.Contains(said, "ulimit -n") {
			t.Errorf("it says %q", said)
		}
	})
	// The engine works with as few as it accepts, also while it sweeps.
	t.Run("too few for anything", func(t *testing.T) {
		// With 8 the runtime of Go 1.27 ends the process, before it comes to an engine.
		t.Run("and no sweep", func(t *testing.T) { tooFew(t, "hold", 9) })
		t.Run("beside a sweep", func(t *testing.T) { tooFew(t, "swept", 20) })
	})
}

// tooFew has a process try each limit from one at which nothing works.
func tooFew(t *testing.T, what string, from int) {
	var all [40]string
	t.Run("at once", func(t *testing.T) { // each waits, as a process does that the race detector ends
		for limit := from; limit < 40; limit++ {
			t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
				t.Parallel()
				all[limit] = few(t, filepath.Join(t.TempDir(), "state"), limit, what)
			})
		}
	})
	works := false
	for limit := from; limit < 40; limit++ {
		said := all[limit]
		fails := strings.HasPrefix(said, "New: ")
		if fails && (!strings.Contains(said, "ulimit -n") || !strings.Contains(said, fmt.Sprint(limit))) {
			t.Errorf("at %d it says %q", limit, said)
		}
		if works && fails || !fails && !strings.HasPrefix(said, "open ") {
			t.Errorf("at %d it says %q", limit, said)
		}
		works = works || !fails
	}
	if !works {
		t.Error("40 files are not enough")
	}
}

// descriptors lists what this process has open.
func descriptors(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range files {
		if to, err := os.Readlink("/proc/self/fd/" + f.Name()); err == nil {
			all = append(all, f.Name()+" "+to)
		}
	}
	return all
}

func TestCloseLeaksADescriptor(t *testing.T) {
	dir := t.TempDir()
	mine := func() []string { // of this directory, and sockets
		return slices.DeleteFunc(descriptors(t), func(s string) bool {
			return !strings.Contains(s, dir) && !strings.Contains(s, "socket:")
		})
	}
	before := mine()
	a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
	c := mustJoin(t, a, exclusive("x"), engine.Held)
	waits := mustJoin(t, b, exclusive("x"), engine.Waiting)
	mustLeave(t, a, c, engine.Held)
	mustLeave(t, b, waits, engine.Held)
	for i := range 300 { // more than are kept, and a high-water mark
		mustLeave(t, a, mustJoin(t, a, exclusive(fmt.Sprint(i)), engine.Held), engine.Held)
	}
	held := mustJoin(t, a, exclusive("y"), engine.Held)
	mustJoin(t, b, exclusive("y"), engine.Waiting)
	life, err := a.LifeFile()
	if err != nil {
		t.Fatal(err)
	}
	life.Close()
	mustLeave(t, a, held, engine.Held)
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	if after := mine(); len(after) > len(before) {
		t.Errorf("before\n%s\nafter\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	}
}

// Close looks whether what it has used can be removed, and so which clients live.
func TestCloseLeavesNoFileOfOthersOpen(t *testing.T) {
	dir := t.TempDir()
	a, b := openEngine(t, dir, nil), openEngine(t, dir, nil)
	mustLeave(t, a, mustJoin(t, a, exclusive("x"), engine.Held), engine.Held)
	mustJoin(t, b, exclusive("x"), engine.Held)
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Fatal(err)
	}
	for _, open := range descriptors(t) {
		if strings.Contains(open, dir) {
			t.Errorf("%s is open", open)
		}
	}
}
