package answers

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/engines"
	"leasehold/lab/servers"
	"leasehold/torture"
	"leasehold/torture/check/linear"
	"leasehold/torture/history"
)

var (
	calls   = flag.Int("answers.calls", 0, "how many calls of each engine are checked (default 1500; 300 with -short)")
	clients = flag.Int("answers.clients", 5, "how many clients make them")
	seed    = flag.Uint64("answers.seed", 0, "of their choices (default: by the clock)")
)

// wanted is how many calls of each engine are checked.
func wanted() int {
	if testing.Short() {
		return cmp.Or(*calls, 300)
	}
	return cmp.Or(*calls, 1500)
}

type opening func(ctx context.Context) (engine.Engine, error)

func by(url string) opening {
	return func(ctx context.Context) (engine.Engine, error) { return engines.Open(ctx, url) }
}

// everyEngine runs a test on each engine, on servers of its own.
func everyEngine(t *testing.T, f func(t *testing.T, open opening)) {
	redis := func(t *testing.T, form string, n int) opening {
		var addrs []string
		for range n {
			addrs = append(addrs, servers.Redis(t, nil).Addr)
		}
		return by(fmt.Sprintf(form, strings.Join(addrs, ",")))
	}
	for _, e := range []struct {
		name string
		open func(t *testing.T) opening
	}{
		{"memlock", func(*testing.T) opening {
			s := memlock.NewStore(nil)
			return func(context.Context) (engine.Engine, error) { return s.Engine(), nil }
		}},
		{"filelock", func(t *testing.T) opening { return by("dir://" + t.TempDir()) }},
		{"queuelock", func(t *testing.T) opening { return redis(t, "redis://%s", 1) }},
		{"plainlock", func(t *testing.T) opening { return redis(t, "redis://%s?layout=plain", 1) }},
		{"redissonlock", func(t *testing.T) opening { return redis(t, "redisson://%s", 1) }},
		{"redissonlock fenced", func(t *testing.T) opening { return redis(t, "redisson://%s?kind=fenced", 1) }},
		{"redissonlock readwrite", func(t *testing.T) opening { return redis(t, "redisson://%s?kind=readwrite", 1) }},
		{"redlock", func(t *testing.T) opening { return redis(t, "redlock://%s?restart-delay=off&max-ttl=10s", 3) }},
		{"etcdlock", func(t *testing.T) opening { return by("etcd://" + servers.Etcd(t, nil).Addr) }},
		{"zklock", func(t *testing.T) opening { return by("zookeeper://" + servers.ZooKeeper(t, nil).Addr) }},
		{"pglock", func(t *testing.T) opening { return by(servers.Postgres(t, nil).URL("", "")) }},
		{"mysqllock", func(t *testing.T) opening { return by(servers.MariaDB(t, nil).URL("", "")) }},
	} {
		t.Run(e.name, func(t *testing.T) {
			if e.name != "redlock" { // whose masters a busy machine makes silent
				t.Parallel()
			}
			f(t, e.open(t))
		})
	}
}

func TestTheAnswersOfEveryEngineHaveAnOrder(t *testing.T) {
	everyEngine(t, func(t *testing.T, open opening) {
		// Masters of redlock that a busy machine makes silent leave many calls without an
		// answer, and then too many orders are possible to follow: such a trial shows little.
		for try := 1; ; try++ {
			calls, answered, undecided := judged(t, open)
			if undecided*2 <= calls && answered*2 >= calls || t.Failed() {
				return
			}
			if try == 3 {
				t.Fatalf("in each of %d trials most calls have no answer or are undecided, at last %d have an answer and %d are undecided, of %d", try, answered, undecided, calls)
			}
		}
	})
}

// judged is one trial of an engine.
func judged(t *testing.T, open opening) (made, answered, undecided int) {
	t.Helper()
	o := Options{Open: open, Clients: *clients, Calls: wanted(), Seed: cmp.Or(*seed, uint64(time.Now().UnixNano()))}
	began := time.Now()
	events, err := Record(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	recorded := time.Since(began)
	began = time.Now()
	r, err := linear.Check(events, linear.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("seed %d: %d calls in %v, %d without an answer; checked in %v: %d undecided, %d findings",
		o.Seed, r.Calls, recorded.Round(time.Millisecond), r.Lost, time.Since(began).Round(time.Millisecond), r.Undecided, len(r.Findings))
	if r.Calls < o.Calls {
		t.Errorf("%d calls, not %d", r.Calls, o.Calls)
	}
	for _, f := range r.Findings {
		t.Errorf("%s: %s, lines %v", f.Name, f.Text, f.Lines)
	}
	if len(r.Findings) > 0 {
		t.Log(keep(t, events))
	}
	results := results(events)
	t.Logf("results: %v", results)
	return r.Calls, results[history.OK], r.Undecided
}

func results(events []history.Event) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		if e.Kind == history.Answer {
			n[e.Result]++
		}
	}
	return n
}

// keep writes a history down, for go test -artifacts, and says where.
func keep(t *testing.T, events []history.Event) string {
	path := filepath.Join(t.ArtifactDir(), torture.History)
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := history.NewWriter(f)
	for _, e := range events {
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	return "the history is in " + path
}
