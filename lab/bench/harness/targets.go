package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Bar is a promise about figures, checked with every run.
type Target struct {
	ID    string // unique in its suite
	What  string
	Want  string // in words
	Exact bool   // a count, not a time: enforced even in a quick look

	Of    func(*Results) (Stat, bool)
	Most  float64 // 0: no upper bound
	Least float64 // 0: no lower bound
}

// TargetResult is a target as measured.
type TargetResult struct {
	ID       string `json:"id"` // suite/bar
	What     string `json:"what"`
	Want     string `json:"want"`
	Got      *Stat  `json:"got,omitempty"`
	Verdict  string `json:"verdict"`
	Expected string `json:"expected,omitempty"` // why a miss is known
	Fails    bool   `json:"fails"`
}

// Verdicts on bars.
const (
	Met         = "met"
	Missed      = "missed"
	NotMeasured = "not measured"
)

// Expected is the known misses: reasons by "suite/bar".
type Expected map[string]string

// ReadExpected reads expected.json. A miss without a reason is refused.
func ReadExpected(b []byte) (e Expected, err error) {
	if err := json.Unmarshal(b, &e); err != nil {
		return nil, fmt.Errorf("expected.json: %w", err)
	}
	for id, why := range e {
		if strings.TrimSpace(why) == "" {
			return nil, fmt.Errorf("expected.json: %s has no reason", id)
		}
	}
	return e, nil
}

// Judge checks every bar. A bar decides by its median. Broken exclusion on our
// side is a missed bar of its own that no expectation excuses. In a quick look
// only counts are enforced; in a narrowed run what was not measured is not
// missed.
func (f *Suite) Judge(r *Results, e Expected, c Choice) {
	for _, b := range f.Targets {
		x := TargetResult{ID: f.Name + "/" + b.ID, What: b.What, Want: b.Want, Expected: e[f.Name+"/"+b.ID]}
		s, ok := b.Of(r)
		switch {
		case !ok:
			x.Verdict = NotMeasured
			x.Fails = len(c.Only) == 0 && len(c.Competitors) == 0 && !c.Quick
		case b.Most != 0 && s.Median > b.Most, b.Least != 0 && s.Median < b.Least:
			x.Got, x.Verdict = &s, Missed
			x.Fails = b.Exact || !c.Quick
		default:
			x.Got, x.Verdict = &s, Met
		}
		if x.Expected != "" {
			x.Fails = false
		}
		r.Targets = append(r.Targets, x)
	}
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if !strings.HasPrefix(row.Competitor, Us) {
				continue
			}
			if n := row.Faults[FaultOverlap] + row.Faults[FaultLost]; n > 0 {
				r.Targets = append(r.Targets, TargetResult{
					ID: f.Name + "/exclusion", What: "exclusion in " + t.ID, Want: "never broken",
					Got: &Stat{Median: float64(n), Min: float64(n), Max: float64(n)}, Verdict: Missed, Fails: true,
				})
			}
		}
	}
}

// Failed lists the targets that make the run fail.
func (r *Results) Failed() (ids []string) {
	for _, b := range r.Targets {
		if b.Fails {
			ids = append(ids, b.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
