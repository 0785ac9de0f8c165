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

// lanesOf draws events, the newest of which is first, and the claims of now.
func lanesOf(events []event, q engine.Queue, began, now time.Time) *lanes {
	type span struct {
		claim            engine.Claim
		waits, held, end time.Time
		lost             bool
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
		switch e.Kind {
		case waits:
			s.waits = e.At
		case granted:
			s.held = e.At
		case released, expired, revoked, left:
			s.end, s.lost = e.At, e.Lost()
			if s.waits.IsZero() && s.held.IsZero() { // it was there when this process began
				if e.Kind == left {
					s.waits = began
				} else {
					s.held = began
				}
			}
		}
	}
	for _, c := range q.Claims[:min(len(q.Claims), maxLanes)] {
		s := of(c)
		switch {
		case c.State == engine.Held && s.held.IsZero():
			s.held = began
		case c.State == engine.Waiting && s.waits.IsZero():
			s.waits = began
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
		return laneLeft + int(int64(laneWide)*int64(min(max(0, t.Sub(first)), whole))/int64(whole))
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
