package ui

import (
	"fmt"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

// lanes is the history of a name as a picture: a lane for each claim, from the left to now.
type lanes struct {
	Height int
	Lanes  []lane
	Ticks  []tick
	Cut    int // older claims that are not drawn
}

// lane is a claim: it waits, then it holds.
type lane struct {
	Y          int
	Text, Full string // who it is: as it fits, and in full
	WaitX      int
	WaitW      int
	HoldX      int
	HoldW      int
	Lost, Ends bool
	EndX       int
}

type tick struct {
	X    int
	Text string
}

const (
	maxLanes  = 16
	laneLeft  = 205 // for the names of owners
	laneWide  = 545
	laneHigh  = 22
	laneFirst = 26
)

// lanesOf draws events, the newest of which is first, and the claims of now. All changes
// since began are among the events, but for those in the gaps, the oldest of which is first.
//
// What happened in a gap has no event. So a claim that came or went in one is drawn only for
// the time in which it was seen: or two that followed each other would hold at one time.
func lanesOf(events []event, q engine.Queue, began time.Time, gaps []gap, now time.Time) *lanes {
	type span struct {
		claim            engine.Claim
		waits, held, end time.Time
		last             time.Time // of its events
		lost             bool
	}
	// from is since when all changes up to t were seen.
	from := func(t time.Time) time.Time {
		since := began
		for _, g := range gaps {
			if g.To.After(since) && !g.To.After(t) {
				since = g.To
			}
		}
		if since.After(t) {
			return t
		}
		return since
	}
	spans := map[uint64]*span{}
	var order []uint64
	of := func(c engine.Claim) *span {
		s := spans[c.Ticket]
		if s == nil {
			s = &span{claim: c}
			spans[c.Ticket] = s
			order = append(order, c.Ticket)
		}
		return s
	}
	for _, e := range slices.Backward(events) {
		s := of(e.Claim)
		s.last = e.At
		switch e.Kind {
		case waits:
			s.waits = e.At
		case granted:
			s.held = e.At
		case released, expired, revoked, left:
			s.end, s.lost = e.At, e.Lost()
		}
		switch { // it was there already when it was first seen
		case e.Kind == left && s.waits.IsZero():
			s.waits = from(e.At)
		case e.Kind != left && e.Kind != waits && s.held.IsZero():
			s.held = from(e.At)
		}
	}
	there := make(map[uint64]bool, len(q.Claims))
	for i, c := range q.Claims {
		there[c.Ticket] = true
		if i >= maxLanes && spans[c.Ticket] == nil {
			continue
		}
		s := of(c)
		switch {
		case c.State == engine.Held && s.held.IsZero():
			s.held = from(now)
		case c.State == engine.Waiting && s.waits.IsZero():
			s.waits = from(now)
		}
	}
	for t, s := range spans {
		if !s.end.IsZero() || there[t] {
			continue
		}
		s.end = s.last
		for _, g := range gaps { // it went in the first of those after it was last seen
			if !g.From.Before(s.last) {
				s.end = g.From
				break
			}
		}
	}
	if len(order) == 0 || now.IsZero() {
		return nil
	}
	slices.Sort(order)
	l := &lanes{Cut: max(0, len(order)-maxLanes)}
	order = order[l.Cut:]
	first := now.Add(-10 * time.Second)
	for _, t := range order {
		for _, at := range []time.Time{spans[t].waits, spans[t].held} {
			if !at.IsZero() && at.Before(first) {
				first = at
			}
		}
	}
	whole := now.Sub(first)
	x := func(t time.Time) int {
		// As whole numbers the product is too large after 195 days.
		return laneLeft + int(laneWide*(float64(min(max(0, t.Sub(first)), whole))/float64(whole)))
	}
	for i, t := range order {
		s := spans[t]
		owner := view.Printable(s.claim.Owner.String())
		v := lane{Y: laneFirst + i*laneHigh, Text: short(owner, 26), Full: fmt.Sprintf("%s, ticket %d", owner, t), Lost: s.lost, Ends: !s.end.IsZero()}
		end := now
		if v.Ends {
			end = s.end
		}
		v.EndX = x(end)
		if !s.waits.IsZero() {
			until := end
			if !s.held.IsZero() {
				until = s.held
			}
			v.WaitX = x(s.waits)
			v.WaitW = max(2, x(until)-v.WaitX)
		}
		if !s.held.IsZero() {
			v.HoldX = x(s.held)
			v.HoldW = max(2, x(end)-v.HoldX)
		}
		l.Lanes = append(l.Lanes, v)
	}
	l.Height = laneFirst + len(order)*laneHigh + 6
	l.Ticks = []tick{{laneLeft, "-" + long(whole)}, {laneLeft + laneWide/2, "-" + long(whole/2)}, {laneLeft + laneWide, "now"}}
	return l
}
