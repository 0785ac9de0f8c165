package order

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"leasehold/engine"
)

const writer, reader = engine.Max, 1

func TestBlockers(t *testing.T) {
	for name, c := range map[string]struct {
		permits []int32
		limit   int32
		want    []int // of the last
	}{
		"alone, a claim waits":                         {[]int32{writer}, engine.Max, nil},
		"a writer waits for all ahead":                 {[]int32{writer, writer, writer}, engine.Max, []int{1}},
		"a writer overlooks the last of the readers":   {[]int32{reader, reader, writer}, engine.Max, []int{1}},
		"readers wait for each other":                  {[]int32{reader, reader, reader}, engine.Max, nil},
		"a reader waits for the reader ahead":          {[]int32{writer, reader, reader}, engine.Max, []int{0}},
		"a reader waits for the first writer":          {[]int32{writer, reader, writer, reader, reader}, engine.Max, []int{2}},
		"a permit waits for one holder alone":          {[]int32{1, 1, 1, 1}, 3, []int{2, 1, 0}},
		"a permit far behind waits for the holders":    {[]int32{1, 1, 1, 1, 1, 1}, 3, []int{4, 3, 2}},
		"a small claim passes a large one":             {[]int32{1, 3, 1}, 3, []int{1}},
		"the sum overflows":                            {[]int32{engine.Max - 1, engine.Max - 1}, engine.Max, []int{0}},
		"a light claim waits though there is room":     {[]int32{2, 2, 1}, 5, nil},
		"a heavy claim waits for one that fits beside": {[]int32{2, 2, 2}, 5, []int{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Blockers(c.permits, len(c.permits)-1, c.limit); !slices.Equal(got, c.want) {
				t.Errorf("%v of %d: the last waits for %v, want %v", c.permits, c.limit, got, c.want)
			}
		})
	}
}

// While all blockers stand, no claims that leave let the waiter hold; and a
// claim without blockers holds.
func TestBlockersAreEnough(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int32{1, 2, 3, 7, engine.Max}).Draw(t, "limit")
		permits := rapid.SliceOfN(rapid.OneOf(
			rapid.Int32Range(1, limit), rapid.SampledFrom([]int32{1, limit}),
		), 1, 12).Draw(t, "units")
		i := rapid.IntRange(0, len(permits)-1).Draw(t, "i")
		blockers := Blockers(permits, i, limit)
		if holds := i < Held(permits, limit); holds != (len(blockers) == 0) {
			t.Fatalf("%v of %d: claim %d holds: %v, and waits for %v", permits, limit, i, holds, blockers)
		}
		if len(blockers) == 0 {
			return
		}
		var left []int32
		at := 0
		for j := range i + 1 {
			if j == i || slices.Contains(blockers, j) || rapid.Bool().Draw(t, "stays") {
				at = len(left)
				left = append(left, permits[j])
			}
		}
		if at < Held(left, limit) {
			t.Fatalf("%v of %d: claim %d waits for %v, which all stand, and holds in %v", permits, limit, i, blockers, left)
		}
	})
}
