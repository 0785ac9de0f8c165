package harness

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Table is one workload's result.
type Table struct {
	ID      string   `json:"id"`
	Title   string   `json:"title"`
	How     string   `json:"how"`
	Columns []Column `json:"-"`
	Main    string   `json:"main"`
	Lower   bool     `json:"lower_is_better"`
	Rows    []*Row   `json:"rows"`
}

// Row is one competitor's result in a workload.
type Row struct {
	Competitor string             `json:"competitor"`
	Baseline   bool               `json:"baseline"`
	Figures    map[string]Stat    `json:"figures"`
	Faults     map[string]int64   `json:"faults,omitempty"` // of all rounds
	Cause      string             `json:"cause,omitempty"`  // of the first fault
	Traffic    map[string]float64 `json:"wire,omitempty"`   // requests by command
	Ahead      *Stat              `json:"leasehold_ahead_by,omitempty"`

	rounds map[string][]float64
}

// Results is what a suite measured.
type Results struct {
	Suite       string             `json:"suite"`
	Title       string             `json:"title"`
	Servers     []string           `json:"servers"`
	Rounds      int                `json:"rounds"`
	Seconds     float64            `json:"seconds"`
	Tables      []*Table           `json:"tables"`
	Targets     []TargetResult     `json:"targets"`
	Competitors []CompetitorResult `json:"competitors"`
}

// CompetitorResult says how a competitor was used.
type CompetitorResult struct {
	Name     string `json:"name"`
	Baseline bool   `json:"baseline"`
	Waits    string `json:"waits,omitempty"`
	About    string `json:"about"`
}

// Choice narrows a run.
type Choice struct {
	Scale
	Only        []string // workloads, by ID or its beginning
	Competitors []string // by name
	Progress    io.Writer
}

func (c Choice) wants(w Workload) bool {
	if len(c.Only) == 0 {
		return !(c.Quick && w.SkipQuick)
	}
	return slices.ContainsFunc(c.Only, func(s string) bool { return strings.HasPrefix(w.ID, s) })
}

// Run runs a suite: workload by workload, round by round, competitor by competitor.
func (f *Suite) Run(ctx context.Context, c Choice) (*Results, error) {
	began := time.Now()
	stage, err := f.Start(ctx)
	if err != nil {
		return nil, fmt.Errorf("suite %s: %w", f.Name, err)
	}
	defer stage.Close()
	stage.Suite, stage.Scale = f.Name, c.Scale
	r := &Results{Suite: f.Name, Title: f.Title, Servers: stage.Servers, Rounds: c.Rounds}
	f.Describe(r)
	for _, w := range f.Workloads {
		if !c.wants(w) {
			continue
		}
		t, err := f.table(ctx, stage, c, w, began)
		if err != nil {
			return nil, err
		}
		r.Tables = append(r.Tables, t)
	}
	r.Seconds = time.Since(began).Seconds()
	return r, nil
}

// Describe adds to results what stands in the code and not in the figures, so
// that results read from JSON can be printed again.
func (f *Suite) Describe(r *Results) {
	r.Competitors = nil
	for _, p := range f.Competitors {
		r.Competitors = append(r.Competitors, CompetitorResult{p.Name, p.Baseline, p.Waits, p.About})
	}
	for _, t := range r.Tables {
		for _, w := range f.Workloads {
			if w.ID == t.ID {
				t.Title, t.How, t.Columns = w.Title, w.How, w.Columns
			}
		}
	}
}

func (f *Suite) table(ctx context.Context, stage *Stage, c Choice, w Workload, began time.Time) (*Table, error) {
	t := &Table{ID: w.ID, Title: w.Title, How: w.How, Columns: w.Columns, Main: w.Main, Lower: w.Lower}
	var competitors []Competitor
	for _, name := range w.Competitors {
		p, err := f.Competitor(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", w.ID, err)
		}
		if len(c.Competitors) > 0 && !slices.Contains(c.Competitors, name) {
			continue
		}
		competitors = append(competitors, p)
		t.Rows = append(t.Rows, &Row{Competitor: p.Name, Baseline: p.Baseline, rounds: map[string][]float64{}, Faults: map[string]int64{}})
	}
	rounds := c.Rounds
	if w.Once {
		rounds = 1
	}
	step := func(what string, row *Row, p Competitor, measure func(context.Context, *Stage, Competitor) (Sample, error)) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := stage.Reset(ctx); err != nil {
			return fmt.Errorf("%s: reset: %w", w.ID, err)
		}
		s, err := measure(ctx, stage, p)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			s.Cause = err.Error()
			s.Faults = map[string]int64{"measurements failed": 1}
		}
		row.add(s)
		fmt.Fprintf(c.Progress, "[%s] %s %s %s: %s\n", time.Since(began).Round(time.Second), w.ID, what, p.Name, s.oneLine(w))
		return nil
	}
	for round := range rounds {
		for i, p := range competitors {
			if err := step(fmt.Sprintf("round %d/%d", round+1, rounds), t.Rows[i], p, w.Measure); err != nil {
				return nil, err
			}
		}
	}
	if w.Count != nil {
		for i, p := range competitors {
			if err := step("count", t.Rows[i], p, w.Count); err != nil {
				return nil, err
			}
		}
	}
	t.finish()
	return t, nil
}

func (s Sample) oneLine(w Workload) string {
	var words []string
	for _, c := range w.Columns {
		if v, ok := s.Figures[c.Key]; ok {
			words = append(words, c.Head+" "+c.Unit.Format(v))
		}
	}
	for name, n := range s.Faults {
		words = append(words, fmt.Sprintf("%d %s", n, name))
	}
	if s.Traffic != nil {
		words = append(words, fmt.Sprint("wire ", commands(s.Traffic)))
	}
	if s.Cause != "" {
		words = append(words, "("+strings.ReplaceAll(s.Cause, "\n", " | ")+")")
	}
	return strings.Join(words, ", ")
}

func (r *Row) add(s Sample) {
	for key, v := range s.Figures {
		r.rounds[key] = append(r.rounds[key], v)
	}
	for name, n := range s.Faults {
		r.Faults[name] += n
	}
	if r.Cause == "" {
		r.Cause = s.Cause
	}
	if s.Traffic != nil {
		r.Traffic = s.Traffic
	}
}

// finish computes medians and, where we take part, by how much we are ahead.
func (t *Table) finish() {
	var us *Row
	for _, r := range t.Rows {
		if r.Competitor == Us {
			us = r
		}
	}
	for _, r := range t.Rows {
		r.Figures = map[string]Stat{}
		for key, rounds := range r.rounds {
			if s, ok := NewStat(rounds); ok {
				r.Figures[key] = s
			}
		}
		if us == nil || strings.HasPrefix(r.Competitor, Us) {
			continue // itself, or another form of it
		}
		a, b := us.rounds[t.Main], r.rounds[t.Main]
		if t.Lower {
			a, b = b, a
		}
		if s, ok := Ratio(a, b); ok {
			r.Ahead = &s
		}
	}
}

// Table finds a table by its workload's ID.
func (r *Results) Table(id string) *Table {
	for _, t := range r.Tables {
		if t.ID == id {
			return t
		}
	}
	return nil
}

func (r *Results) row(id, competitor string) *Row {
	if t := r.Table(id); t != nil {
		for _, row := range t.Rows {
			if row.Competitor == competitor {
				return row
			}
		}
	}
	return nil
}

// Figure is a figure of one competitor.
func (r *Results) Figure(id, competitor, key string) (Stat, bool) {
	row := r.row(id, competitor)
	if row == nil {
		return Stat{}, false
	}
	s, ok := row.Figures[key]
	return s, ok
}

// Ratio is one competitor's figure by another's, round by round; they may stand in
// different workloads.
func (r *Results) Ratio(id, competitor, key, otherID, other, otherKey string) (Stat, bool) {
	a, b := r.row(id, competitor), r.row(otherID, other)
	if a == nil || b == nil {
		return Stat{}, false
	}
	return Ratio(a.of(key), b.of(otherKey))
}

// of is a figure round by round; of results that were read from JSON those rounds that
// have one.
func (r *Row) of(key string) []float64 {
	if r.rounds == nil {
		return r.Figures[key].Rounds
	}
	return r.rounds[key]
}

// Best is the ratio of our figure to that of whichever competitor (baselines apart) does
// best by its median.
func (r *Results) Best(id, key string, lower bool) (Stat, bool) {
	t := r.Table(id)
	if t == nil {
		return Stat{}, false
	}
	best, competitor := math.NaN(), ""
	for _, row := range t.Rows {
		s, ok := row.Figures[key]
		if !ok || row.Baseline || strings.HasPrefix(row.Competitor, Us) {
			continue
		}
		if competitor == "" || (s.Median < best) == lower {
			best, competitor = s.Median, row.Competitor
		}
	}
	return r.Ratio(id, Us, key, id, competitor, key)
}
