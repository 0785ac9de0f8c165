package claims

import "time"

// Counts is what there is in a Machine at one moment.
type Counts struct {
	Leases  int           // open ones
	Callers int           // who wait
	Failed  uint64        // calls that the engine did not answer, ever
	DownFor time.Duration // since when it does not answer; 0: it does

	// Trust is the shortest time until an open lease ends unless it is renewed, and
	// Part the smallest part of the time granted that is left of any. Leases that are
	// never renewed do not count: they end as they were asked to. 0 without any other.
	Trust time.Duration
	Part  float64
}

// Count looks at every claim and everybody who waits.
func (m *Machine) Count(now time.Duration) (c Counts) {
	c.Failed = m.failed
	if m.down {
		c.DownFor = max(now-m.downAt, 1)
	}
	first := true
	for _, cl := range m.claims {
		if q := cl.callers; q.current == cl {
			for w := q.head; w != nil; w = w.next {
				c.Callers++
			}
		}
		if !cl.phase.open() {
			continue
		}
		for l := cl.leases; l != nil; l = l.next {
			c.Leases++
		}
		if cl.noRenew || cl.granted <= 0 {
			continue
		}
		left := max(0, cl.trustedUntil()-now)
		part := float64(left) / float64(cl.granted)
		if first || left < c.Trust {
			c.Trust = left
		}
		if first || part < c.Part {
			c.Part = part
		}
		first = false
	}
	return c
}
