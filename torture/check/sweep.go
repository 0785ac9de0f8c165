package check

import (
	"cmp"
	"slices"
	"time"
)

// point is one moment of a sweep over the spans of one name.
type point struct {
	at    time.Duration
	phase int8 // at one moment: 0 ends, 1 is a span that lasts no time, 2 begins
	hold  *hold
}

// sweep passes over spans by time, and calls over for each one that begins while the permits
// of those that are open, and its own, are more than the limit, or while the limits differ.
// Spans that only touch do not overlap: two events of one time have no order.
func sweep(holds []*hold, of func(*hold) span, over func(h *hold, open []*hold)) {
	points := make([]point, 0, 2*len(holds))
	for _, h := range holds {
		switch s := of(h); {
		case !s.exists():
		case s.start == s.end:
			points = append(points, point{s.start, 1, h})
		default:
			points = append(points, point{s.start, 2, h}, point{s.end, 0, h})
		}
	}
	slices.SortFunc(points, func(a, b point) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.phase, b.phase), cmp.Compare(a.hold.call, b.hold.call))
	})

	open := map[*hold]bool{}
	limits := map[int32]int{} // of those that are open
	sum := int64(0)
	for _, p := range points {
		h := p.hold
		if p.phase == 0 {
			delete(open, h)
			sum -= int64(h.permits)
			if limits[h.limit]--; limits[h.limit] == 0 {
				delete(limits, h.limit)
			}
			continue
		}
		if len(open) > 0 && (sum+int64(h.permits) > int64(h.limit) || len(limits) > 1 || limits[h.limit] == 0) {
			over(h, byCall(open))
		}
		if p.phase == 2 {
			open[h] = true
			limits[h.limit]++
			sum += int64(h.permits)
		}
	}
}

func byCall(open map[*hold]bool) []*hold {
	var out []*hold
	for h := range open {
		out = append(out, h)
	}
	slices.SortFunc(out, func(a, b *hold) int { return cmp.Compare(a.call, b.call) })
	return out
}
