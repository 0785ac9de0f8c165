package harness

import (
	"cmp"
	"slices"
)

// Hold is one interval in which somebody believed to hold a name: from the
// moment the grant returned to the moment the release was called.
type Hold struct {
	Start, End int64 // CLOCK_MONOTONIC, nanoseconds
	Name       int32
	Units      int32
}

// Sweep counts the grants that began while the limit of their name was used
// up: a linear sweep over all begins and ends. An end at the very nanosecond of
// a begin counts as before it.
func Sweep(holds []Hold, limit int64) (overlaps int) {
	type edge struct {
		at    int64
		units int64
		name  int32
	}
	edges := make([]edge, 0, 2*len(holds))
	for _, h := range holds {
		edges = append(edges, edge{h.Start, int64(h.Units), h.Name}, edge{h.End, -int64(h.Units), h.Name})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.at, b.at), cmp.Compare(a.units, b.units))
	})
	var used int64 // back at 0 after each name: every hold ends
	for _, e := range edges {
		used += e.units
		if e.units > 0 && used > limit {
			overlaps++
		}
	}
	return overlaps
}
