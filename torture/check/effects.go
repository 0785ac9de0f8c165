package check

import (
	"slices"
	"time"

	"leasehold/torture/history"
)

// Effect is what one strike did to exclusive leases. They are those of its moment: of the client
// that it hit, or of all if it hit the servers. A lease that somebody revoked is left out. Times
// count from the strike.
type Effect struct {
	Fault  int
	Struck bool // it had an effect while somebody held a lease
	Held   int  // leases at that moment
	Ended  int  // those that were lost before the next strike, or whose client died

	// Learned has an item for each client that learned of its loss, and Next one for each
	// name of a lease that ended, if somebody waited for it at that moment: until the next
	// grant.
	Learned, Next []time.Duration

	// Overlap is the longest time for which two leases were valid that exclude each other, of
	// those times that began before the next strike.
	Overlap time.Duration
}

// Effects returns what each strike of a history did.
func Effects(events []history.Event) ([]Effect, error) {
	t, err := read(events)
	if err != nil {
		return nil, err
	}
	all := make([]Effect, len(t.strikes))
	for i := range t.strikes {
		until := never
		if i+1 < len(t.strikes) {
			until = t.strikes[i+1].At
		}
		all[i] = t.effect(&t.strikes[i], until)
	}
	for _, name := range t.names {
		sweep(t.holds[name], func(h *hold) span { return h.sure }, func(h *hold, open []*hold) {
			other := t.rival(h, open)
			from := max(h.sure.start, other.sure.start)
			n, _ := slices.BinarySearchFunc(t.strikes, from, func(s strike, at time.Duration) int {
				if s.At <= at {
					return -1
				}
				return 1
			})
			if n > 0 {
				// Two that were seen at one moment overlap, too.
				all[n-1].Overlap = max(all[n-1].Overlap, min(h.sure.end, other.sure.end)-from, 1)
			}
		})
	}
	return all, nil
}

// effect is what a strike did before the next one, which is at until.
func (t *trial) effect(s *strike, until time.Duration) Effect {
	e := Effect{Fault: s.Fault, Struck: s.struck}
	for _, name := range t.names {
		for _, h := range t.holds[name] {
			switch {
			case !h.exclusive(), h.revoked != never, t.marked(h), s.Client != "" && s.Client != h.client:
				continue
			case t.at(h.answer) > s.At, t.given(h) <= s.At:
				continue // it was not held at that moment
			}
			e.Held++
			ended, told := t.lostAt(h)
			if ended >= until {
				continue
			}
			e.Ended++
			if told {
				e.Learned = append(e.Learned, ended-s.At)
			}
			if next := t.next(h, s.At); next != never && t.wanted(name, s) {
				e.Next = append(e.Next, next-s.At)
			}
		}
	}
	return e
}

// lostAt is when a lease was lost: its client learned that, or died with it.
func (t *trial) lostAt(h *hold) (at time.Duration, told bool) {
	at = never
	for _, o := range h.handles {
		if o.lost >= 0 {
			at = min(at, t.at(o.lost))
		}
		if e := o.ending; e != nil && e.answer >= 0 && e.result == history.Gone {
			at = min(at, t.at(e.answer))
		}
	}
	if at != never {
		return at, true
	}
	open := slices.ContainsFunc(h.handles, func(o *op) bool { return o.ending == nil || o.ending.answer < 0 })
	if i, ok := t.exits[h.client]; ok && open {
		at = t.at(i)
	}
	return at, false
}

// next is when the name of a lease was granted to another after that moment.
func (t *trial) next(h *hold, after time.Duration) time.Duration {
	for _, o := range t.holds[h.name] { // in the order of their answers
		if t.at(o.answer) > after && o.origin != h.origin {
			return t.at(o.answer)
		}
	}
	return never
}

// wanted is whether somebody waited for a name when a strike came, who was not hit himself.
func (t *trial) wanted(name string, s *strike) bool {
	return slices.ContainsFunc(t.asked[name], func(o *op) bool {
		if o.what != history.Lock || s.Client != "" && s.Client == o.client || t.at(o.call) > s.At {
			return false
		}
		end := t.closed(o)
		return end == len(t.events) || t.at(end) > s.At
	})
}
