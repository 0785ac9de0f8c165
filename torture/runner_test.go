package torture

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/wire"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// witnessOf is a witness, and what it has written so far.
func witnessOf(t *testing.T) (*witness, func() string) {
	var text bytes.Buffer
	out := bufio.NewWriter(&text)
	return newWitness(out, func(err error) { t.Error(err) }), func() string {
		out.Flush()
		return text.String()
	}
}

func contains(text string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) })
}

// The seed alone decides what clients do. Each goroutine of each client does something else.
func TestTheSeedDecidesWhatClientsDo(t *testing.T) {
	seen := map[string]string{}
	for _, seed := range []uint64{1, 2} {
		for _, number := range []int64{1, 2} {
			for _, of := range []uint64{0, 1} {
				who := fmt.Sprint(seed, number, of)
				choices := func() string {
					rng := (&member{job: job{Seed: seed, Number: number}}).chance(of)
					return fmt.Sprint(rng.Uint64(), rng.Uint64())
				}
				did := choices()
				if did != choices() {
					t.Errorf("%s does not do the same again", who)
				}
				if other, again := seen[did]; again {
					t.Errorf("%s does the same as %s", who, other)
				}
				seen[did] = who
			}
		}
	}
}

// What a call came to is judged by its error: Failed alone leaves open what has happened.
func TestWhatAnErrorSaysOfACall(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		ctx  context.Context
		what string
		err  error
		want string
	}{
		{t.Context(), history.Lock, nil, history.OK},
		{t.Context(), history.Try, leasehold.ErrHeld, history.Taken},
		{t.Context(), history.Lock, leasehold.ErrHeld, history.Gave},
		{t.Context(), history.Lock, leasehold.ErrRevoked, history.Gave},
		{t.Context(), history.Lock, leasehold.ErrDeadlock, history.Victim},
		{t.Context(), history.Lock, leasehold.ErrUnavailable, history.Failed},
		{ended, history.Lock, leasehold.ErrUnavailable, history.Failed},
		{t.Context(), history.Lock, engine.ErrLimit, history.Refused},
		{t.Context(), history.Lock, errors.ErrUnsupported, history.Refused},
		{t.Context(), history.Lock, leasehold.ErrReentry, history.Refused},
		{ended, history.Lock, context.Canceled, history.Gave},
		{ended, history.Try, context.Canceled, history.Gave},
		{t.Context(), history.Lock, errors.New("something else"), history.Failed},
	} {
		if got := resultOf(c.ctx, want{what: c.what}, fmt.Errorf("why: %w", c.err)); c.err != nil && got != c.want {
			t.Errorf("%s with %v: %s, want %s", c.what, c.err, got, c.want)
		}
	}
	if got := resultOf(t.Context(), want{what: history.Lock}, nil); got != history.OK {
		t.Errorf("without an error: %s", got)
	}
}

// The checker judges an engine by what it declares, and no more kindly.
func TestWhatAnEngineDeclaresIsWrittenDown(t *testing.T) {
	most := engine.Guarantees{
		Order: engine.FIFO, Modes: engine.Exclusive | engine.Shared | engine.Permits, Fencing: engine.FencingAlways,
		Failover: engine.FailoverConsensus, Scope: engine.ScopeCluster, CrashRelease: engine.CrashSession, Detach: true,
	}
	with := func(change func(*engine.Guarantees)) engine.Guarantees {
		g := most
		change(&g)
		return g
	}
	for name, c := range map[string]struct {
		g    engine.Guarantees
		want string
	}{
		"most": {most, "fifo [exclusive shared permits] always session, may double false, assumes [], detach true"},
		"least": {engine.Guarantees{Scope: engine.ScopeCluster, Modes: engine.Exclusive},
			"none [exclusive] none ttl, may double true, assumes [clock], detach false"},
		"memory": {with(func(g *engine.Guarantees) { g.Fencing = engine.FencingMemory }),
			"fifo [exclusive shared permits] memory session, may double false, assumes [memory clock], detach true"},
		"one server": {with(func(g *engine.Guarantees) { g.Failover, g.CrashRelease = engine.FailoverNone, engine.CrashTTL }),
			"fifo [exclusive shared permits] always ttl, may double false, assumes [clock], detach true"},
		"files": {with(func(g *engine.Guarantees) {
			g.Failover, g.CrashRelease, g.Scope = engine.FailoverNone, engine.CrashAtOnce, engine.ScopeMachine
		}), "fifo [exclusive shared permits] always at once, may double false, assumes [], detach true"},
	} {
		d := Declares(c.g, time.Second)
		got := fmt.Sprintf("%s %v %s %s, may double %v, assumes %v, detach %v", d.Order, d.Modes, d.Fencing, d.CrashRelease, d.MayDouble, d.Assumes, d.Detach)
		if got != c.want || d.Bound != 6*time.Second {
			t.Errorf("%s: %s within %v", name, got, d.Bound)
		}
	}
}

// A strike is written down when it begins, when its first effect is seen, and when it is over,
// each once.
func TestAStrikeIsWrittenDown(t *testing.T) {
	w, written := witnessOf(t)
	s := &Strike{w: w, fault: 3, named: "kill"}
	s.Heal() // it did not begin
	s.Breaks(history.Clock)
	s.Begin("c1", "a target")
	s.Bit("effect %d", 1)
	s.Bit("effect %d", 2)
	s.Heal()
	s.Heal()
	got := written()
	var kinds []string
	for line := range strings.SplitSeq(strings.TrimSpace(got), "\n") {
		kind, _, _ := strings.Cut(line[strings.Index(line, `"kind":"`)+8:], `"`)
		kinds = append(kinds, kind)
		if !strings.Contains(line, `"fault":3`) {
			t.Errorf("%s is not of the fault", line)
		}
	}
	if fmt.Sprint(kinds) != "[strike bit heal]" || !contains(got, `"breaks":["clock"]`, "effect 1", `"named":"kill"`) {
		t.Errorf("%v: %s", kinds, got)
	}
	if w.status.Strikes != 1 || w.status.Bits != 1 {
		t.Errorf("%+v", w.status)
	}
}

// What a client says is counted as what it was: holds, losses, and what a fault has done.
func TestWhatClientsSayIsCounted(t *testing.T) {
	w, _ := witnessOf(t)
	c := &client{w: w, name: "c1", calls: map[int64]history.Event{}, holds: map[int64]string{}}
	hear := func(e history.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.eventLocked(c, &said{Event: &e}, &told{})
	}
	call := func(op int64, what, result string, of int64) {
		hear(history.Event{Kind: history.Call, Op: op, What: what, Of: of, Name: "n"})
		if calls := len(c.calls); calls != 1 {
			t.Errorf("%d calls are under way", calls)
		}
		hear(history.Event{Kind: history.Answer, Op: op, Result: result})
	}
	for i, step := range []struct {
		do                                   func()
		holds, begun, lost, failed, troubles int
	}{
		{func() { call(1, history.Lock, history.OK, 0) }, 1, 1, 0, 0, 0},
		{func() { call(2, history.Try, history.Taken, 0) }, 1, 1, 0, 0, 0},
		{func() { call(3, history.Lock, history.Failed, 0) }, 1, 1, 0, 1, 1},
		{func() { call(4, history.Adopt, history.OK, 9) }, 2, 2, 0, 1, 1},
		{func() { call(5, history.Unlock, history.OK, 1) }, 1, 2, 0, 1, 1},
		{func() { hear(history.Event{Kind: history.Lost, Op: 4, Error: leasehold.LossRevoked.String()}) }, 0, 2, 1, 1, 1},
		{func() { call(6, history.Lock, history.OK, 0) }, 1, 3, 1, 1, 1},
		{func() { hear(history.Event{Kind: history.Lost, Op: 6, Error: leasehold.LossExpired.String()}) }, 0, 3, 2, 1, 2},
		{func() { call(7, history.Lock, history.OK, 0) }, 1, 4, 2, 1, 2},
		{func() { call(8, history.Detach, history.OK, 7) }, 0, 4, 2, 1, 2},
	} {
		step.do()
		s := w.status
		if len(c.holds) != step.holds || s.Holds != step.begun || s.Lost != step.lost || s.Failed != step.failed || w.trouble != step.troubles {
			t.Errorf("step %d: %d holds, %+v, %d troubles; want %+v", i, len(c.holds), s, w.trouble, step)
		}
		if len(c.calls) != 0 {
			t.Errorf("step %d: %v is under way", i, c.calls)
		}
	}
}

// The names of raw calls are different, and some of them in case only.
func TestTheNamesOfRawCalls(t *testing.T) {
	names, folded := map[string]bool{}, map[string]bool{}
	for i := range mostClients {
		names[rawName(i)], folded[strings.ToLower(rawName(i))] = true, true
	}
	if len(names) != mostClients || len(folded) != mostClients/2 {
		t.Errorf("%d names, %d without case", len(names), len(folded))
	}
	for i := 0; i+2 < mostClients; i += 4 {
		if !strings.EqualFold(rawName(i), rawName(i+2)) {
			t.Errorf("%s and %s differ not only in case", rawName(i), rawName(i+2))
		}
	}
}

// What a client had not confirmed when it died is no mark.
func TestTheDeadConfirmNothing(t *testing.T) {
	w, written := witnessOf(t)
	c := &client{w: w, name: "c1", marks: map[int64]*entry{}}
	w.clients[c.name] = c
	w.mu.Lock()
	w.eventLocked(c, &said{Ask: 1, Event: &history.Event{Kind: history.Mark, Op: 11}}, &told{})
	w.mu.Unlock()
	w.bury(c, errors.New("killed"))
	if got := written(); contains(got, `"kind":"mark"`) || !contains(got, `"kind":"exit"`, `"client":"c1"`, "killed") || len(w.running()) > 0 {
		t.Errorf("the history has %s, and %d clients run", got, len(w.running()))
	}
}

// A strike at connections that do not exist has no effect, and says so.
func TestAWireWithoutConnectionsIsNotBitten(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := wire.New(l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	w, written := witnessOf(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 60 {
		s := &Strike{Rand: rng, TTL: time.Millisecond, w: w, fault: i, named: "wire"}
		if err := (&wires{[]*wire.Proxy{p}}).Strike(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		s.Heal()
	}
	if w.status.Strikes != 60 || w.status.Bits != 0 {
		t.Errorf("%+v: %s", w.status, written())
	}
	for _, f := range faultsOfWires() {
		if !contains(written(), f.what) {
			t.Errorf("%q did not strike", f.what)
		}
	}
}

// What the engine declares is no violation.
func TestDeclaredFindingsAreNoViolations(t *testing.T) {
	r := &check.Result{Verdicts: []check.Verdict{{Found: 5, Declared: 5}, {Found: 4, Declared: 1}, {}}}
	if n := Violations(r); n != 3 {
		t.Errorf("%d violations", n)
	}
}
