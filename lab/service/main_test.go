package service_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/httplock"
	"leasehold/engines"
	"leasehold/internal/boottime"
	"leasehold/internal/child"
	"leasehold/lab/servers"
	"leasehold/service"
)

// serveURL in the environment makes this program a Server on that engine.
const serveURL = "LEASEHOLD_TEST_SERVE"

func TestMain(m *testing.M) {
	if url := os.Getenv(serveURL); url != "" {
		if err := beServer(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// beServer serves until its input ends, and prints its address and its process ID.
func beServer(url string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	eng, err := engines.Open(ctx, url)
	if err != nil {
		return err
	}
	s, err := service.New(eng, nil)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr(), os.Getpid())
	go func() {
		os.Stdin.Read(make([]byte, 1)) // until the parent closes it, or ends
		cancel()
	}()
	return s.Run(ctx, ln, service.RunOptions{})
}

// process is a Server in a process of its own.
type process struct {
	*child.Process
	addr string
	pid  int
}

func start(t testing.TB, url string) process {
	t.Helper()
	said := make(chan string, 1)
	p, err := child.Start(nil, []string{serveURL + "=" + url}, func(line string) { said <- line })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	select {
	case line := <-said:
		s := process{Process: p}
		if _, err := fmt.Sscan(line, &s.addr, &s.pid); err != nil {
			t.Fatalf("the server says %q: %v", line, err)
		}
		return s
	case <-p.Ended():
		t.Fatal(p.Wait())
	case <-time.After(30 * time.Second):
		t.Fatal("the server does not begin")
	}
	panic("unreachable")
}

// stores are those whose claims outlive a client, each with the URL of a fresh one. One of them
// stands for all in a short run.
func stores(t *testing.T, f func(t *testing.T, name, url string)) {
	for name, url := range map[string]func(t *testing.T) string{
		"dir":        func(t *testing.T) string { return "dir:" + t.TempDir() },
		"redis":      func(t *testing.T) string { return "redis://" + servers.Redis(t, nil).Addr },
		"postgresql": func(t *testing.T) string { return servers.Postgres(t, nil).URL("", "") },
		"mariadb":    func(t *testing.T) string { return servers.MariaDB(t, nil).URL("", "") },
	} {
		if testing.Short() && name != "redis" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, name, url(t))
		})
	}
}

// open is one more client of Servers at these addresses.
func open(t testing.TB, addrs ...string) engine.Engine {
	t.Helper()
	e, err := httplock.Open(t.Context(), "http://"+strings.Join(addrs, ","))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func until(t testing.TB, why string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := boottime.Now() + within; !ok(); time.Sleep(10 * time.Millisecond) {
		if boottime.Now() > end {
			t.Fatal(why)
		}
	}
}
