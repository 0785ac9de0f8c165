package torture_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/filelock"
	"leasehold/engine/memlock"
	"leasehold/torture"
	judge "leasehold/torture/check"
	"leasehold/torture/history"
)

// TestMain is also the clients of the trials.
func TestMain(m *testing.M) {
	if torture.Client(open) {
		return
	}
	goleak.VerifyTestMain(m)
}

// refused is a directory that clients cannot open, and the witness can.
const refused = "refused"

// slow is one that clients open late.
const slow = "slow"

func open(_ context.Context, url string) (engine.Engine, error) {
	switch {
	case url == "mem:":
		return memlock.New(), nil
	case strings.HasPrefix(url, scheme):
		return dial(url)
	}
	dir := strings.TrimPrefix(url, "dir://")
	if filepath.Base(dir) == refused && os.Getenv("LEASEHOLD_TORTURE") != "" {
		return nil, errors.New("the engine is not there")
	}
	if filepath.Base(dir) == slow && os.Getenv("LEASEHOLD_TORTURE") != "" {
		time.Sleep(time.Second)
	}
	return filelock.New(dir, nil)
}

// trial is a run on a directory of its own, and the events of its history.
func trial(t *testing.T, ctx context.Context, o torture.Options) (*torture.Result, []history.Event) {
	t.Helper()
	o.Open, o.Dir, o.Seed = open, filepath.Join(t.TempDir(), "out"), 7
	if o.URL == "" {
		o.URL = "dir://" + t.TempDir()
	}
	r, err := torture.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", r)
	f, err := os.Open(filepath.Join(r.Dir, torture.History))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	events, err := history.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return r, events
}

// count counts events by what is in them.
func count(events []history.Event, of func(history.Event) string) map[string]int {
	n := map[string]int{}
	for _, e := range events {
		n[of(e)]++
	}
	return n
}

func TestATrialSeesAllThatItsClientsDo(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	reports := 0
	r, events := trial(t, t.Context(), torture.Options{
		For: 24 * time.Second, Clients: 3, Names: 4, TTL: 500 * time.Millisecond, Nemeses: []torture.Nemesis{torture.Kill(), torture.Stop()},
		Status: func(torture.Status) {
			mu.Lock()
			defer mu.Unlock()
			reports++
		},
	})
	if len(r.Left) > 0 || len(r.Notes) > 0 || reports < 2 {
		t.Errorf("left %q, notes %q, %d reports", r.Left, r.Notes, reports)
	}
	kinds := count(events, func(e history.Event) string { return string(e.Kind) })
	for _, k := range []history.Kind{history.Queued, history.Mark, history.Lost, history.Read, history.Write, history.Strike, history.Heal, history.Bit} {
		if kinds[string(k)] == 0 {
			t.Errorf("no %s in %v", k, kinds)
		}
	}
	what := count(events, func(e history.Event) string { return e.What })
	for _, w := range []string{history.Lock, history.Try, history.Unlock, history.Adopt, history.Detach, history.Revoke, history.Raw} {
		if what[w] == 0 {
			t.Errorf("no %s in %v", w, what)
		}
	}
	if kinds["start"] != kinds["exit"] || kinds["strike"] != kinds["heal"] || kinds["strike"] != r.Status.Strikes || kinds["bit"] != r.Status.Bits {
		t.Errorf("%v, and %+v", kinds, r.Status)
	}
	if strikes := count(events, func(e history.Event) string { return e.Named }); strikes["kill"] == 0 || kinds["start"] != 3+strikes["kill"] {
		t.Errorf("%v: each client that is killed is replaced; there were %v", kinds, strikes)
	}
	if events[0].Run.Seed != 7 || events[len(events)-1].Kind != history.End {
		t.Errorf("from %+v to %+v", events[0].Run, events[len(events)-1])
	}
	wellFormed(t, events)
	judged, err := torture.Judge(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	// A directory ends the claims of a killed client at once, and that is no wrong answer.
	if v := judged.Of(judge.Queue); v.Word != judge.Void || v.Found > 0 {
		t.Errorf("%+v, %+v", v, judged.Findings)
	}
	report, err := os.ReadFile(filepath.Join(r.Dir, torture.Report))
	if err != nil || !strings.Contains(string(report), "<td>queue</td>") {
		t.Errorf("%v: the report does not have the engine's own calls", err)
	}
}

// wellFormed is what every history must be, whatever the locks did.
func wellFormed(t *testing.T, events []history.Event) {
	t.Helper()
	prefix := ""
	calls, answered, runs, granted := map[int64]history.Event{}, map[int64]bool{}, map[string]bool{}, map[int64]bool{}
	for i, e := range events {
		wrong := func(why string) { t.Errorf("line %d, %+v: %s", i+1, e, why) }
		if e.Name != "" {
			if prefix == "" {
				prefix = e.Name[:strings.LastIndexByte(strings.Replace(strings.Replace(e.Name, "-raw-", "-raw", 1), "-Raw-", "-Raw", 1), '-')]
			}
			if !strings.HasPrefix(e.Name, prefix) {
				wrong("a name that is not the trial's")
			}
		}
		switch e.Kind {
		case history.Start:
			if _, again := runs[e.Client]; again {
				wrong("its name was another client's")
			}
			runs[e.Client] = true
		case history.Exit:
			runs[e.Client] = false
		case history.Call:
			if _, again := calls[e.Op]; again || e.Op == 0 {
				wrong("its number is another call's")
			}
			if about := max(e.Of, e.Under); about != 0 && !granted[about] {
				wrong("it is about a lease that did not begin")
			}
			calls[e.Op] = e
		case history.Answer:
			if _, called := calls[e.Op]; !called || answered[e.Op] {
				wrong("it was not called, or answered before")
			}
			answered[e.Op], granted[e.Op] = true, e.Result == history.OK
		case history.Mark, history.Lost, history.Read, history.Write:
			if !granted[e.Op] {
				wrong("it is of a lease that did not begin")
			}
		}
		if e.Kind != history.Exit && e.Kind != history.Strike && e.Client != "" && !runs[e.Client] {
			wrong("its client does not run")
		}
	}
}

func TestATrialThatIsInterruptedIsOfWhatWasSeen(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, events := trial(t, ctx, torture.Options{
		For: time.Hour, Clients: 2, TTL: 300 * time.Millisecond,
		Status: func(s torture.Status) {
			if s.Holds > 20 {
				cancel()
			}
		},
	})
	if len(r.Left) > 0 || r.Status.Holds <= 20 || events[len(events)-1].Kind == history.End {
		t.Errorf("%+v, and the last event is %+v", r, events[len(events)-1])
	}
	wellFormed(t, events)
}

func TestACommandOfTheOperatorIsAFault(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, events := trial(t, ctx, torture.Options{
		For: time.Minute, Clients: 1, TTL: 300 * time.Millisecond,
		Status: func(s torture.Status) {
			if s.Strikes > 1 { // the first is over
				cancel()
			}
		},
		Nemeses: []torture.Nemesis{torture.Commands("echo struck >> "+filepath.Join(dir, "log"), "echo healed >> "+filepath.Join(dir, "log"), history.Failover)},
	})
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	strikes := 0
	for _, e := range events {
		if e.Kind == history.Strike {
			if strikes++; fmt.Sprint(e.Breaks) != "[failover]" {
				t.Errorf("%+v", e)
			}
		}
	}
	// The end of the trial may kill the last command before it has written.
	want := strings.Repeat("struck\nhealed\n", strikes)
	if cut := strings.TrimSuffix(want, "struck\nhealed\n") + "healed\n"; strikes < 2 || string(text) != want && string(text) != cut {
		t.Errorf("%d strikes, and the commands did %q", strikes, text)
	}
}

func TestANemesisThatCannotStrikeIsLeftOut(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	reports := 0
	r, events := trial(t, ctx, torture.Options{
		For: time.Minute, Clients: 1, TTL: 200 * time.Millisecond,
		Status: func(s torture.Status) {
			if s.Strikes == 0 {
				return
			}
			if reports++; reports > 3 { // until then the command has failed
				cancel()
			}
		},
		Nemeses: []torture.Nemesis{torture.Wire(), torture.Connections(), torture.Commands("exit 3", "")},
	})
	if notes := strings.Join(r.Notes, "\n"); strings.Count(notes, "has no host:port") != 2 || !strings.Contains(notes, "exit status 3") || len(r.Notes) != 3 {
		t.Errorf("%q", r.Notes)
	}
	if n := events[0].Run.Nemeses; len(n) != 1 {
		t.Errorf("%q", n)
	}
}

func TestWhatMakesNoTrialIsRefused(t *testing.T) {
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, torture.History), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]torture.Options{
		"an engine of one process": {URL: "mem:"},
		"no time":                  {For: time.Second},
		"too many clients":         {Clients: 1000},
		"no names":                 {Names: -1},
		"a TTL below the least":    {TTL: time.Millisecond},
		"a history is there":       {Dir: full},
	} {
		o.Open = open
		if o.URL == "" {
			o.URL = "dir://" + t.TempDir()
		}
		if o.Dir == "" {
			o.Dir = filepath.Join(t.TempDir(), "out")
		}
		if _, err := torture.Run(t.Context(), o); !errors.Is(err, torture.ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClientsThatCannotBeginEndTheTrial(t *testing.T) {
	_, err := torture.Run(t.Context(), torture.Options{
		Open: open, URL: "dir://" + filepath.Join(t.TempDir(), refused), Dir: filepath.Join(t.TempDir(), "out"), For: time.Minute,
	})
	if err == nil || !strings.Contains(err.Error(), "the engine is not there") {
		t.Error(err)
	}
}

// marks strikes at nothing.
type marks struct{}

func (marks) Name() string { return "marks" }

func (marks) Strike(_ context.Context, s *torture.Strike) error {
	s.Begin("", "nothing")
	return nil
}

// A client that a fault kept from opening the engine for the first time would end the trial. So
// no fault comes before every client runs.
func TestFaultsWaitUntilEveryClientRuns(t *testing.T) {
	t.Parallel()
	const clients = 2
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, events := trial(t, ctx, torture.Options{
		URL: "dir://" + filepath.Join(t.TempDir(), slow), For: time.Minute, Clients: clients, TTL: 100 * time.Millisecond, Nemeses: []torture.Nemesis{marks{}},
		Status: func(s torture.Status) {
			if s.Strikes > 0 {
				cancel()
			}
		},
	})
	running, strikes := 0, 0
	for _, e := range events {
		switch e.Kind {
		case history.Start:
			running++
		case history.Strike:
			if strikes++; running < clients {
				t.Fatalf("a fault came when %d of %d clients ran", running, clients)
			}
		}
	}
	if strikes == 0 {
		t.Error("no fault came")
	}
}
