//go:build unix

package stores

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine/filelock"
	"leasehold/fence"
	"leasehold/fence/fencehttp"
	"leasehold/lab/servers"
)

// What a holder is told by its environment.
const (
	holderKind   = "LEASEHOLD_TEST_STORE"
	holderURL    = "LEASEHOLD_TEST_URL"
	holderLocks  = "LEASEHOLD_TEST_LOCKS"
	holderFenced = "LEASEHOLD_TEST_FENCED"
)

const (
	name   = "stock:42"
	others = 5 // pieces that are sold while the first holder is stopped
)

// TestStoppedHolder: a process obtains the lock, reads that 100 pieces are left, and is
// stopped past its TTL. Five are sold by another. It goes on and writes 99. With the
// fence it is refused; without, five sales are lost.
func TestStoppedHolder(t *testing.T) {
	for kind, url := range map[string]func(*testing.T) string{
		"postgres":        func(t *testing.T) string { return newPostgres(t).dsn },
		"postgres-pgx":    func(t *testing.T) string { return newPostgres(t).dsn },
		"postgres-column": func(t *testing.T) string { return newPostgres(t).dsn },
		"mysql":           func(t *testing.T) string { return newMariaDB(t).dsn },
		"mysql-column":    func(t *testing.T) string { return newMariaDB(t).dsn },
		"redis":           newRedis,
		"http":            newShop,
	} {
		for _, fenced := range []bool{true, false} {
			what := map[bool]string{true: "fenced", false: "not fenced"}[fenced]
			t.Run(kind+", "+what, func(t *testing.T) {
				t.Parallel()
				stopped(t, kind, url(t), fenced)
			})
		}
	}
}

func stopped(t *testing.T, kind, url string, fenced bool) {
	locks := t.TempDir()
	client := open(t, locks)
	shelf, err := openShelf(within(t), kind, url)
	if err != nil {
		t.Fatal(err)
	}
	defer shelf.close()

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holderKind+"="+kind, holderURL+"="+url, holderLocks+"="+locks, holderFenced+"="+strconv.FormatBool(fenced))
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	lines := bufio.NewScanner(out)
	said := func() string {
		if !lines.Scan() {
			t.Fatal("the holder ended:", lines.Err())
		}
		return lines.Text()
	}
	if got := said(); got != "read 100" {
		t.Fatal(got)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var mark leasehold.Token
	for range others {
		err := client.Do(within(t), name, func(ctx context.Context, l *leasehold.Lease) error {
			mark = l.Token()
			return sell(ctx, shelf, l, fenced)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.WriteString(in, "go on\n"); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	got := said()
	left, err := shelf.read(within(t))
	if err != nil {
		t.Fatal(err)
	}
	sold := others
	if got == "wrote 99" {
		sold++
	}
	lost := sold - (100 - left)
	t.Logf("the holder that was stopped: %s; %d sold, %d left of 100: %d sales lost", got, sold, left, lost)
	if fenced && (got != "refused by "+mark.String() || lost != 0) {
		t.Errorf("want it refused by %v, and nothing lost", mark)
	}
	if !fenced && lost != others {
		t.Errorf("want %d sales lost without a fence, or this test sees nothing", others)
	}
}

func open(t *testing.T, dir string) *leasehold.Client {
	t.Helper()
	c, err := openLocks(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// openLocks is on the embedded engine: the fence is for any.
func openLocks(dir string) (*leasehold.Client, error) {
	eng, err := filelock.New(dir, nil)
	if err != nil {
		return nil, err
	}
	return leasehold.New(eng, &leasehold.Options{TTL: 4 * time.Second}) // more than a busy machine stops it for
}

// sell reads and writes under a lease.
func sell(ctx context.Context, s shelf, l *leasehold.Lease, fenced bool) error {
	n, err := s.read(ctx)
	if err != nil {
		return err
	}
	return write(ctx, s, l, fenced, n-1)
}

func write(ctx context.Context, s shelf, l *leasehold.Lease, fenced bool, n int) error {
	if !fenced {
		return s.write(ctx, n)
	}
	return s.fenced(ctx, n, fence.Of(l))
}

// holder is the process that is stopped: between what it read and what it writes.
func holder(kind string) {
	err := func() error {
		ctx := context.Background()
		client, err := openLocks(os.Getenv(holderLocks))
		if err != nil {
			return err
		}
		s, err := openShelf(ctx, kind, os.Getenv(holderURL))
		if err != nil {
			return err
		}
		l, err := client.Lock(ctx, name)
		if err != nil {
			return err
		}
		n, err := s.read(ctx)
		if err != nil {
			return err
		}
		if !l.Valid() { // the last look; then it is stopped
			return errors.New("lost too early")
		}
		fmt.Println("read", n)
		if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
			return err
		}
		err = write(ctx, s, l, os.Getenv(holderFenced) == "true", n-1)
		if stale, ok := errors.AsType[*fence.StaleError](err); ok {
			if stale.Token != l.Token() || stale.Name != name {
				return fmt.Errorf("refused for %+v", stale)
			}
			fmt.Println("refused by", stale.Mark)
			return nil
		}
		if err == nil {
			fmt.Println("wrote", n-1)
		}
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "holder:", err)
		os.Exit(1)
	}
}

// newShop is a web service whose stock is guarded by the name.
func newShop(t *testing.T) string {
	var mu sync.Mutex
	n := 100
	put := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		n, _ = strconv.Atoi(string(text))
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprint(w, n)
	})
	mux.Handle("PUT /fenced", fencehttp.Handler(&fence.Memory{}, func(*http.Request) string { return name }, put))
	mux.Handle("PUT /", put)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func newRedis(t *testing.T) string {
	s := servers.Redis(t, nil)
	if _, err := s.Do("SET", "pieces", "100"); err != nil {
		t.Fatal(err)
	}
	return s.Addr
}
