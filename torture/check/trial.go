package check

import (
	"fmt"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/torture/history"
)

// never is later than every moment of a trial.
const never = time.Duration(1<<63 - 1)

// trial is a history whose events are put together: calls with their answers, leases with
// their marks, strikes with their ends.
type trial struct {
	events   []history.Event
	run      history.Run
	complete bool
	last     time.Duration // the time of the last event

	ops     []op // by call; the pointers below lead into it
	byOp    map[int64]*op
	made    map[place]*op // whom a claim that waited was made for
	strikes []strike
	exits   map[string]int // client: its Exit

	names  []string
	holds  map[string][]*hold // leases that began, by name, in the order of their answers
	asked  map[string][]*op   // Lock, Try and Adopt, by name, in the order of the calls
	revoke map[string][]*op

	findings []Finding
	found    map[Property]*count
	judged   map[Property]int // how many times a property could have been violated
	stats    Stats

	undecided int // calls of the engine that Queue says nothing of
}

// count is how many findings a property has.
type count struct{ all, declared int }

// op is one call. The indexes are of events; none is -1.
type op struct {
	call, answer, queued, lost int

	number          int64
	client          string
	what, name      string
	permits, limit  int32
	of              *op   // what it is about, or is re-entrant in
	ending          *op   // of an acquisition: its Unlock or Detach, the first that was called
	hold            *hold // of an acquisition that was granted: re-entrant ones share it
	token           uint64
	place           uint64 // the ticket of its place; 0: the history does not say
	result          string
	first, lastMark int
	now             bool
}

// hold is a lease from its grant to its end, with all leases that are re-entrant in it: they
// have the same claim.
type hold struct {
	*op     // the outermost
	handles []*op
	origin  *hold // the lease that it goes on with, if it was adopted; else itself

	sure, said span          // seen valid; that, and what Unlock says of it
	revoked    time.Duration // from when on it may overlap others: see revokedAt
}

// span is a part of the time in which a lease was valid. from and to are events; none if
// from is -1. end is when it ends, which can be before the event to: see revokedAt.
type span struct {
	from, to   int
	start, end time.Duration
}

func (s span) exists() bool { return s.from >= 0 && s.start <= s.end }

type strike struct {
	history.Event
	heal   time.Duration // never: it went on
	bits   []time.Duration
	struck bool // it had an effect while somebody held a lease
}

func (t *trial) at(i int) time.Duration { return t.events[i].At }

// lines turns indexes of events into lines of the file.
func lines(indexes ...int) []int {
	var out []int
	for _, i := range indexes {
		if i >= 0 {
			out = append(out, i+1)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// place is a place in the queue of a name, by its ticket.
type place struct {
	name   string
	ticket uint64
}

// exclusive is the kind of lease for which tokens have an order.
func (o *op) exclusive() bool { return o.permits == o.limit }

// conflict is whether the two can never hold at once.
func conflict(a, b *op) bool {
	return a.limit != b.limit || int64(a.permits)+int64(b.permits) > int64(a.limit)
}

// read puts the events together.
func read(events []history.Event) (*trial, error) {
	t := &trial{
		events: events, byOp: map[int64]*op{}, made: map[place]*op{}, exits: map[string]int{}, holds: map[string][]*hold{},
		asked: map[string][]*op{}, revoke: map[string][]*op{}, found: map[Property]*count{}, judged: map[Property]int{},
	}
	if len(events) == 0 || events[0].Kind != history.Begin || events[0].Run == nil {
		return nil, fmt.Errorf("check: the history does not begin with the settings of its trial: give all of it")
	}
	t.run, t.last = *events[0].Run, events[len(events)-1].At
	calls := 0
	for i := range events {
		if events[i].Kind == history.Call {
			calls++
		}
	}
	t.ops = make([]op, 0, calls) // of its full size at once: pointers lead into it
	for i := range events {
		if err := t.event(i, &events[i]); err != nil {
			return nil, fmt.Errorf("check: line %d: %w", i+1, err)
		}
	}
	t.leases()
	t.count()
	return t, nil
}

func (t *trial) event(i int, e *history.Event) error {
	switch e.Kind {
	case history.Call:
		return t.called(i, e)
	case history.Exit:
		t.exits[e.Client] = i
	case history.End:
		t.complete = true
	case history.Strike:
		t.strikes = append(t.strikes, strike{Event: *e, heal: never})
	case history.Heal, history.Bit:
		n := slices.IndexFunc(t.strikes, func(s strike) bool { return s.Fault == e.Fault })
		switch {
		case n < 0:
			return fmt.Errorf("%s of the fault %d, which did not begin", e.Kind, e.Fault)
		case e.Kind == history.Heal:
			t.strikes[n].heal = e.At
		default:
			t.strikes[n].bits = append(t.strikes[n].bits, e.At)
		}
	case history.Answer, history.Queued, history.Mark, history.Lost, history.Read, history.Write:
		o := t.byOp[e.Op]
		if o == nil || o.client != e.Client {
			return fmt.Errorf("%s of a call that %s did not make: %d", e.Kind, e.Client, e.Op)
		}
		return t.happened(i, e, o)
	}
	return nil
}

func (t *trial) called(i int, e *history.Event) error {
	if t.byOp[e.Op] != nil {
		return fmt.Errorf("the call %d is made twice", e.Op)
	}
	t.ops = append(t.ops, op{
		call: i, answer: -1, queued: -1, lost: -1, first: -1, lastMark: -1, number: e.Op,
		client: e.Client, what: e.What, name: e.Name, permits: e.Permits, limit: e.Limit, now: e.Now,
	})
	o := &t.ops[len(t.ops)-1]
	t.byOp[e.Op] = o
	if about := max(e.Of, e.Under); about != 0 {
		if o.of = t.byOp[about]; o.of == nil {
			return fmt.Errorf("the call %d is about the call %d, which was not made", e.Op, about)
		}
		if o.name == "" {
			o.name = o.of.name
		}
	}
	switch e.What {
	case history.Unlock, history.Detach:
		if o.of == nil {
			return fmt.Errorf("the call %d does not say what it ends", e.Op)
		}
		if o.of.ending == nil {
			o.of.ending = o
		}
	case history.Adopt:
		if o.of == nil {
			return fmt.Errorf("the call %d does not say what it goes on with", e.Op)
		}
		o.permits, o.limit = o.of.permits, o.of.limit
		t.ask(o)
	case history.Lock, history.Try:
		if o.limit < 1 || o.permits < 1 || o.permits > o.limit {
			return fmt.Errorf("the call %d asks for %d of %d permits", e.Op, o.permits, o.limit)
		}
		t.ask(o)
	case history.Revoke:
		t.revoke[o.name] = append(t.revoke[o.name], o)
	}
	return nil
}

func (t *trial) ask(o *op) {
	if _, known := t.asked[o.name]; !known {
		t.names = append(t.names, o.name)
	}
	t.asked[o.name] = append(t.asked[o.name], o)
}

func (t *trial) happened(i int, e *history.Event, o *op) error {
	switch e.Kind {
	case history.Answer:
		if o.answer >= 0 {
			return fmt.Errorf("the call %d has two answers", e.Op)
		}
		o.answer, o.result, o.token = i, e.Result, e.Token
		if e.Result == history.OK && o.acquires() {
			t.granted(o)
		}
	case history.Queued:
		o.queued, o.place = i, e.Token>>engine.HandoffBits
		t.made[place{o.name, o.place}] = o
	case history.Lost:
		if o.lost < 0 {
			o.lost = i
		}
	case history.Mark:
		if o.hold == nil {
			return fmt.Errorf("a mark of the call %d, which was granted nothing", e.Op)
		}
		if o.first < 0 {
			o.first = i
		}
		o.lastMark = i
	}
	return nil
}

func (o *op) acquires() bool {
	return o.what == history.Lock || o.what == history.Try || o.what == history.Adopt
}

// granted makes a hold of an answer, or one more handle of a hold.
func (t *trial) granted(o *op) {
	if o.of != nil && o.what != history.Adopt && o.of.hold != nil && o.of.hold.token == o.token {
		o.hold = o.of.hold
		o.hold.handles = append(o.hold.handles, o)
		return
	}
	o.hold = &hold{op: o, handles: []*op{o}}
	o.hold.origin = o.hold
	if o.what == history.Adopt && o.of.hold != nil {
		o.hold.origin = o.of.hold.origin
	}
	t.holds[o.name] = append(t.holds[o.name], o.hold)
}
