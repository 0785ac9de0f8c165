package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"leasehold/bench/harness"
	"leasehold/bench/plots"
)

// headline is a workload that README.md shows.
type headline struct {
	family, on string
	pair       string // uncontended
	handover   string // relayed, between 8 processes
}

func headlines() []headline {
	return []headline{
		{"redis", "Redis", "W1", "W3-relay-8"},
		{"redis", "Redis, five masters", "R1", "R3-relay-8"},
		{"zookeeper", "ZooKeeper", "W1", "W3-relay-8"},
		{"etcd", "etcd", "E1", "E3-relay-8"},
		{"sql", "PostgreSQL", "P1", "P3-relay-8"},
		{"sql", "MariaDB", "M1", "M3-relay-8"},
	}
}

const (
	summaryBegin = "<!-- bench:summary:begin -->\n"
	summaryEnd   = "<!-- bench:summary:end -->"
	plotBase     = "docs/plots/handover"
)

// summarize puts the ratios between the markers of README.md, and draws the
// hand-overs beside it. Every headline must have been measured: a row that is
// missing would look as if there were nothing to say.
func summarize(readme string, all report) error {
	old, err := os.ReadFile(readme)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(old), summaryBegin)
	_, after, found2 := strings.Cut(rest, summaryEnd)
	if !found || !found2 {
		return fmt.Errorf("%s has no markers %q and %q", readme, strings.TrimSpace(summaryBegin), summaryEnd)
	}
	var table strings.Builder
	table.WriteString("| on | lock and unlock, nobody else | hand-over between 8 processes |\n|---|---|---|\n")
	var bars []plots.Bar
	for _, h := range headlines() {
		pair, handover := all.table(h.family, h.pair), all.table(h.family, h.handover)
		if pair == nil || handover == nil {
			return fmt.Errorf("%s was not measured: README.md's table needs %s and %s of family %s", h.on, h.pair, h.handover, h.family)
		}
		fmt.Fprintf(&table, "| %s | %s | %s |\n", h.on, ahead(pair), ahead(handover))
		if len(bars) > 0 {
			bars = append(bars, plots.Bar{})
		}
		for _, r := range handover.Rows {
			if s, ok := r.Figures[harness.P50]; ok {
				bars = append(bars, plots.Bar{
					Label: h.on + ": " + r.Peer, Value: s.Median / 1e6, Text: harness.Nanoseconds.Format(s.Median), Us: strings.HasPrefix(r.Peer, harness.Us),
				})
			}
		}
	}
	if err := os.WriteFile(readme, []byte(before+summaryBegin+table.String()+summaryEnd+after), 0o644); err != nil {
		return err
	}
	base := filepath.Join(filepath.Dir(readme), plotBase)
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	return plots.Bars(base, "Hand-over between 8 processes, median", "milliseconds, logarithmic", bars)
}

func (all report) table(family, id string) *harness.Table {
	for _, r := range all.Families {
		if r.Family == family {
			if t := r.Table(id); t != nil {
				return t
			}
		}
	}
	return nil
}

// ahead says by how much leasehold is ahead of each peer; below 1 it is behind. Where
// there is no peer it is compared with the floor, in italics.
func ahead(t *harness.Table) string {
	var peers, floors []string
	for _, r := range t.Rows {
		switch {
		case r.Ahead == nil:
		case r.Floor:
			floors = append(floors, fmt.Sprintf("*%s* %s", r.Peer, r.Ahead.Short()))
		default:
			peers = append(peers, fmt.Sprintf("%s %s", r.Peer, r.Ahead.Short()))
		}
	}
	if len(peers) == 0 {
		peers = floors
	}
	return strings.Join(peers, ", ")
}
