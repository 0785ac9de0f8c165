// Package check judges the history of a trial, without a server: what was promised, what was
// seen, and how much the trial could have seen.
//
// Each rule goes by what is certain only. Two leases overlap if each was seen valid before
// and after one moment. One call came after another if it began after the other's answer. So a
// finding is no matter of clocks, of a slow network, or of a client that was stopped. A
// history without findings is no proof: [Verdict] says how many strikes it is worth.
//
// The rules are functions of the events alone, so anybody can run them again on the file.
package check

import (
	"cmp"
	"slices"
	"time"

	"leasehold/torture/history"
)

// Property is one promise of a lock.
type Property string

// The properties, in the order of a report.
const (
	Exclusion Property = "exclusion" // the permits of valid leases never exceed the limit
	Honesty   Property = "honesty"   // Unlock says that a lease was valid to its end: nobody else's was meanwhile
	Tokens    Property = "tokens"    // an exclusive lease has a higher token than each that came before
	Order     Property = "order"     // the claim that has its place first is granted first
	Resource  Property = "resource"  // a resource that checks tokens loses no update
	Notified  Property = "notified"  // a client learns that its lease is lost before another's is valid for long
	Liveness  Property = "liveness"  // nobody waits for a free name longer than the bound
	Nothing   Property = "nothing"   // nothing is left behind
	Queue     Property = "queue"     // the engine itself answers as package engine/queue does, in some order of its calls
)

// properties are all that every judgement has. [Options].Queue adds the last.
var properties = []Property{Exclusion, Honesty, Tokens, Order, Resource, Notified, Liveness, Nothing}

// Word is a verdict in one word.
type Word string

// The verdicts of a trial on a property.
const (
	Violated    Word = "violated"     // it does not hold
	NotSeen     Word = "not seen"     // no violation, in a trial that could have seen one
	Void        Word = "void"         // no violation, in a trial that is too small to count
	AsDeclared  Word = "as declared"  // it does not hold under a fault for which the engine promises nothing
	TooWeak     Word = "too weak"     // the engine declares that it fails under a fault, and the trial did not show it
	NotDeclared Word = "not declared" // the engine does not promise it
)

// Verdict is what a trial says of one property.
type Verdict struct {
	Property Property `json:"property"`
	Word     Word     `json:"word"`
	Why      string   `json:"why"`
	Found    int      `json:"found"`    // violations, those that Findings does not list included
	Declared int      `json:"declared"` // those of them that the engine declares

	// N is how many independent strikes the verdict rests on. A strike counts once,
	// however many names it hit. Bound is 3/N: with 95 % confidence a strike does less
	// often than this what N strikes did not do. Bound is 0 unless Word is NotSeen.
	N     int     `json:"n"`
	Bound float64 `json:"bound,omitempty"`
}

// Finding is one violation.
type Finding struct {
	Property Property      `json:"property"`
	At       time.Duration `json:"at"` // the first moment at which it is certain
	Names    []string      `json:"names,omitempty"`
	Text     string        `json:"text"`
	Lines    []int         `json:"lines"`              // of the history: the few events that prove it; the first is 1
	Declared string        `json:"declared,omitempty"` // the fault for which the engine promises nothing, in words
}

// Options say how much a trial must have seen to count. Zero means the default.
type Options struct {
	// Grants is the least number of leases, and of checked calls of the engine itself. The
	// default is 500: a race with a chance of one in 100 per grant shows itself in 500
	// grants with 99 %.
	Grants int

	// Strikes is the least number of faults that had an effect while somebody held a
	// lease. The default is 20: the bound of 3/20 is the first that excludes a fault
	// that every sixth strike shows.
	Strikes int

	// Queue has the property Queue judged too. It takes far longer than all others.
	Queue bool
}

func (o Options) orDefault() Options {
	o.Grants, o.Strikes = cmp.Or(o.Grants, 500), cmp.Or(o.Strikes, 20)
	return o
}

// Result is all that a history says.
type Result struct {
	Run      history.Run `json:"run"`
	Cut      bool        `json:"cut"` // the history has no end: the trial was cut short
	Verdicts []Verdict   `json:"verdicts"`
	Findings []Finding   `json:"findings"` // by time; 100 of each property at most
	Stats    Stats       `json:"stats"`
}

// Has reports whether a verdict is w.
func (r *Result) Has(w Word) bool {
	return slices.ContainsFunc(r.Verdicts, func(v Verdict) bool { return v.Word == w })
}

// Struck is how many strikes had an effect while somebody held a lease.
func (r *Result) Struck() (n int) {
	for _, f := range r.Stats.Faults {
		n += f.Struck
	}
	return n
}

// Of returns the verdict of one property.
func (r *Result) Of(p Property) Verdict {
	i := slices.IndexFunc(r.Verdicts, func(v Verdict) bool { return v.Property == p })
	return r.Verdicts[i]
}

// History judges a history. It returns an error if the events contradict each other, so that
// nothing can be said.
func History(events []history.Event, o Options) (*Result, error) {
	t, err := read(events)
	if err != nil {
		return nil, err
	}
	for _, name := range t.names {
		t.exclusion(name)
		t.honesty(name)
		t.tokens(name)
		t.order(name)
		t.notified(name)
	}
	t.resources()
	t.liveness()
	t.leftovers()
	if o.Queue {
		if err := t.answers(); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(t.findings, func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
	return &Result{
		Run: t.run, Cut: !t.complete, Findings: t.findings, Stats: t.stats,
		Verdicts: t.verdicts(o.orDefault()),
	}, nil
}
