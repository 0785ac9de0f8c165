package check

import (
	"slices"
	"time"

	"leasehold/torture/history"
)

// leases finds for each hold when it was certainly valid.
func (t *trial) leases() {
	for _, name := range t.names {
		asked := map[uint64]int{} // for each claim, by its ticket
		for _, h := range t.holds[name] {
			if first, known := asked[ticket(h.op)]; !known || h.call < first {
				asked[ticket(h.op)] = h.call
			}
		}
		for _, h := range t.holds[name] {
			claimed := h.call
			if ticket(h.op) != 0 {
				claimed = asked[ticket(h.op)]
			}
			h.revoked = t.revokedAt(h, claimed)
			cut := h.revoked
			h.sure, h.said = span{from: -1}, span{from: -1}
			for _, o := range h.handles {
				if o.first >= 0 {
					h.sure = t.join(h.sure, o.first, o.lastMark)
				}
				if e := o.ending; e != nil && e.what == history.Unlock && e.result == history.OK {
					h.said = t.join(h.said, o.answer, e.call)
				}
			}
			if h.said.from >= 0 && h.sure.from >= 0 {
				h.said = t.join(h.said, h.sure.from, h.sure.to)
			}
			h.sure.end, h.said.end = min(h.sure.end, cut), min(h.said.end, cut)
		}
	}
}

// join is the shortest span that has both parts. The claim of a lease and of those that are
// re-entrant in it is one: if it was valid at two moments, it was valid between them.
func (t *trial) join(s span, from, to int) span {
	if s.from < 0 {
		return span{from, to, t.at(from), t.at(to)}
	}
	if from < s.from {
		s.from, s.start = from, t.at(from)
	}
	if to > s.to {
		s.to, s.end = to, t.at(to)
	}
	return s
}

// revokedAt is from when on a lease may overlap others, because somebody revoked the name at
// once. Who did may have meant any claim that had been asked for before its answer. Its
// client may not have heard of it, and goes on: with this lease, and for a TTL with further
// leases of the same claim, which it keeps or hands on by itself. claimed is when the claim of
// the lease was first asked for.
func (t *trial) revokedAt(h *hold, claimed int) time.Duration {
	for _, r := range t.revoke[h.name] {
		if !r.now || r.result == history.Refused || r.result == history.Taken {
			continue
		}
		heard := never
		if closed := t.closed(r); closed < len(t.events) {
			heard = t.at(closed) + t.run.TTL
		}
		if claimed < t.closed(r) && t.at(h.call) <= heard && t.released(h) > t.at(r.call) {
			return t.at(r.call)
		}
	}
	return never
}

// closed is the event after which a call does nothing new: its answer, or the end of its client.
// What it has sent before may still arrive, for the lease that it had chosen.
func (t *trial) closed(o *op) int {
	if o.answer >= 0 {
		return o.answer
	}
	if i, ok := t.exits[o.client]; ok {
		return i
	}
	return len(t.events)
}

// released is when the last handle of a hold is certainly given up: its Unlock or Detach was
// answered, or its client has exited. A lease that is lost is not: its claim stays until
// Unlock.
func (t *trial) released(h *hold) time.Duration {
	last := time.Duration(0)
	for _, o := range h.handles {
		last = max(last, t.gaveUp(o))
	}
	return last
}

func (t *trial) gaveUp(o *op) time.Duration {
	end := never
	if e := o.ending; e != nil && e.answer >= 0 {
		end = t.at(e.answer)
	}
	if i, ok := t.exits[o.client]; ok {
		end = min(end, t.at(i))
	}
	return end
}

// cause is a strike for which the engine promises nothing at that moment, in words. An old
// server may serve its clients until the strike is healed, and their leases last a TTL
// longer.
func (t *trial) cause(at time.Duration) string {
	return t.causeSince(at, at, func(*strike) time.Duration { return 0 })
}

// causeSince is the cause of a moment between the two. after is how much longer than that a
// strike may show itself.
func (t *trial) causeSince(since, until time.Duration, after func(*strike) time.Duration) string {
	for i := range t.strikes {
		s := &t.strikes[i]
		if s.At <= until && (s.heal == never || since <= s.heal+t.run.TTL+after(s)) && t.voids(s) {
			return s.describe()
		}
	}
	return ""
}

// forgets is how long after a strike the engine may have everybody wait, since it does not know
// who holds.
func (t *trial) forgets(s *strike) time.Duration {
	if slices.Contains(s.Breaks, history.Memory) || slices.Contains(s.Breaks, history.Failover) {
		return t.run.Declares.Longest
	}
	return 0
}
