package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"leasehold/torture/history"
)

// tokens: each exclusive lease of a name has a token of its own, higher than that of each
// exclusive lease that certainly came before. A lease that is re-entrant in another has its
// token, and so has one that goes on with a detached lease.
func (t *trial) tokens(name string) {
	if t.run.Declares.Fencing == fencingNone {
		return
	}
	t.handles(name)
	var holds []*hold
	for _, h := range t.holds[name] {
		if h.exclusive() {
			holds = append(holds, h)
		}
	}
	t.judged[Tokens] += len(holds)
	t.unique(name, holds)

	// Its answer came before the other's call.
	t.rising(name, holds, func(h *hold) (int, time.Duration) { return h.answer, t.at(h.answer) },
		func(h *hold) (int, time.Duration) { return h.call, t.at(h.call) }, "was granted before %s was asked for")

	// It was valid for the last time before the other was for the first time.
	holds = slices.DeleteFunc(holds, func(h *hold) bool { return h.sure.from < 0 })
	t.rising(name, holds, func(h *hold) (int, time.Duration) { return h.sure.to, t.at(h.sure.to) },
		func(h *hold) (int, time.Duration) { return h.sure.from, t.at(h.sure.from) }, "was valid before %s was")
}

// What Declares.Fencing says.
const (
	fencingNone   = "none"
	fencingMemory = "memory"
)

// handles: what is re-entrant has the token of what it is in, and no token changes.
func (t *trial) handles(name string) {
	for _, h := range t.holds[name] {
		if in := h.of; in != nil && in.hold != nil && h.token != in.hold.token && !t.full(Tokens) {
			t.report(Finding{
				Property: Tokens, At: t.at(h.answer), Lines: lines(in.answer, h.answer),
				Text: fmt.Sprintf("%s has the token %d, but it goes on with %s, which has %d", h.describe(), h.token, in.describe(), in.hold.token),
			}, name)
		}
		for _, o := range h.handles {
			if o.lastMark >= 0 && t.events[o.lastMark].Token != o.token && !t.full(Tokens) {
				t.report(Finding{
					Property: Tokens, At: t.at(o.lastMark), Lines: lines(o.answer, o.lastMark),
					Text: fmt.Sprintf("%s began with the token %d and has %d later", o.describe(), o.token, t.events[o.lastMark].Token),
				}, name)
			}
		}
	}
}

func (t *trial) unique(name string, holds []*hold) {
	first := make(map[uint64]*hold, len(holds))
	for _, h := range holds {
		o := first[h.token]
		if o == nil {
			first[h.token] = h
			continue
		}
		if o.origin != h.origin && !t.full(Tokens) {
			t.report(Finding{
				Property: Tokens, At: t.at(h.answer), Declared: t.forgot(t.at(h.answer)), Lines: lines(o.answer, h.answer),
				Text: fmt.Sprintf("%s and %s have the same token, %d", o.describe(), h.describe(), h.token),
			}, name)
		}
	}
}

// rising compares each hold with the one of the highest token of those that ended before it
// began.
func (t *trial) rising(name string, holds []*hold, end, begin func(*hold) (int, time.Duration), how string) {
	ends, begins := slices.Clone(holds), slices.Clone(holds)
	by := func(of func(*hold) (int, time.Duration)) func(a, b *hold) int {
		return func(a, b *hold) int {
			i, _ := of(a)
			k, _ := of(b)
			return cmp.Compare(i, k)
		}
	}
	slices.SortFunc(ends, by(end))
	slices.SortFunc(begins, by(begin))
	var highest *hold
	for _, h := range begins {
		line, at := begin(h)
		for len(ends) > 0 {
			// Events of one time have no order.
			if _, ended := end(ends[0]); ended >= at {
				break
			}
			if highest == nil || ends[0].token > highest.token {
				highest = ends[0]
			}
			ends = ends[1:]
		}
		if highest == nil || highest.token < h.token || highest.origin == h.origin || highest.token == h.token || t.full(Tokens) {
			continue // two of one token are found elsewhere
		}
		if h.revoked <= at {
			continue // its claim had been revoked, and its client had not heard of that
		}
		ended, _ := end(highest)
		t.report(Finding{
			Property: Tokens, At: t.at(h.answer), Declared: cmp.Or(t.forgot(t.at(h.answer)), t.outlived(name, h, at)),
			Lines: lines(highest.answer, ended, line, h.answer),
			Text:  fmt.Sprintf("the token fell from %d to %d, although %s "+how, highest.token, h.token, highest.describe(), h.describe()),
		}, name)
	}
}

// outlived is a fault for which the engine promises no exclusion, and which ended the claim of
// a lease. Its client has not noticed, and goes on for a TTL at most, also by local handoff. Its
// token is the lower one, so a resource refuses it.
//
// The end of the fault may do that too: a clock that was set back goes forward when it is put
// right. So the claim may be younger than the fault, but not than its end.
func (t *trial) outlived(name string, h *hold, at time.Duration) string {
	asked := t.at(h.call)
	for _, o := range t.holds[name] {
		if ticket(o.op) == ticket(h.op) {
			asked = min(asked, t.at(o.call))
		}
	}
	for i := range t.strikes {
		s := &t.strikes[i]
		if asked < s.heal && s.At <= at && (s.heal == never || at <= s.heal+t.run.TTL) && t.voids(s) {
			return s.describe()
		}
	}
	return ""
}

// forgot is why tokens may fall: the engine declares that they rise until it forgets and its
// clock has stepped back, and faults before this moment did both. A failover forgets.
func (t *trial) forgot(at time.Duration) string {
	if t.run.Declares.Fencing != fencingMemory {
		return ""
	}
	var memory, clock *strike
	for i := range t.strikes {
		s := &t.strikes[i]
		if s.At > at {
			break
		}
		if slices.Contains(s.Breaks, history.Memory) || slices.Contains(s.Breaks, history.Failover) {
			memory = s
		}
		if slices.Contains(s.Breaks, history.Clock) {
			clock = s
		}
	}
	if memory == nil || clock == nil {
		return ""
	}
	if memory == clock {
		return memory.describe()
	}
	return memory.describe() + " and " + clock.describe()
}
