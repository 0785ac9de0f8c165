package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold/lab/servers"
	"leasehold/torture"
	"leasehold/torture/check"
)

// TestMain is also the clients of the trials.
func TestMain(m *testing.M) {
	if torture.Client(open) {
		return
	}
	os.Exit(m.Run())
}

// A holder that was stopped for longer than its TTL, and asks nobody, goes on beside the next
// one. Whoever tries these locks must see that.
func TestAStoppedHolderThatAsksNobodyIsFound(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t, nil).Addr
	for _, name := range []string{"redsync", "redislock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, found := context.WithTimeout(t.Context(), time.Minute)
			defer found()
			at := place{addr: addr, ttl: 500 * time.Millisecond}
			dir := filepath.Join(t.TempDir(), "out")
			_, err := torture.Run(ctx, torture.Options{
				Open: open, URL: at.url(name), For: time.Minute, Clients: clients, Names: 1, TTL: at.ttl, Seed: 28, Dir: dir,
				Nemeses: faults["stop"](),
				Judged: func(r *check.Result) {
					if r.Of(check.Exclusion).Word == check.Violated {
						found()
					}
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			r, err := torture.Judge(dir)
			if err != nil {
				t.Fatal(err)
			}
			if v := r.Of(check.Exclusion); v.Word != check.Violated {
				t.Errorf("%+v", r.Verdicts)
			}
			x := outcome{Dir: dir, Fault: "stop", Found: map[string]int{}}
			if err := x.judge(); err != nil || x.Doubled == 0 || x.Doubled > x.Struck {
				t.Errorf("%v: %+v", err, x)
			}
		})
	}
}

// Every lock is locked, tried, renewed and unlocked as the table needs it. Those of a store
// share a server, each with a name of its own.
func TestEveryLock(t *testing.T) {
	for store, start := range map[string]func(t *testing.T) string{
		"Redis": func(t *testing.T) string { return servers.Redis(t, nil).Addr },
		"etcd":  func(t *testing.T) string { return servers.Etcd(t, nil).Addr },
		"ZooKeeper": func(t *testing.T) string {
			return servers.ZooKeeper(t, &servers.ZooKeeperOptions{Tick: time.Second}).Addr
		},
		"PostgreSQL": func(t *testing.T) string { return servers.Postgres(t, nil).Addr },
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			addr := start(t)
			for _, p := range peers() {
				if p.store != store {
					continue
				}
				java := p.version != "" && p.version != "this one"
				ways := p.ways
				if java && testing.Short() {
					ways = ways[:1] // each takes two programs of Java
				}
				for _, asked := range ways {
					t.Run(p.name+map[bool]string{true: " asked", false: " notified"}[asked], func(t *testing.T) {
						t.Parallel()
						if java {
							servers.Need(t, "java", "mvn")
						}
						lockEach(t, p, place{addr: addr, ttl: 5 * p.ttl, asked: asked}) // the machine is busy with Java
					})
				}
			}
		})
	}
}

// lockEach has two clients of a lock meet.
func lockEach(t *testing.T, p *peer, at place) {
	name := strings.NewReplacer("/", "-", " ", "-").Replace(t.Name())
	waited := name // on which a waiter gives up
	if p.name == "redisson" {
		waited += "-given-up" // it may stay locked after the interrupt (docs/torture.md)
	}
	first, second := opened(t, at, p, name, waited), opened(t, at, p, name, waited)
	h := free(t, first, name)
	if other, err := second.Lock(t.Context(), name, true); err == nil {
		t.Errorf("a second one has it too: %v", other)
	}
	if waited != name {
		other := free(t, first, waited)
		defer func() {
			if err := other.Unlock(); err != nil {
				t.Error(err)
			}
		}()
	}
	time.Sleep(at.ttl + at.ttl/2) // it is renewed
	if !h.Valid() {
		t.Error("it is lost")
	}
	ctx, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer end()
	if _, err := second.Lock(ctx, waited, false); err == nil {
		t.Error("a second one has it too")
	}
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
	h = free(t, second, name)
	if err := h.Unlock(); err != nil {
		t.Error(err)
	}
}

// free locks a name that nobody holds. Some locks wait for ever if they were late once, so they
// are asked again.
func free(t *testing.T, l torture.Locker, name string) torture.Held {
	t.Helper()
	for attempt := 1; ; attempt++ {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel) // some leases end with it
		timer := time.AfterFunc(15*time.Second, cancel)
		h, err := l.Lock(ctx, name, false)
		late := !timer.Stop()
		switch {
		case err == nil && h.Valid():
			return h
		case err == nil:
			t.Fatal("a lease that is not valid")
		case !late || attempt == 4:
			t.Fatal(err)
		}
	}
}

func opened(t *testing.T, at place, p *peer, names ...string) torture.Locker {
	t.Helper()
	eng, err := open(t.Context(), at.url(p.name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := eng.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range names {
		if _, err := eng.Queue(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	l := eng.(torture.Locker)
	if err := l.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

const page = "../../docs/torture.md"

// The page has a row for each lock, of the version that is tested.
func TestThePageIsOfTheseLocks(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), begin)
	tables, _, found := strings.Cut(rest, end)
	want, rows := strings.Split(results{}.String(), "\n"), strings.Split(tables, "\n")
	if !found || len(rows) != len(want) {
		t.Fatalf("the page has %d lines, and the tables have %d: make peers", len(rows), len(want))
	}
	measured := false
	for i := range rows {
		is, wants := strings.Split(rows[i], " | "), strings.Split(want[i], " | ")
		if measured = measured || strings.HasPrefix(rows[i], "| store"); measured {
			is, wants = is[:min(3, len(is))], wants[:min(3, len(wants))] // what was seen differs
		}
		if got, want := strings.Join(is, " | "), strings.Join(wants, " | "); got != want {
			t.Errorf("the page says\n%s\nnot\n%s", got, want)
		}
	}
	if strings.Contains(tables, "not made") || strings.Contains(tables, "failed") || strings.Contains(tables, "unknown") {
		t.Error("a trial is missing")
	}
}

func TestWhatACellSays(t *testing.T) {
	overlaps := map[string]int{"exclusion": 3}
	for want, x := range map[string]outcome{
		"failed":                     {Failed: "no server"},
		"**3 overlaps** of 40 locks": {Lock: "zk", Fault: "none", Leases: 40, Found: overlaps},
		"not seen in 500 locks":      {Lock: "zk", Fault: "none", Leases: 500, Still: second},
		"void: nobody ran for 3 s":   {Lock: "zk", Fault: "none", Leases: 500, Found: overlaps, Still: 3 * second},
		"void: 499 locks":            {Fault: "stop", Leases: 499, Struck: 30},
		"void: 19 strikes":           {Fault: "stop", Leases: 500, Struck: 19},
		"**2 of 20**":                {Fault: "stop", Leases: 500, Struck: 20, Doubled: 2, Found: overlaps},
		"0 of 30: below 0.1":         {Fault: "stop", Leases: 500, Struck: 30},
	} {
		if got := x.cell(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The later of two trials counts, and the tables stand in the place that the page has for them.
func TestTheTablesOfAFolder(t *testing.T) {
	dir := t.TempDir()
	trials := `{"lock":"zk","fault":"stop","leases":600,"struck":20,"doubled":1,"found":{"exclusion":1,"liveness":2,"notified":1}}
{"lock":"redsync","asked":true,"fault":"wire","leases":1}
{"lock":"redsync","asked":true,"fault":"wire","leases":600,"struck":60,"found":{"honesty":1}}
`
	file := filepath.Join(dir, "page.md")
	if err := os.WriteFile(filepath.Join(dir, resultsFile), []byte(trials), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("above\n"+begin+"old\n"+end+"below\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := command(t.Context(), []string{"-from", dir, "-write", file}, &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"above\n" + begin + "| lock |", "|\n" + end + "below\n",
		"| Redis | redsync | asks | not made | not made | not made | 0 of 60: below 0.05 | honesty 1 (wire) |",
		"| ZooKeeper | go-zookeeper `zk.Lock` | is notified | not made | not made | **1 of 20** | not made | liveness 2 (stop) |",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if err := command(t.Context(), []string{"-from", dir, "-write", filepath.Join(dir, resultsFile)}, &out); err == nil {
		t.Error("a page without a place was taken")
	}
}

func TestWhatCannotBeTriedIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-only", "absent"}, {"-only", "("}, {"-faults", "rain"}} {
		if err := command(t.Context(), append(args, "-out", filepath.Join(t.TempDir(), "out")), &bytes.Buffer{}); err == nil {
			t.Errorf("%q was taken", args)
		}
	}
}
