package harness

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Bar is a promise about figures, checked with every run.
type Bar struct {
	ID    string // unique in its family
	What  string
	Want  string // in words
	Exact bool   // a count, not a time: enforced even in a quick look

	Of    func(*Results) (Stat, bool)
	Most  float64 // 0: no upper bound
	Least float64 // 0: no lower bound
}

// BarResult is a bar as measured.
type BarResult struct {
	ID       string `json:"id"` // family/bar
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

// Expected is the known misses: reasons by "family/bar".
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
func (f *Family) Judge(r *Results, e Expected, c Choice) {
	for _, b := range f.Bars {
		x := BarResult{ID: f.Name + "/" + b.ID, What: b.What, Want: b.Want, Expected: e[f.Name+"/"+b.ID]}
		s, ok := b.Of(r)
		switch {
		case !ok:
			x.Verdict = NotMeasured
			x.Fails = len(c.Only) == 0 && len(c.Peers) == 0 && !c.Quick
		case b.Most != 0 && s.Median > b.Most, b.Least != 0 && s.Median < b.Least:
			x.Got, x.Verdict = &s, Missed
			x.Fails = b.Exact || !c.Quick
		default:
			x.Got, x.Verdict = &s, Met
		}
		if x.Expected != "" {
			x.Fails = false
		}
		r.Bars = append(r.Bars, x)
	}
	for _, t := range r.Tables {
		for _, row := range t.Rows {
			if !strings.HasPrefix(row.Peer, Us) {
				continue
			}
			if n := row.Faults[FaultOverlap] + row.Faults[FaultLost]; n > 0 {
				r.Bars = append(r.Bars, BarResult{
					ID: f.Name + "/exclusion", What: "exclusion in " + t.ID, Want: "never broken",
					Got: &Stat{Median: float64(n), Min: float64(n), Max: float64(n)}, Verdict: Missed, Fails: true,
				})
			}
		}
	}
}

// Failed lists the bars that make the run fail.
func (r *Results) Failed() (ids []string) {
	for _, b := range r.Bars {
		if b.Fails {
			ids = append(ids, b.ID)
		}
	}
	slices.Sort(ids)
	return ids
}
