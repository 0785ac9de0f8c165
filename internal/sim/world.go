package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"leasehold/internal/claims"
)

// world is one run: virtual time, an agenda, an engine, and clients. Everything happens
// in one goroutine, and chance comes from the seed alone.
type world struct {
	Setup
	now       time.Duration
	agenda    agenda
	store     store
	clients   []*client
	addresses map[string]process // who is behind a client of the queue
	lots      []*lot
	busy      []*lot // those that callers wait for

	settling bool // nobody asks any more, and nothing goes wrong
	active   int  // callers that wait, hold or unlock
	stamp    uint64
	revoked  bool // somebody revoked something

	hash      uint64
	counts    Counts
	violation *Violation
	tell      func(string) // unless nil, is told what happens
}

// Result is what came of a run.
type Result struct {
	Hash      uint64 // of all that happened, in order
	Violation *Violation
	Counts
}

// Violation is the first thing that is wrong in a run.
type Violation struct {
	Rule Rule
	At   time.Duration
	Text string
}

func (v *Violation) String() string { return fmt.Sprintf("%v: %s: %s", v.At, v.Rule, v.Text) }

// Counts is what happened in a run.
type Counts struct {
	Events        int
	Requests      int // calls of the engine
	Renewals      int // claims in them
	Batch         int // most claims of one call
	Notifications int
	Grants        int // leases that were made
	Handoffs      int // of these, without asking the engine
	GaveUp        int
	Losses        int
	Lost          [claims.Unknown + 1]int // by reason
	Unlocks       [claims.Unknown + 1]int // by what Unlock said
	Overlaps      int                     // leases delivered while another client trusted what excludes them
	Faults        int
	Struck        [len(kinds)]int // by kind of fault
	LongestWait   time.Duration   // of a caller who was granted
	Claims        int             // most at one moment, in the clients
}

// Run runs a Setup to its end, or to the first violation.
func Run(s Setup) Result { return newWorld(s).run() }

// Measure is Run, and calls full when callers stop asking: all that they hold is there.
func Measure(s Setup, full func()) Result {
	w := newWorld(s)
	w.until(s.For)
	full()
	return w.run()
}

// Tell is Run, and tells what happens, one line each.
func Tell(s Setup, tell func(string)) Result {
	w := newWorld(s)
	w.tell = tell
	return w.run()
}

// sweepEvery is how often the world looks whether anybody is forgotten.
const sweepEvery = time.Second

func newWorld(s Setup) *world {
	w := &world{Setup: s, addresses: map[string]process{}, hash: 14695981039346656037}
	w.lots = make([]*lot, s.NameCount())
	for i := range w.lots {
		w.lots[i] = &lot{name: nameOf(i), index: i, at: -1}
	}
	w.store = newStore(w)
	for i, number := range s.Clients {
		w.clients = append(w.clients, newClient(w, number, i))
	}
	for _, f := range s.Faults {
		w.plan(f)
	}
	w.at(sweepEvery, w.sweep)
	return w
}

func (w *world) run() Result {
	w.until(w.For)
	if w.violation == nil {
		w.settle()
	}
	return Result{Hash: w.hash, Violation: w.violation, Counts: w.counts}
}

// until lets everything happen that happens by then.
func (w *world) until(end time.Duration) {
	for w.violation == nil {
		e, ok := w.agenda.next(end)
		if !ok {
			w.now = end
			return
		}
		w.now = e.at
		w.counts.Events++
		e.do()
	}
}

func (w *world) at(at time.Duration, do func()) { w.agenda.add(max(at, w.now), do) }

// fail notes what is wrong; the first counts.
func (w *world) fail(rule Rule, format string, args ...any) {
	if w.violation == nil && (w.Only == "" || w.Only == rule) {
		w.violation = &Violation{rule, w.now, fmt.Sprintf(format, args...)}
		w.say("WRONG: %s: %s", rule, w.violation.Text)
	}
}

// say tells what happens. Where that would cost something, the caller looks at tell first.
func (w *world) say(format string, args ...any) {
	if w.tell != nil {
		w.tell(fmt.Sprintf("%12.6f  ", w.now.Seconds()) + fmt.Sprintf(format, args...))
	}
}

// note takes one thing that happened into the hash.
func (w *world) note(what byte, client int, x uint64) {
	for _, v := range [...]uint64{uint64(w.now), uint64(what)<<32 | uint64(uint32(client)), x} {
		w.hash = (w.hash ^ v) * 1099511628211
		w.hash ^= w.hash >> 29
	}
}

// chances are those of one part of the world, the same whatever the others draw.
func (w *world) chances(part, number int) *rand.Rand {
	return rand.New(rand.NewPCG(w.Seed, uint64(part)<<32|uint64(uint32(number))))
}

// upTo is a part of d by chance, from 0 to less than d.
func upTo(r *rand.Rand, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(r.Int64N(int64(d)))
}
