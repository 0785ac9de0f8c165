package harness

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fake is a suite whose competitors do what a table says, round by round.
func fake(us, them []float64, faults map[string]int64, targets ...Target) *Suite {
	next := map[string]int{}
	rounds := map[string][]float64{Us: us, "competitor": them}
	return &Suite{
		Name: "fake", Title: "A fake", Targets: targets,
		Competitors: []Competitor{{Name: Us, About: "us"}, {Name: "competitor", About: "them"}},
		Start: func(context.Context) (*Stage, error) {
			return &Stage{Close: func() {}, Reset: func(context.Context) error { return nil }}, nil
		},
		Workloads: []Workload{{
			ID: "W", Title: "w", How: "h", Competitors: []string{Us, "competitor"}, Columns: []Column{ColP50}, Main: P50, Lower: true,
			Measure: func(_ context.Context, _ *Stage, p Competitor) (Sample, error) {
				v := rounds[p.Name][next[p.Name]]
				next[p.Name]++
				s := Sample{Figures: map[string]float64{P50: v}}
				if p.Name == Us {
					s.Faults = faults
				}
				return s, nil
			},
		}},
	}
}

func judge(t *testing.T, f *Suite, e Expected, c Choice) *Results {
	t.Helper()
	c.Rounds, c.Progress = 3, io.Discard
	r, err := f.Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	f.Judge(r, e, c)
	return r
}

func TestTargets(t *testing.T) {
	target := Target{ID: "bar", What: "what", Want: "<= 2", Most: 2,
		Of: func(r *Results) (Stat, bool) { return r.Ratio("W", Us, P50, "W", "competitor", P50) }}
	exact := target
	exact.Exact = true
	elsewhere := target
	elsewhere.Of = func(r *Results) (Stat, bool) { return r.Figure("no such", Us, P50) }
	slow, good, them := []float64{30, 10, 30}, []float64{10, 30, 10}, []float64{10, 10, 10}

	for _, c := range []struct {
		name    string
		us      []float64
		faults  map[string]int64
		target  Target
		e       Expected
		choice  Choice
		verdict string
		fails   bool
	}{
		{"met by the median, one bad round notwithstanding", good, nil, target, nil, Choice{}, Met, false},
		{"missed", slow, nil, target, nil, Choice{}, Missed, true},
		{"missed and known", slow, nil, target, Expected{"fake/bar": "because"}, Choice{}, Missed, false},
		{"a miss elsewhere is known", slow, nil, target, Expected{"fake/other": "because"}, Choice{}, Missed, true},
		{"a quick look enforces no time", slow, nil, target, nil, Choice{Scale: Scale{Quick: true}}, Missed, false},
		{"a quick look enforces counts", slow, nil, exact, nil, Choice{Scale: Scale{Quick: true}}, Missed, true},
		{"not measured", good, nil, elsewhere, nil, Choice{}, NotMeasured, true},
		{"not asked for", good, nil, elsewhere, nil, Choice{Only: []string{"W"}}, NotMeasured, false},
		{"broken exclusion is never excused", good, map[string]int64{FaultLost: 1}, target, Expected{"fake/exclusion": "no"}, Choice{}, Met, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judge(t, fake(c.us, them, c.faults, c.target), c.e, c.choice)
			if r.Targets[0].Verdict != c.verdict {
				t.Errorf("verdict %q, want %q", r.Targets[0].Verdict, c.verdict)
			}
			if fails := len(r.Failed()) > 0; fails != c.fails {
				t.Errorf("fails %v, want %v: %v", fails, c.fails, r.Failed())
			}
		})
	}
}

func TestAMissNeedsAReason(t *testing.T) {
	if _, err := ReadExpected([]byte(`{"redis/bar": " "}`)); err == nil {
		t.Error("an empty reason was accepted")
	}
	if e, err := ReadExpected([]byte(`{}`)); err != nil || len(e) != 0 {
		t.Errorf("got %v, %v", e, err)
	}
}

func TestAFailedMeasurementIsReportedAndTheRunGoesOn(t *testing.T) {
	f := fake([]float64{1, 1, 1}, []float64{1, 1, 1}, nil)
	inner := f.Workloads[0].Measure
	f.Workloads[0].Measure = func(ctx context.Context, s *Stage, p Competitor) (Sample, error) {
		if p.Name == "competitor" {
			return Sample{}, io.ErrUnexpectedEOF
		}
		return inner(ctx, s, p)
	}
	r := judge(t, f, nil, Choice{})
	row := r.row("W", "competitor")
	if row.Faults["measurements failed"] != 3 || row.Cause != io.ErrUnexpectedEOF.Error() {
		t.Errorf("got %v, %q", row.Faults, row.Cause)
	}
	if s, ok := r.Figure("W", Us, P50); !ok || len(s.Rounds) != 3 {
		t.Errorf("the other competitor was not measured: %v %v", s, ok)
	}
}

func TestPeersTakeTurns(t *testing.T) {
	f := fake([]float64{1, 1, 1}, []float64{1, 1, 1}, nil)
	var order []string
	inner := f.Workloads[0].Measure
	f.Workloads[0].Measure = func(ctx context.Context, s *Stage, p Competitor) (Sample, error) {
		order = append(order, p.Name)
		return inner(ctx, s, p)
	}
	judge(t, f, nil, Choice{})
	if want := []string{Us, "competitor", Us, "competitor", Us, "competitor"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestTheBestPeerIsNeitherAFloorNorUs(t *testing.T) {
	r := &Results{Tables: []*Table{{ID: "W"}}}
	for name, v := range map[string]float64{"floor": 100, "leasehold mem": 90, Us: 40, "a": 10, "b": 20} {
		row := &Row{Competitor: name, Baseline: name == "floor", rounds: map[string][]float64{Rate: {v}}}
		s, _ := NewStat([]float64{v})
		row.Figures = map[string]Stat{Rate: s}
		r.Tables[0].Rows = append(r.Tables[0].Rows, row)
	}
	if s, ok := r.Best("W", Rate, false); !ok || s.Median != 2 {
		t.Errorf("most: got %v %v, want 2", s, ok)
	}
	if s, ok := r.Best("W", Rate, true); !ok || s.Median != 4 {
		t.Errorf("least: got %v %v, want 4", s, ok)
	}
}

func TestDocsKeepWhatIsOutsideTheMarkers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	old := "before\n<!-- bench:fake:begin -->\nstale\n<!-- bench:fake:end -->\nafter\n"
	if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	r := judge(t, fake([]float64{1, 1, 1}, []float64{2, 2, 2}, nil), nil, Choice{})
	for range 2 { // a second time changes nothing but the figures
		if err := r.WriteDocs(path, Machine{CPU: "a machine", Cores: 2}); err != nil {
			t.Fatal(err)
		}
	}
	b, _ := os.ReadFile(path)
	text := string(b)
	if !strings.HasPrefix(text, "before\n<!-- bench:fake:begin -->") || !strings.HasSuffix(text, "<!-- bench:fake:end -->\nafter\n") ||
		strings.Contains(text, "stale") || !strings.Contains(text, "| competitor ") || !strings.Contains(text, "2x (2 to 2)") {
		t.Errorf("got\n%s", text)
	}
	r.Suite = "other"
	if err := r.WriteDocs(path, Machine{}); err == nil {
		t.Error("missing markers went unnoticed")
	}
}

func TestResultsReadFromJSONPrintTheSame(t *testing.T) {
	f := fake([]float64{1, 2, 3}, []float64{2, 4, 6}, map[string]int64{"slept": 1}, Target{ID: "b", What: "b", Want: "<= 1", Most: 1,
		Of: func(r *Results) (Stat, bool) { return r.Figure("W", Us, P50) }})
	r := judge(t, f, nil, Choice{})
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var again Results
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	f.Describe(&again)
	var want, got strings.Builder
	r.Write(&want, Machine{})
	again.Write(&got, Machine{})
	if got.String() != want.String() {
		t.Errorf("got\n%s\nwant\n%s", &got, &want)
	}
}
