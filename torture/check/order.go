package check

import (
	"fmt"
	"slices"

	"leasehold/engine"
	"leasehold/torture/history"
)

// fifo is what Declares.Order says of an engine with order.
const fifo = "fifo"

// order: a Lock that had its place in the queue before another call began is granted first,
// if the two cannot hold at once. (If they can, both may be granted at one moment.) A Lock
// that was not granted in the end has no right to it.
func (t *trial) order(name string) {
	if t.run.Declares.Order != fifo {
		return
	}
	var waiting []*op // that have their place, by it
	for _, e := range t.passes(name) {
		if e.queued {
			waiting = append(waiting, e.op)
			continue
		}
		if e.op.queued >= 0 {
			waiting = slices.DeleteFunc(waiting, func(o *op) bool { return o == e.op })
		}
		t.judged[Order] += len(waiting)
		for _, first := range waiting {
			if t.full(Order) || t.at(first.queued) >= t.at(e.op.call) {
				break
			}
			if conflict(first, e.op) && t.passed(name, first, e.op) {
				t.report(Finding{
					Property: Order, At: t.at(e.op.answer), Declared: t.cause(t.at(e.op.answer)),
					Lines: lines(first.queued, e.op.call, e.op.answer, first.answer),
					Text: fmt.Sprintf("%s had its place at %s, and %s was asked for at %s, but was granted first: at %s, not after %s",
						first.describe(), clock(t.at(first.queued)), e.op.describe(), clock(t.at(e.op.call)), clock(t.at(e.op.answer)), clock(t.at(first.answer))),
				}, name)
				break
			}
		}
	}
}

// pass is a moment in the queue of a name: a claim has its place, or is granted.
type pass struct {
	line   int
	queued bool
	op     *op
}

func (t *trial) passes(name string) []pass {
	var all []pass
	for _, o := range t.asked[name] {
		if o.hold == nil || o.hold.op != o || o.what == history.Adopt {
			continue // not granted, or granted with the claim of another
		}
		all = append(all, pass{o.answer, false, o})
		if o.queued >= 0 {
			all = append(all, pass{o.queued, true, o})
		}
	}
	slices.SortFunc(all, func(a, b pass) int { return a.line - b.line })
	return all
}

// passed is whether second overtook first against the promise, and not for one of the reasons
// that the promise leaves open.
func (t *trial) passed(name string, first, second *op) bool {
	if t.at(second.answer) >= t.at(first.answer) {
		return false
	}
	if h := first.hold; h.revoked <= t.at(second.answer) && h.said.from < 0 {
		// The claim of first may have held before that of second, and have been revoked at once.
		// Its client hears of either later. It never learned of a revocation if Unlock said OK.
		return false
	}
	place, token := ticket(first), ticket(second)
	if t.older(name, first, second) {
		return false
	}
	// A lease that nobody saw valid may have ended before its answer was read.
	_, exited := t.exits[first.client]
	dead := (first.lost >= 0 || exited) && first.hold.sure.from < 0 && first.hold.said.from < 0
	if place != 0 && place < token && !dead {
		return true // no place was lost: the one that was served later was the earlier one
	}
	// The claim of first may have ended while it waited, and have been made anew at the
	// end: its client was stopped, the engine was away, or somebody revoked it. If its lease was
	// dead as soon as the answer came, the claim may have held before, and have expired, or its
	// client may have been killed.
	for _, s := range t.strikes {
		if s.At < t.at(first.answer) && s.heal > t.at(first.call) {
			return false
		}
	}
	for _, r := range t.revoke[name] {
		if r.call < first.answer && t.closed(r) > first.call {
			return false
		}
	}
	return true
}

// older is whether second was, or may have been, granted with a claim that its process had
// joined before: by local handoff, or after other callers of it gave up.
func (t *trial) older(name string, first, second *op) bool {
	if n := ticket(second); n != 0 && n < first.place {
		// Its claim stood there first, unless the history has it asked for later: then the
		// tickets lie.
		maker := t.made[place{name, n}]
		return maker == nil || maker.call < first.queued
	}
	for _, o := range t.asked[name] {
		if o.call >= first.queued {
			break
		}
		if o.client != second.client || o == second {
			continue
		}
		if second.token != 0 && o.hold != nil && ticket(o) == ticket(second) {
			return true
		}
		if o.answer < 0 || o.answer > second.call {
			return true
		}
	}
	return false
}

// ticket is the place in the queue that a token was made from.
func ticket(o *op) uint64 { return o.token >> engine.HandoffBits }
