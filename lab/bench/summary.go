package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"leasehold/lab/bench/harness"
	"leasehold/lab/bench/plots"
	"leasehold/lab/internal/page"
)

// headline is what README.md shows of an engine.
type headline struct {
	suite, on string
	pair      string // the workload of one goroutine, uncontended
	handover  string // between 8 processes, relayed
	us        string
	beside    func(competitor string) bool
}

func headlines() []headline {
	others := func(competitor string) bool { return competitor != redsync5 }
	masters := func(competitor string) bool { return competitor == redsync5 }
	return []headline{
		{"redis", "Redis", "W1", "W3-relay-8", harness.Us, others},
		{"redis", "Redis, five masters", "W1-masters", "W3-relay-8", ourRedlock, masters},
		{"zookeeper", "ZooKeeper", "W1", "W3-relay-8", harness.Us, others},
		{"etcd", "etcd", "E1", "E3-relay-8", harness.Us, others},
		{"sql", "PostgreSQL", "P1", "P3-relay-8", harness.Us, others},
		{"mysql", "MariaDB", "M1", "M3-relay-8", harness.Us, others},
	}
}

const plotBase = "docs/plots/handover"

// summarize puts the ratios between the markers of README.md, and draws the
// hand-overs beside it. Every headline must have been measured: a row that is
// missing would look as if there were nothing to say.
func summarize(readme string, all report) error {
	var table strings.Builder
	table.WriteString("| on | lock and unlock, nobody else | hand-over between 8 processes |\n|---|---|---|\n")
	var bars []plots.Bar
	for _, h := range headlines() {
		r := all.suite(h.suite)
		if r == nil || r.Table(h.pair) == nil || r.Table(h.handover) == nil {
			return fmt.Errorf("%s was not measured: README.md's table needs %s and %s of suite %s", h.on, h.pair, h.handover, h.suite)
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", h.on, h.ahead(r, h.pair), h.ahead(r, h.handover))
		if len(bars) > 0 {
			bars = append(bars, plots.Bar{})
		}
		for _, row := range r.Table(h.handover).Rows {
			s, ok := row.Figures[harness.P50]
			if ok && (row.Competitor == h.us || h.shows(row)) {
				bars = append(bars, plots.Bar{
					Label: h.on + ": " + row.Competitor, Value: s.Median / 1e6, Text: harness.Nanoseconds.Format(s.Median), Us: row.Competitor == h.us,
				})
			}
		}
	}
	if err := page.Put(readme, "summary", table.String()); err != nil {
		return err
	}
	base := filepath.Join(filepath.Dir(readme), plotBase)
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	return plots.Bars(base, "Hand-over between 8 processes, median", "milliseconds, logarithmic", bars)
}

func (all report) suite(name string) *harness.Results {
	for _, r := range all.Suites {
		if r.Suite == name {
			return r
		}
	}
	return nil
}

// shows: it is a competitor of ours, or a baseline.
func (h headline) shows(row *harness.Row) bool {
	return !strings.HasPrefix(row.Competitor, harness.Us) && h.beside(row.Competitor)
}

// ahead says by how much leasehold is ahead of each competitor in p50; below 1 it is behind.
// Where there is no competitor it is compared with the baselines, in italics.
func (h headline) ahead(r *harness.Results, id string) string {
	var competitors, baselines []string
	for _, row := range r.Table(id).Rows {
		if !h.shows(row) {
			continue
		}
		ratio, ok := r.Ratio(id, row.Competitor, harness.P50, id, h.us, harness.P50)
		switch {
		case !ok:
		case row.Baseline:
			baselines = append(baselines, fmt.Sprintf("*%s* %s", row.Competitor, ratio.Short()))
		default:
			competitors = append(competitors, fmt.Sprintf("%s %s", row.Competitor, ratio.Short()))
		}
	}
	if len(competitors) == 0 {
		competitors = baselines
	}
	return strings.Join(competitors, ", ")
}
