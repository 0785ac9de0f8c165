package boottime

import "time"

// noise is how much the wall clock's lead grows with no suspension: both clocks
// are not read in one step, and the wall clock is slewed.
const noise = 5 * time.Millisecond

// suspensions is what a monotonic clock, which stops during suspension, has missed.
// The wall clock goes on, so each increase of its lead counts as suspension.
// A decrease is a step back and only moves the point from which the lead grows:
// what was counted stays, and no later suspension hides behind the step.
type suspensions struct {
	lead  time.Duration // of the wall clock, as of the last step or suspension
	slept time.Duration
}

// elapsed is the time elapsed by a reading of both clocks, from a common zero.
func (s *suspensions) elapsed(mono, wall time.Duration) time.Duration {
	lead := wall - mono
	switch grown := lead - s.lead; {
	case grown < 0:
		s.lead = lead
	case grown > noise:
		s.slept += grown
		s.lead = lead
	}
	return mono + s.slept
}
