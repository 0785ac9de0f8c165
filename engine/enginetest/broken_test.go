package enginetest_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/enginetest/broken"
)

// caught says for each deliberately broken engine which files of the suite
// must fail. All others must pass.
var caught = map[string][]string{
	// Who holds.
	"a race lets two hold":                            {"exclusion"},
	"readers overtake a waiting writer":               {"order"},
	"grant out of order":                              {"order", "a crowd"},
	"a third reader waits":                            {"shared"},
	"the sum of permits overflows":                    {"permits"},
	"a reused token":                                  {"tokens"},
	"tokens start again after a restart":              {"tokens"},
	"a second Join of one ID stands behind the first": {"idempotence", "detached"},
	"NoWait leaves a claim":                           {"no wait"},
	"NoWait refuses a free name":                      {"no wait"},
	"Replaces loses the turn":                         {"replaces"},
	"Replaces keeps the turn of who is contended":     {"replaces"},
	"a disagreeing limit is taken":                    {"limits"},

	// How long.
	"a shorter Renew shortens":                        {"renewal"},
	"Renew grants half of what it was asked for":      {"renewal"},
	"Renew forgets permits and limit":                 {"renewal"},
	"an expired claim is revived":                     {"expiry is one-way"},
	"an expired claim is passed over and not removed": {"expiry is one-way"},
	"held from a plain read of a clock that is ahead": {"expiry"},
	"becoming held extends":                           {"expiry"},
	"a cancelled Join is an orphan":                   {"cancellation"},
	"Leave ends another's claim":                      {"loss"},
	"Leave lies about what it found":                  {"leave"},
	"a detached claim ends with its client":           {"detached"},
	"Revoke does not check the ticket":                {"revocation"},
	"a marked claim is extended":                      {"revocation"},
	"a dead client holds on":                          {"crash"},

	// Who is told.
	"a wake-up is lost and there is no fallback": {"wake-up"},
	"who becomes held is not told":               {"wake-up"},
	"everybody is told of everything":            {"wake-up", "a crowd"},
	"a call tells its own claim":                 {"wake-up"},
	"contended and never told":                   {"contention"},
	"Watch ignores its context":                  {"life cycle"},
	// Both kinds of notification are missing, so both files must say so.
	"nobody is ever told": {"wake-up", "contention"},

	// Where much happens at once, or something hostile.
	"a Renew under way takes what its claim has left": {"no orphans"},
	"the hundredth Leave of a name is lost":           {"no orphans"},
	"a refused connection is the answer":              {"a full server"},
	"a crowd is turned away":                          {"a crowd"},
	"deep in a crowd the order is lost":               {"a crowd"},
	"each call reads all who wait":                    {"a crowd"},
	"junk panics":                                     {"hostile data"},
	"junk sends a call round in cycles":               {"hostile data"},
	"junk under one name takes the others with it":    {"hostile data"},

	// The rest.
	"a secret in Queue":                         {"inspection"},
	"names collide by case":                     {"names"},
	"a name is what is kept beside another":     {"names"},
	"the oldest of many names is forgotten":     {"many names"},
	"what a batch could not ask is called gone": {"batches"},
	"no name is ever forgotten":                 {"leaks"},
	"every Join leaves a goroutine":             {"leaks"},
}

// Patience is what a broken engine's missing notification costs, and what an innocent
// one has to come up with a notification on a busy machine.
const patience = 2 * time.Second

func harness(w *broken.World) enginetest.Harness {
	return enginetest.Harness{
		Name: "broken", New: w.Engine, Now: w.Now, Sleep: w.Sleep, Patience: patience,
		Restart: w.Forget, Forget: w.Forget, Kill: w.Kill,
		LoseReply: w.LoseReply, FailPartial: w.FailPartial, CountKeys: w.Count,
		Crowd:             20, // some faults read the whole queue at every call
		RefuseConnections: w.RefuseConnections, CountRequests: w.Requests,
		Spoil: map[string]func(testing.TB, string){"junk": w.Spoil},
	}
}

// Without a fault everything passes, and everything is exercised: whatever a
// broken engine fails is due to its fault.
func TestTheUnbrokenEngineFailsNothing(t *testing.T) {
	w := broken.New(broken.Fault{})
	defer w.Close()
	h := harness(w)
	h.Patience = time.Minute // nothing is missing
	h.Crowd = 0              // and nothing is slow
	results, failures := enginetest.Check(t, h)
	for _, f := range failures {
		t.Error(f)
	}
	for _, r := range results {
		if r.Outcome != enginetest.Pass {
			t.Errorf("%s: %s: %s %s", r.Promise, r.Case, r.Outcome, r.Why)
		}
	}
}

// A case that used one of these hooks would spoil those beside it.
func TestCasesSideBySideUseNoHookOfTheWholeStore(t *testing.T) {
	w := broken.New(broken.Fault{})
	defer w.Close()
	h := harness(w)
	h.Patience = time.Minute
	used := func(hook string) func(testing.TB) {
		return func(t testing.TB) { t.Fatal("it uses " + hook) }
	}
	h.Restart, h.Forget = used("Restart"), used("Forget")
	h.CountKeys = func(t testing.TB) int { used("CountKeys")(t); return 0 }
	h.CountRequests = func(t testing.TB) int { used("CountRequests")(t); return 0 }
	h.RefuseConnections = func(t testing.TB) func() { used("RefuseConnections")(t); return nil }
	h.FailPartial = func(t testing.TB, _ engine.Engine, _ string) { used("FailPartial")(t) }
	h.Spoil = map[string]func(testing.TB, string){"junk": func(t testing.TB, _ string) { used("Spoil")(t) }}
	results, failures := enginetest.CheckLocal(t, h)
	for _, f := range failures {
		t.Error(f)
	}
	if len(results) < 40 {
		t.Errorf("void: there are %d such cases", len(results))
	}
}

func TestEveryBrokenEngineIsCaughtByItsFile(t *testing.T) {
	unproven := enginetest.Promises()
	for _, files := range caught {
		unproven = slices.DeleteFunc(unproven, func(p string) bool { return slices.Contains(files, p) })
	}
	if len(unproven) > 0 {
		t.Errorf("no broken engine shows that these files can fail: %q", unproven)
	}
	faults := broken.Faults()
	if len(faults) != len(caught) {
		t.Errorf("%d broken engines, %d are in the table", len(faults), len(caught))
	}
	// Two mostly wait for what never comes, so they take no slot.
	waits := []string{"nobody is ever told", "who becomes held is not told"}
	slots := make(chan struct{}, 4)
	verdicts := make([]chan func(*testing.T), len(faults))
	for i, f := range faults {
		verdicts[i] = make(chan func(*testing.T), 1)
		go func() {
			if !slices.Contains(waits, f.Name) {
				slots <- struct{}{}
				defer func() { <-slots }()
			}
			verdicts[i] <- judge(t, f)
		}()
	}
	for i, f := range faults {
		t.Run(f.Name, func(t *testing.T) { (<-verdicts[i])(t) })
	}
}

// tries is how often a broken engine is judged until the verdict is the one in
// the table. A machine so busy that an innocent call misses its deadline, or
// that a race does not happen, must not decide; a file that cannot catch its
// engine, or always blames it for more, fails every try.
const tries = 4

// judge runs the suite on one broken engine.
func judge(t *testing.T, f broken.Fault) func(*testing.T) {
	want, known := caught[f.Name]
	if !known {
		return func(t *testing.T) { t.Fatal("the table does not say which file must catch it") }
	}
	var complaints []string
	for range tries {
		complaint := try(t, f, want)
		if complaint == "" {
			return func(*testing.T) {}
		}
		complaints = append(complaints, complaint)
	}
	return func(t *testing.T) { t.Error(strings.Join(complaints, "\nagain: ")) }
}

// try is one run; it returns what is wrong with the verdict.
func try(t *testing.T, f broken.Fault, want []string) string {
	w := broken.New(f)
	defer w.Close()
	results, failures := enginetest.Check(t, harness(w))
	failed := map[string]bool{}
	for _, r := range results {
		if r.Outcome == enginetest.Fail {
			failed[r.Promise] = true
		}
	}
	for _, p := range want {
		if !failed[p] {
			return p + " did not catch it"
		}
	}
	if len(failed) > len(want) {
		return "only " + strings.Join(want, ", ") + " should fail, these failed:\n" + strings.Join(failures, "\n")
	}
	return ""
}
