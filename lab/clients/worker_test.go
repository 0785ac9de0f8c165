package clients

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/fence"
	"leasehold/fence/fencehttp"
	"leasehold/lab/servers"
)

// resource is the number to which workers add. It refuses stale tokens, of reads too.
type resource struct {
	slow chan chan struct{} // one for a write that is slow on its way: it receives twice before it goes on

	mu    sync.Mutex
	count int
}

func (r *resource) now() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

func (r *resource) serve(t *testing.T) string {
	fenced := fencehttp.Handler(&fence.Memory{}, func(*http.Request) string { return "counter" }, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet {
			fmt.Fprintf(w, `{"count": %d}`, r.now())
			return
		}
		var body struct{ Count int }
		if err := json.NewDecoder(q.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		r.count = body.Count
		r.mu.Unlock()
		fmt.Fprintln(w, "{}")
	}))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodPut {
			select {
			case steps := <-r.slow:
				<-steps
				<-steps
			default:
			}
		}
		fenced.ServeHTTP(w, q)
	}))
	t.Cleanup(h.Close)
	return h.URL
}

// worker is a process that adds to a resource.
type worker struct {
	cmd    *exec.Cmd
	lines  *bufio.Reader
	stderr strings.Builder
}

func begin(t *testing.T, s *live, resource string, env []string, command ...string) *worker {
	t.Helper()
	w := &worker{}
	w.cmd = exec.CommandContext(t.Context(), command[0], append(command[1:], s.URL, "counter/1", resource)...)
	w.cmd.Env = append(append(os.Environ(), "LEASEHOLD_TOKEN="+s.app), env...)
	w.cmd.Stderr, w.cmd.WaitDelay = &w.stderr, time.Second
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	w.lines = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

// ends waits for the process, and returns its exit code and what else it printed.
func (w *worker) ends(t *testing.T) (code int, said string) {
	t.Helper()
	rest, err := io.ReadAll(w.lines)
	if err != nil {
		t.Error(err)
	}
	err = w.cmd.Wait()
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		err, code = nil, exit.ExitCode()
	}
	if err != nil {
		t.Error(err)
	}
	return code, string(rest) + w.stderr.String()
}

func (w *worker) works(t *testing.T) {
	t.Helper()
	if line, err := w.lines.ReadString('\n'); line != "working\n" {
		_, said := w.ends(t)
		t.Fatalf("it does not work: %q, %v\n%s", line, err, said)
	}
}

// long is more seconds than any of these tests works, if it ends as it must.
const long = "SECONDS=30"

// works tries a program that adds to a resource under a lock.
func works(t *testing.T, command ...string) {
	servers.Need(t, command[0])
	t.Run("many add, and each one counts", func(t *testing.T) {
		t.Parallel()
		s, r := serve(t), &resource{}
		const processes, rounds = 4, 8
		var all [processes]*worker
		url := r.serve(t)
		for i := range all {
			all[i] = begin(t, s, url, []string{fmt.Sprint("ROUNDS=", rounds), "SECONDS=0.03", "TTL=30s"}, command...)
		}
		for _, w := range all {
			if code, said := w.ends(t); code != 0 {
				t.Errorf("exit code %d: %s", code, said)
			}
		}
		if n := r.now(); n != processes*rounds {
			t.Errorf("%d were added, want %d", n, processes*rounds)
		}
	})
	t.Run("it stops when its lock is revoked", func(t *testing.T) {
		t.Parallel()
		s, r := serve(t), &resource{}
		w := begin(t, s, r.serve(t), []string{long, "TTL=15s"}, command...)
		w.works(t)
		s.revoke(t, false)
		stopped(t, w, r, "revoked")
	})
	t.Run("it stops when the service is away", func(t *testing.T) {
		t.Parallel()
		s, r := serve(t), &resource{}
		w := begin(t, s, r.serve(t), []string{long, "TTL=6s"}, command...)
		w.works(t)
		s.away.Store(true)
		stopped(t, w, r, "no renewal has succeeded in time")
	})
	t.Run("it asks again when a balancer reached no server", func(t *testing.T) {
		t.Parallel()
		s, r := serve(t), &resource{}
		s.unreached.Store(http.MethodPost, true)
		s.unreached.Store(http.MethodPut, true)
		w := begin(t, s, r.serve(t), []string{long, "TTL=15s"}, command...)
		w.works(t)
		select {
		case <-s.renewed:
		case <-time.After(within):
			t.Error("no renewal comes after one that a balancer answered")
		}
		s.revoke(t, false)
		stopped(t, w, r, "revoked")
	})
	t.Run("the resource refuses who comes too late", func(t *testing.T) {
		t.Parallel()
		s, r, url, w, arrived := late(t, command...)
		if code, said := begin(t, s, url, nil, command...).ends(t); code != 0 {
			t.Errorf("the next one: exit code %d: %s", code, said)
		}
		step(t, arrived)
		if code, said := w.ends(t); code != 75 || !strings.Contains(said, "newer token") || r.now() != 1 {
			t.Errorf("exit code %d, %d added, want 75 and 1: %s", code, r.now(), said)
		}
	})
	t.Run("the resource refuses who comes after the next one's read", func(t *testing.T) {
		t.Parallel()
		s, r, url, w, arrived := late(t, command...)
		next := begin(t, s, url, []string{long, "TTL=15s"}, command...)
		next.works(t) // it has read 0, and would write 1 as well
		step(t, arrived)
		if code, said := w.ends(t); code != 75 || !strings.Contains(said, "newer token") || r.now() != 0 {
			t.Errorf("exit code %d, %d added, want 75 and 0: %s", code, r.now(), said)
		}
		s.revoke(t, false)
		stopped(t, next, r, "revoked")
	})
}

// late is a worker that has lost its lock, without notice, while its write is on the way. Two steps
// of arrived let it arrive: the first is done.
func late(t *testing.T, command ...string) (s *live, r *resource, url string, w *worker, arrived chan struct{}) {
	t.Helper()
	s, r = serve(t), &resource{slow: make(chan chan struct{}, 1)}
	arrived = make(chan struct{})
	r.slow <- arrived
	url = r.serve(t)
	w = begin(t, s, url, []string{"TTL=1h"}, command...)
	w.works(t)
	step(t, arrived)
	s.revoke(t, true) // which it learns in 20 minutes
	return s, r, url, w, arrived
}

// step lets a slow write go one step on.
func step(t *testing.T, c chan<- struct{}) {
	t.Helper()
	select {
	case c <- struct{}{}:
	case <-time.After(within):
		t.Fatal("no write arrives")
	}
}

// stopped expects that a worker ends without having written.
func stopped(t *testing.T, w *worker, r *resource, why string) {
	t.Helper()
	if code, said := w.ends(t); code != 75 || !strings.Contains(said, why) {
		t.Errorf("exit code %d, want 75 and that it says %q: %s", code, why, said)
	}
	if n := r.now(); n != 0 {
		t.Errorf("it wrote %d", n)
	}
}

// revoke ends the only claim there is. Only without now its holder learns why.
func (s *live) revoke(t *testing.T, now bool) {
	t.Helper()
	var queue struct {
		Claims []struct{ Ticket string }
	}
	s.call(t, http.MethodGet, "/v1/queues/counter%2F1", "", &queue)
	if len(queue.Claims) != 1 {
		t.Fatalf("%d claims", len(queue.Claims))
	}
	s.call(t, http.MethodPost, "/v1/revoke", fmt.Sprintf(`{"name": "counter/1", "ticket": %q, "now": %v}`, queue.Claims[0].Ticket, now), nil)
}

func (s *live) call(t *testing.T, method, path, body string, v any) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Bearer "+s.operator)
	a, err := s.Client().Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s", method, path, a.Status)
	}
	if v != nil {
		if err := json.NewDecoder(a.Body).Decode(v); err != nil {
			t.Fatal(err)
		}
	}
}
