package harness

import (
	"fmt"
	"math"
	"slices"
)

// Stat is what several rounds measured.
type Stat struct {
	Median float64   `json:"median"`
	Min    float64   `json:"min"`
	Max    float64   `json:"max"`
	Rounds []float64 `json:"rounds"`
}

// NewStat is the median and the spread of some rounds. NaN stands for a round
// without a result and is left out.
func NewStat(rounds []float64) (s Stat, ok bool) {
	for _, v := range rounds {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			s.Rounds = append(s.Rounds, v)
		}
	}
	if len(s.Rounds) == 0 {
		return s, false
	}
	sorted := slices.Sorted(slices.Values(s.Rounds))
	n := len(sorted)
	s.Min, s.Max = sorted[0], sorted[n-1]
	s.Median = sorted[n/2]
	if n%2 == 0 {
		s.Median = (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return s, true
}

// Ratio compares two competitors round by round: what happened to the machine in a
// round happened to both.
func Ratio(a, b []float64) (Stat, bool) {
	var r []float64
	for i := range min(len(a), len(b)) {
		r = append(r, a[i]/b[i]) // NaN and Inf are left out by NewStat
	}
	return NewStat(r)
}

// Compare says in words what a ratio means: "2.50x (2.31 to 2.70)", or "no
// difference" when the spread crosses 1.
func (s Stat) Compare() string {
	if len(s.Rounds) == 1 {
		return short(s.Median) + "x (one round)"
	}
	if s.Min <= 1 && s.Max >= 1 {
		return fmt.Sprintf("no difference (%s to %s)", short(s.Min), short(s.Max))
	}
	return fmt.Sprintf("%sx (%s to %s)", short(s.Median), short(s.Min), short(s.Max))
}

// Short is Compare in a word.
func (s Stat) Short() string {
	if len(s.Rounds) > 1 && s.Min <= 1 && s.Max >= 1 {
		return "about 1x"
	}
	return short(s.Median) + "x"
}

// short prints three significant digits, without an exponent.
func short(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case v == math.Trunc(v) && a < 1e6:
		return fmt.Sprintf("%.0f", v)
	case a >= 100:
		return thousands(v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Percentile is the value that a share p (0 to 1) of the sorted values does not
// exceed (nearest rank); NaN of nothing.
func Percentile(sorted []int64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(p * float64(len(sorted))))
	return float64(sorted[min(max(rank, 1), len(sorted))-1])
}

// Jain is Jain's fairness index: 1 if all got the same, 1/n if one got all. NaN
// if nobody got anything.
func Jain(served []int64) float64 {
	var sum, squares float64
	for _, v := range served {
		sum += float64(v)
		squares += float64(v) * float64(v)
	}
	if sum == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(served)) * squares)
}

// Unserved is how many got nothing at all.
func Unserved(served []int64) (n int) {
	for _, v := range served {
		if v == 0 {
			n++
		}
	}
	return n
}
