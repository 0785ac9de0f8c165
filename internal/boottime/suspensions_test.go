package boottime

import (
	"testing"
	"time"
)

// The monotonic clock stands still during a suspension, and the wall clock is set: time
// elapsed counts the one and never stops for the other.
func TestTimeElapsedByTwoClocks(t *testing.T) {
	type reading struct{ mono, wall, want time.Duration }
	const s, ms = time.Second, time.Millisecond
	for name, readings := range map[string][]reading{
		"nothing happens": {{0, 0, 0}, {s, s, s}, {2 * s, 2 * s, 2 * s}},
		"suspended":       {{s, s, s}, {2 * s, 12 * s, 12 * s}, {3 * s, 13 * s, 13 * s}},
		"suspended twice": {{s, s, s}, {2 * s, 12 * s, 12 * s}, {3 * s, 33 * s, 33 * s}},
		"stepped forward": {{s, s, s}, {2 * s, 62 * s, 62 * s}, {3 * s, 63 * s, 63 * s}},
		"stepped back":    {{s, s, s}, {2 * s, -58 * s, 2 * s}, {3 * s, -57 * s, 3 * s}},
		"forward, then back": {
			{s, s, s}, {2 * s, 62 * s, 62 * s}, {3 * s, 3 * s, 63 * s}, {4 * s, 4 * s, 64 * s}, {40 * s, 40 * s, 100 * s},
		},
		"suspended, then stepped back": {
			{s, s, s}, {2 * s, 12 * s, 12 * s}, {3 * s, 8 * s, 13 * s}, {4 * s, 9 * s, 14 * s},
		},
		"stepped back, then suspended": {
			{s, s, s}, {2 * s, -58 * s, 2 * s}, {3 * s, -47 * s, 13 * s}, {4 * s, -46 * s, 14 * s},
		},
		"back and forward again and again": {
			{s, s, s}, {2 * s, -8 * s, 2 * s}, {3 * s, 3 * s, 13 * s}, {4 * s, -6 * s, 14 * s}, {5 * s, 5 * s, 25 * s},
		},
		"noise is no suspension": {
			{s, s + 3*ms, s}, {2 * s, 2*s - ms, 2 * s}, {3 * s, 3*s + 3*ms, 3 * s}, {4 * s, 4*s - ms, 4 * s},
		},
		"slewed forward": { // little by little is counted late, and counted
			{s, s + 4*ms, s}, {2 * s, 2*s + 8*ms, 2*s + 8*ms}, {3 * s, 3*s + 12*ms, 3*s + 8*ms}, {4 * s, 4*s + 16*ms, 4*s + 16*ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var seen suspensions
			for i, r := range readings {
				if got := seen.elapsed(r.mono, r.wall); got != r.want {
					t.Errorf("reading %d, %v and %v by the wall clock: %v elapsed, want %v", i, r.mono, r.wall, got, r.want)
				}
			}
		})
	}
}
