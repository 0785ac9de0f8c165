package torture_test

import (
	"bufio"
	"cmp"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine/enginetest/broken"
	"leasehold/torture"
	"leasehold/torture/check"
	"leasehold/torture/check/linear"
	"leasehold/torture/history"
)

var (
	allBroken = flag.Bool("broken.all", false, "torture every broken lock, not a few")
	within    = flag.Duration("broken.within", 2*time.Minute, "the time in which a broken lock must be found")
	rightFor  = flag.Duration("broken.right", 8*time.Second, "how long the right lock is tortured")
)

// answers is what is violated if an engine's own answers contradict its queue.
const answers = "answers"

// dies is what is found if a client's process ends by itself.
const dies = "a client ends by itself"

// wrong is a lock that is wrong in one way, and what torture must say of it.
type wrong struct {
	lock    string // the fault of package broken, or what a client does
	client  string // of clients: the store is right
	found   string // a Property, answers or dies
	unseen  string // or why a trial cannot show it
	nemeses string
	clients int           // default 3
	names   int           // default 3
	ttl     time.Duration // default 300 ms
	sample  bool          // it is one of the few that every run of the tests looks for
	short   bool          // with -short as well
}

// left reports whether this run of the tests leaves it out.
func (x *wrong) left() bool {
	return !*allBroken && (!x.sample || testing.Short() && !x.short)
}

var wrongs = []wrong{
	// Clients that are wrong.
	{lock: "trust counted from the answer", client: "answer", found: "exclusion", ttl: time.Second, sample: true},
	{lock: "tokens from the clocks of the clients", client: "clock", found: "tokens", sample: true, short: true},
	{lock: "a token of few digits, which two leases share", client: "coarse", found: "tokens", nemeses: "stop"},

	// Who holds.
	{lock: "a race lets two hold", found: "exclusion", sample: true, short: true},
	{lock: "readers overtake a waiting writer", found: "order"},
	{lock: "grant out of order", found: "order", clients: 8, names: 6},
	{lock: "a third reader waits", found: answers, sample: true},
	{lock: "the sum of permits overflows", found: answers},
	{lock: "a reused token", found: "tokens"},
	{lock: "tokens start again after a restart", found: "tokens", nemeses: "restart"},
	{lock: "a second Join of one ID stands behind the first", found: answers},
	{lock: "NoWait leaves a claim", found: answers},
	{lock: "NoWait refuses a free name", found: answers, sample: true, short: true},
	{lock: "Replaces loses the turn", found: answers},
	{lock: "Replaces keeps the turn of who is contended", found: answers},
	{lock: "a disagreeing limit is taken", found: answers},

	// How long.
	{lock: "a shorter Renew shortens", found: answers},
	{lock: "Renew grants half of what it was asked for", unseen: "a client trusts no more than it was granted, and renews in time: it costs requests"},
	{lock: "Renew forgets permits and limit", unseen: "nobody relies on what a renewal says of permits: the client knows what it asked for"},
	{lock: "an expired claim is revived", found: answers, nemeses: "stop"},
	{lock: "an expired claim is passed over and not removed", found: answers, nemeses: "stop"},
	{lock: "held from a plain read of a clock that is ahead", found: answers, nemeses: "kill"},
	{lock: "becoming held extends", found: "liveness", nemeses: "kill"},
	{lock: "a cancelled Join is an orphan", found: answers},
	{lock: "Leave ends another's claim", found: answers, nemeses: "stop"},
	{lock: "Leave lies about what it found", found: answers},
	{lock: "a detached claim ends with its client", unseen: "a served world does not see that a process ends: its claims end by their TTL, detached or not"},
	{lock: "Revoke does not check the ticket", found: answers},
	{lock: "a marked claim is extended", unseen: "it stays for one more TTL, which the bound allows: it costs time"},
	{lock: "a dead client holds on", unseen: "a served world declares that a dead client's claims end by their TTL, and they do"},

	// Who is told.
	{lock: "a wake-up is lost and there is no fallback", found: answers, clients: 8},
	{lock: "who becomes held is not told", unseen: "waiters poll, and are granted within the bound: it costs time"},
	{lock: "nobody is ever told", unseen: "waiters poll, and are granted within the bound: it costs time"},
	{lock: "everybody is told of everything", unseen: "it costs requests, and no promise of a lock"},
	{lock: "a call tells its own claim", unseen: "the client ignores what it knows: it costs a notification"},
	{lock: "contended and never told", unseen: "an idle claim stays for its time-out, which the bound allows: it costs time"},
	{lock: "Watch ignores its context", unseen: "a process ends whatever its Watch does"},

	// Where much happens at once, or something hostile.
	{lock: "a Renew under way takes what its claim has left", unseen: "the orphan ends by its TTL, which the bound allows: it costs time"},
	{lock: "the hundredth Leave of a name is lost", found: answers, clients: 2},
	{lock: "a refused connection is the answer", unseen: "a call that fails says nothing, and may fail while the server is full"},
	{lock: "a crowd is turned away", unseen: "a call that fails says nothing: it is made again until there is room"},
	{lock: "deep in a crowd the order is lost", unseen: "it needs 31 claims in one queue, and callers of one process share a claim"},
	{lock: "each call reads all who wait", unseen: "it costs requests, and no promise of a lock"},
	{lock: "junk panics", found: dies, nemeses: "junk"},
	{lock: "junk sends a call round in cycles", unseen: "calls on that name fail at their deadline, and calls that fail say nothing"},
	{lock: "junk under one name takes the others with it", found: "liveness", nemeses: "junk"},

	// The rest.
	{lock: "a secret in Queue", unseen: "nobody misuses it: a trial looks at what happens, not at what could"},
	{lock: "names collide by case", found: answers},
	{lock: "a name is what is kept beside another", unseen: "the names of a trial have no such parts"},
	{lock: "the oldest of many names is forgotten", unseen: "it needs 500 names that are held at once"},
	{lock: "what a batch could not ask is called gone", found: answers, nemeses: "partial"},
	{lock: "no name is ever forgotten", unseen: "it costs memory, and no promise of a lock"},
	{lock: "every Join leaves a goroutine", unseen: "it costs memory, and no promise of a lock"},
}

const brokenSeed = 28

// options of a trial of a broken lock. Its clients are few, and its TTL is short: what is wrong
// shows itself as often as possible.
func (x *wrong) options(t *testing.T, w *served, url string) torture.Options {
	o := torture.Options{
		Open: open, URL: url, Dir: filepath.Join(t.TempDir(), "out"), Seed: brokenSeed,
		For: *within, Clients: cmp.Or(x.clients, 3), Names: cmp.Or(x.names, 3), TTL: cmp.Or(x.ttl, 300*time.Millisecond),
	}
	if x.client != "" {
		o.URL += "?" + x.client
	}
	for name := range strings.SplitSeq(x.nemeses, ", ") {
		if n := w.nemesis(name); n != nil {
			o.Nemeses = append(o.Nemeses, n)
		}
	}
	return o
}

// fault is that of the world.
func (x *wrong) fault() broken.Fault {
	for _, f := range broken.Faults() {
		if f.Name == x.lock {
			return f
		}
	}
	return broken.Fault{}
}

// seen is what a trial has shown so far: what is violated, and the time of the first proof.
func seen(dir string) (map[string]time.Duration, error) {
	events, err := read(dir)
	if err != nil {
		return nil, err
	}
	all := map[string]time.Duration{}
	first := func(what string, at time.Duration) {
		if was, ok := all[what]; !ok || at < was {
			all[what] = at
		}
	}
	r, err := check.History(events, check.Options{})
	if err != nil {
		return nil, err
	}
	for _, f := range r.Findings {
		if f.Declared == "" {
			first(string(f.Property), f.At)
		}
	}
	l, err := linear.Check(events, linear.Options{})
	if err != nil {
		return nil, err
	}
	for _, f := range l.Findings {
		first(answers, f.At)
	}
	return all, nil
}

func read(dir string) ([]history.Event, error) {
	f, err := os.Open(filepath.Join(dir, torture.History))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return history.Parse(bufio.NewReader(f))
}

// hunt makes a trial until it has shown what is sought, or is over.
func hunt(t *testing.T, o torture.Options, sought string) (map[string]time.Duration, error) {
	ctx, enough := context.WithCancel(t.Context())
	var looking sync.WaitGroup
	looking.Go(func() {
		for pause := time.Second; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			began := time.Now()
			if all, err := seen(o.Dir); err == nil {
				if _, ok := all[sought]; ok {
					enough()
				}
			}
			pause = max(time.Second, time.Since(began))
		}
	})
	_, err := torture.Run(ctx, o)
	enough()
	looking.Wait()
	if err != nil {
		return nil, err
	}
	return seen(o.Dir)
}

// Torture finds each lock that is broken on purpose, and says what is wrong with it.
func TestBrokenLocksAreFound(t *testing.T) {
	t.Parallel()
	for _, x := range wrongs {
		if x.unseen != "" || x.left() {
			continue
		}
		t.Run(x.lock, func(t *testing.T) {
			t.Parallel()
			w, url := serve(t, x.fault())
			all, err := hunt(t, x.options(t, w, url), x.found)
			if x.found == dies {
				if err == nil || !strings.Contains(err.Error(), "ended by itself") {
					t.Errorf("the trial ended with %v, and shows %v", err, all)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			at, ok := all[x.found]
			if !ok {
				t.Fatalf("it was not found as %s: %v", x.found, all)
			}
			t.Logf("| %s | %s | %.1f s | %d | also %v", x.lock, x.found, at.Seconds(), brokenSeed, all)
		})
	}
}

// The right lock on the same store shows nothing under the same faults, or what is found of the
// wrong ones would be no news.
func TestTheRightLockShowsNothing(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]wrong{
		"few names":  {sample: true, short: true, nemeses: "kill, stop, wire, partial, full"},
		"restart":    {nemeses: "restart, kill, stop"},
		"many":       {nemeses: "kill, stop, wire", clients: 8, names: 2},
		"far away":   {sample: true, client: "far", ttl: time.Second},
		"no nemesis": {},
	} {
		if x.left() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, url := serve(t, broken.Fault{})
			o := x.options(t, w, url)
			o.For = *rightFor
			r, err := torture.Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			all, err := seen(o.Dir)
			if strings.Contains(x.nemeses, "restart") {
				delete(all, answers) // what a store forgets contradicts what it said
			}
			if err != nil || len(all) > 0 || len(r.Left) > 0 {
				j, failed := torture.Judge(o.Dir)
				t.Fatalf("%v, %v, left %q: %+v, %v", all, err, r.Left, j.Findings, failed)
			}
			t.Logf("%+v", r.Status)
		})
	}
}

// Every engine of package broken is in the table, once.
func TestTheTableHasEveryBrokenEngine(t *testing.T) {
	var have, want []string
	for _, x := range wrongs {
		if x.client == "" {
			have = append(have, x.lock)
		}
		if (x.found == "") == (x.unseen == "") {
			t.Errorf("%s is found, or there is a reason why not", x.lock)
		}
	}
	for _, f := range broken.Faults() {
		want = append(want, f.Name)
	}
	slices.Sort(have)
	slices.Sort(want)
	if !slices.Equal(have, want) {
		t.Errorf("the table has %q, and package broken %q", have, want)
	}
}

// The page says of each lock how it is found, or why it is not.
func TestThePageHasEveryBrokenLock(t *testing.T) {
	page, err := os.ReadFile("../docs/torture.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for line := range strings.SplitSeq(string(page), "\n") {
		if name, rest, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); ok {
			rows[name] = "| " + rest
		}
	}
	for _, x := range wrongs {
		if row := rows[x.lock]; !strings.Contains(row, "| "+cmp.Or(x.found, x.unseen)+" |") {
			t.Errorf("%s: the page has %q", x.lock, row)
		}
	}
}
