package linear

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest/broken"
	"leasehold/torture/history"
)

var ordered = history.Declares{Order: "fifo", CrashRelease: "ttl"}

// histories is how many of so many are recorded and checked with -short, by their seeds.
func histories(most uint64) uint64 {
	if testing.Short() {
		return (most + 2) / 3
	}
	return most
}

// few are two names, so that all clients meet, and claims of every mode.
func few(call int) string { return []string{"x", "p"}[call%2] }

func record(t testing.TB, f broken.Fault, seed uint64, clients, calls, lose int, names func(int) string) []history.Event {
	w := broken.New(f)
	t.Cleanup(w.Close)
	r := &recorder{rng: rand.New(rand.NewPCG(seed, 0)), sleep: w.Sleep, lose: lose, names: names}
	for range clients {
		r.engines = append(r.engines, w.Engine(t))
	}
	return r.run(calls, ordered)
}

func check(t testing.TB, events []history.Event) *Result {
	t.Helper()
	r, err := Check(events, Options{For: 10 * time.Second}) // of a busy machine
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestARightEngineIsBlamed(t *testing.T) {
	for seed := range histories(10) {
		for _, lose := range []int{0, 40} {
			events := record(t, broken.Fault{}, seed, 4, 400, lose, few)
			r := check(t, events)
			for _, f := range r.Findings {
				t.Errorf("seed %d, one answer in %d lost: %s, lines %v", seed, lose, f.Text, f.Lines)
			}
			if lose == 0 && r.Undecided > 0 {
				t.Errorf("seed %d: %d of %d calls are undecided", seed, r.Undecided, r.Calls)
			}
		}
	}
}

// The engine of a client that dies ends its claims at once.
func TestARightEngineIsBlamedForTheDead(t *testing.T) {
	found, seeds := 0, histories(10)
	for seed := range seeds {
		w := broken.New(broken.Fault{})
		defer w.Close()
		r := &recorder{rng: rand.New(rand.NewPCG(seed, 0)), sleep: w.Sleep, lose: 40, die: 150, names: few}
		r.kill = func(old engine.Engine) engine.Engine {
			w.Kill(t, old)
			return w.Engine(t)
		}
		for range 4 {
			r.engines = append(r.engines, w.Engine(t))
		}
		events := r.run(400, history.Declares{Order: "fifo", CrashRelease: "at once"})
		for _, f := range check(t, events).Findings {
			t.Errorf("seed %d: %s, lines %v", seed, f.Text, f.Lines)
		}
		// An engine that declares to keep them is wrong.
		events[0].Run.Declares = ordered
		found += len(check(t, events).Findings)
	}
	if found < int(seeds+1)/2 {
		t.Errorf("clients died and their claims ended in %d histories, and that is found in %d names", seeds, found)
	}
}

// Clients that disagree about a limit are refused, also by claims that nobody was told of. An
// engine that keeps a limit when nobody is left refuses as well.
func TestARightEngineIsBlamedForRefusals(t *testing.T) {
	disagree := func(seed uint64, keeps bool) ([]history.Event, *Result) {
		w := broken.New(broken.Fault{})
		defer w.Close()
		r := &recorder{rng: rand.New(rand.NewPCG(seed, 0)), sleep: w.Sleep, lose: 25, differ: 3, names: few}
		limits := map[string]int32{}
		for range 4 {
			eng := w.Engine(t)
			if keeps {
				eng = &stubborn{eng, limits}
			}
			r.engines = append(r.engines, eng)
		}
		events := r.run(150, ordered)
		got, err := Check(events, Options{For: time.Minute}) // of a busy machine
		if err != nil {
			t.Fatal(err)
		}
		return events, got
	}
	refused, undecided := 0, 0
	seeds := histories(4)
	for seed := range seeds {
		events, got := disagree(seed, false)
		undecided += got.Undecided
		for _, f := range got.Findings {
			t.Errorf("seed %d: %s, lines %v", seed, f.Text, f.Lines)
		}
		for _, e := range events {
			if e.Result == history.Refused && e.Limit != 0 {
				refused++
			}
		}
	}
	if refused < 3*int(seeds) {
		t.Errorf("%d histories have %d refusals", seeds, refused)
	}
	const most = 20 // one need not show it
	kept := uint64(0)
	for found := false; !found; kept++ {
		if kept == most {
			t.Fatalf("%d histories of an engine that keeps a limit show nothing", most)
		}
		_, got := disagree(kept, true)
		found = len(got.Findings) > 0
	}
	t.Logf("%d histories have %d refusals, %d calls are undecided; it took %d of a kept limit to find that", seeds, refused, undecided, kept)
}

// stubborn is an engine that keeps the first limit of a name for ever.
type stubborn struct {
	engine.Engine
	limits map[string]int32
}

func (e *stubborn) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if have := e.limits[r.Name]; have != 0 && have != r.Limit {
		return engine.Claim{}, &engine.LimitError{Name: r.Name, Have: have, Want: r.Limit}
	}
	c, err := e.Engine.Join(ctx, r)
	if err == nil {
		e.limits[r.Name] = r.Limit
	}
	return c, err
}

// Each of these faults shows itself in answers to calls like these. The others are in
// notifications, in permits, limits and TTLs, or after a crash.
func TestABrokenEngineIsNotFound(t *testing.T) {
	visible := []string{
		"a race lets two hold", "readers overtake a waiting writer", "grant out of order", "a third reader waits",
		"a reused token", "tokens start again after a restart", "a second Join of one ID stands behind the first",
		"NoWait leaves a claim", "NoWait refuses a free name", "Replaces loses the turn",
		"Replaces keeps the turn of who is contended", "a shorter Renew shortens", "an expired claim is revived",
		"an expired claim is passed over and not removed", "held from a plain read of a clock that is ahead",
		"Leave ends another's claim", "Leave lies about what it found", "Revoke does not check the ticket",
		"a marked claim is extended", "a wake-up is lost and there is no fallback",
	}
	for _, f := range broken.Faults() {
		i := slices.Index(visible, f.Name)
		if i < 0 {
			continue
		}
		visible = slices.Delete(visible, i, i+1)
		t.Run(f.Name, func(t *testing.T) {
			for seed := range uint64(50) {
				r := check(t, record(t, f, seed, 5, 400, 0, few))
				if len(r.Findings) > 0 {
					t.Logf("seed %d: %s", seed, r.Findings[0].Text)
					return
				}
			}
			t.Error("no seed finds it")
		})
	}
	if len(visible) > 0 {
		t.Errorf("there are no such faults: %v", visible)
	}
}

// forgetful is an engine without order: who waits is not stored.
type forgetful struct{ engine.Engine }

func (e forgetful) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	asked := r.NoWait
	r.NoWait = true
	c, err := e.Engine.Join(ctx, r)
	if err == nil && c.State == engine.Gone && !asked {
		c.State, c.TTL = engine.Waiting, r.WaitTTL
	}
	return c, err
}

func TestAnEngineWithoutOrderIsBlamed(t *testing.T) {
	for seed := range histories(5) {
		w := broken.New(broken.Fault{})
		defer w.Close()
		r := &recorder{rng: rand.New(rand.NewPCG(seed, 0)), sleep: w.Sleep, lose: 40, names: few}
		for range 4 {
			r.engines = append(r.engines, forgetful{w.Engine(t)})
		}
		events := r.run(400, history.Declares{Order: "none", CrashRelease: "ttl"})
		for _, f := range check(t, events).Findings {
			t.Errorf("seed %d: %s, lines %v", seed, f.Text, f.Lines)
		}
		// As an engine with order it is wrong.
		events[0].Run.Declares = ordered
		if len(check(t, events).Findings) == 0 {
			t.Errorf("seed %d: it forgets who waits, and that is not found", seed)
		}
	}
}

// Many names, each for a while, as a long trial has them.
func rounds(each int) func(int) string {
	return func(call int) string { return fmt.Sprintf("%s%d", few(call), call/each) }
}

func TestManyCalls(t *testing.T) {
	calls := 100_000
	if testing.Short() {
		calls = 10_000
	}
	began := time.Now()
	r := check(t, record(t, broken.Fault{}, 1, 6, calls, 200, rounds(400)))
	t.Logf("%+v in %v", r, time.Since(began))
	if r.Calls < calls || len(r.Findings) > 0 {
		t.Fatalf("%d calls, findings %v", r.Calls, r.Findings)
	}
	if r.Undecided*20 > r.Calls {
		t.Fatalf("%d of %d calls are undecided", r.Undecided, r.Calls)
	}
}
