// Package linear checks the answers of an engine itself, which a history has as history.Raw.
// It looks for an order of all calls, in which package queue gives the same answers. Each call
// takes effect at one moment between its beginning and its answer. The order is searched with
// porcupine.
//
// A history does not say everything. Then every possibility counts:
//
//   - A claim may end by itself at any moment after the time that its answers prove, and
//     need not. If the engine ends the claims of a client that has ended, they may also end
//     at any moment after the last one at which the client certainly lived.
//   - A call whose answer was lost takes effect at any moment after it began, or never. One that
//     was answered does not any more, though an engine may have sent it twice: nothing of a
//     connection that package wire has cut reaches the server once the client knows.
//   - An engine without order may forget who waits.
//   - A refusal is right at any time, unless it says that the limits disagree: then somebody must
//     stand there with another limit. Engines refuse for reasons that no queue knows.
//   - An engine that lives by sessions may take several steps for a call: see steps.go.
//
// So an engine is blamed only if no possibility explains its answers. The calls of a name are
// checked in windows. Each begins with every state in which the one before it can have ended.
package linear

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"leasehold/torture/history"
)

// Options bound the search. Zero means the default.
type Options struct {
	Window int           // answers in one window; default 40
	States int           // possibilities that are followed at once; default 500
	For    time.Duration // for one window; default 1 s
}

// Result is what the answers say.
type Result struct {
	Calls     int       `json:"calls"`
	Lost      int       `json:"lost"` // calls without an answer
	Names     int       `json:"names"`
	Undecided int       `json:"undecided"` // calls that were not checked, because there were more possibilities than the bounds allow
	Findings  []Finding `json:"findings"`  // one for each name at most: later answers are not checked
}

// Finding is an answer that no order explains.
type Finding struct {
	Name  string        `json:"name"`
	Since time.Duration `json:"since"` // of the first call of that name
	At    time.Duration `json:"at"`    // of the answer
	Text  string        `json:"text"`
	Lines []int         `json:"lines"` // of the history: the call and its answer
}

// Check checks the raw calls of a history, which begins with the settings of its trial. It
// returns an error if they contradict each other.
func Check(events []history.Event, o Options) (*Result, error) {
	o.Window, o.States, o.For = cmp.Or(o.Window, 40), cmp.Or(o.States, 500), cmp.Or(o.For, time.Second)
	names, byName, err := read(events)
	if err != nil {
		return nil, err
	}
	declares := &events[0].Run.Declares
	var dead map[string]time.Duration
	if declares.CrashRelease != keepsTheDead {
		dead = deaths(events)
	}
	r := &Result{Names: len(names)}
	found := make([]*Finding, len(names))
	undecided := make([]int, len(names))
	var checking sync.WaitGroup
	places := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, name := range names {
		n := byName[name]
		n.forgets, n.steps = declares.Order != "fifo", declares.CrashRelease == inSteps
		n.deaths, n.options = dead, o
		checking.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			found[i], undecided[i] = n.check()
		})
	}
	checking.Wait()
	for i, name := range names {
		n := byName[name]
		r.Calls += len(n.calls)
		r.Lost += n.lost()
		r.Undecided += undecided[i]
		if found[i] != nil {
			r.Findings = append(r.Findings, *found[i])
		}
	}
	return r, nil
}

// lost is how many calls have no answer.
func (n *name) lost() (lost int) {
	for i := range n.calls {
		if n.calls[i].answer < 0 {
			lost++
		}
	}
	return lost
}

// never is later than every moment of a trial.
const never = time.Duration(1<<63 - 1)

// call is one call of the engine for one claim.
type call struct {
	begin, answer   int // events; answer is -1 if it is not known
	start, end      time.Duration
	client          string
	claim, replaces uint64 // numbers of claims; 0 is none
	permits, limit  int32
	now             bool
	ask             *history.EngineCall
	result          string
	have            int32 // why a Join was refused: the limit of the queue; 0: the history has another reason, or none
	got             history.EngineCall
}

// name has all calls that are about one name.
type name struct {
	name    string
	calls   []call // by begin
	claims  map[string]uint64
	tickets map[uint64][]uint64 // of a claim: those that answers tell
	joined  map[uint64]int      // of a claim: the last event of a join
	stood   map[uint64]int      // of a claim: the last answer that tells that it stands in the queue

	forgets bool
	steps   bool
	deaths  map[string]time.Duration // of clients: from when on their claims may have ended with them
	options Options
	first   int // the calls before it are checked
}

func read(events []history.Event) (names []string, byName map[string]*name, err error) {
	if len(events) == 0 || events[0].Run == nil {
		return nil, nil, fmt.Errorf("linear: the history does not begin with the settings of its trial: give all of it")
	}
	byName = map[string]*name{}
	type place struct {
		of *name
		i  int
	}
	calls := map[int64]place{}
	for i := range events {
		e := &events[i]
		switch p, raw := calls[e.Op]; {
		case e.Kind == history.Call && e.What == history.Raw:
			if raw || e.Engine == nil {
				return nil, nil, fmt.Errorf("linear: line %d: the call %d is made twice, or does not say what it asks for", i+1, e.Op)
			}
			n := byName[e.Name]
			if n == nil {
				n = &name{name: e.Name, claims: map[string]uint64{}, tickets: map[uint64][]uint64{}, joined: map[uint64]int{}, stood: map[uint64]int{}}
				byName[e.Name] = n
				names = append(names, e.Name)
			}
			calls[e.Op] = place{n, len(n.calls)}
			claim := n.number(e.Engine.Claim)
			if e.Engine.Method == join {
				n.joined[claim] = i
			}
			n.calls = append(n.calls, call{
				begin: i, answer: -1, start: e.At, end: never, client: e.Client, permits: e.Permits, limit: e.Limit, now: e.Now,
				claim: claim, replaces: n.number(e.Engine.Replaces), ask: e.Engine,
			})
		case e.Kind == history.Answer && raw:
			if err := p.of.answered(&p.of.calls[p.i], i, e); err != nil {
				return nil, nil, fmt.Errorf("linear: line %d: %w", i+1, err)
			}
		}
	}
	return names, byName, nil
}

func (n *name) number(claim string) uint64 {
	if claim == "" {
		return 0
	}
	if n.claims[claim] == 0 {
		n.claims[claim] = uint64(len(n.claims) + 1)
	}
	return n.claims[claim]
}

func (n *name) answered(c *call, i int, e *history.Event) error {
	c.result = e.Result
	switch {
	case c.answer >= 0:
		return fmt.Errorf("the call %d has two answers", e.Op)
	case e.Result == history.Failed:
		return nil // as if it had none
	case e.Result == history.OK && c.ask.Method != revoke && e.Engine == nil:
		return fmt.Errorf("the answer of the call %d does not say what it is", e.Op)
	}
	c.answer, c.end = i, e.At
	if e.Result == history.Refused && c.ask.Method == join {
		c.have = e.Limit
	}
	if e.Engine != nil {
		c.got = *e.Engine
	}
	if c.got.Ticket != 0 && !slices.Contains(n.tickets[c.claim], c.got.Ticket) {
		n.tickets[c.claim] = append(n.tickets[c.claim], c.got.Ticket)
	}
	if c.ask.Method == join {
		n.joined[c.claim] = max(n.joined[c.claim], i)
	}
	if c.got.State != gone || c.got.Revoked {
		n.stood[c.claim] = i
	}
	return nil
}

// Methods of history.EngineCall, and states.
const (
	join   = "join"
	renew  = "renew"
	leave  = "leave"
	revoke = "revoke"

	waiting = "waiting"
	held    = "held"
	gone    = "gone"
)
