package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"leasehold/torture"
	"leasehold/torture/check"
)

// enough is what an engine's trials together must have seen to count, as package check asks
// it of one.
const (
	enoughLeases  = 500
	enoughStrikes = 20
)

// total is all trials, by engine.
type total struct {
	order []string
	rows  map[string]*row
}

// row is the trials of one engine.
type row struct {
	trials, failed, left, leases, lost int
	strikes, struck                    int // faults; those that had an effect while somebody held a lease
	violations, declared               int
	weak                               int            // trials that did not show what the engine declares to happen
	nemeses                            map[string]int // by name: how many had an effect
}

func newTotal(all []deployment) *total {
	t := &total{rows: map[string]*row{}}
	for _, d := range all {
		t.order = append(t.order, d.engine)
		t.rows[d.engine] = &row{nemeses: map[string]int{}}
	}
	return t
}

// add counts a trial, and returns it in a line.
func (t *total) add(x outcome) string {
	r := t.rows[x.Engine]
	r.trials++
	r.left += len(x.Left)
	words := []string{fmt.Sprintf("%s, seed %d:", x.Dir, x.Seed)}
	if x.Failed != "" {
		r.failed++
		words = append(words, "FAILED: "+x.Failed+";")
	}
	if x.Result != nil {
		words = append(words, r.judged(x))
	}
	if len(x.Left) > 0 {
		words = append(words, fmt.Sprintf("%d claims could not be ended;", len(x.Left)))
	}
	for _, n := range x.Notes {
		words = append(words, n+";")
	}
	return strings.TrimSuffix(strings.Join(words, " "), ";")
}

func (r *row) judged(x outcome) string {
	s := x.Result.Stats
	r.leases += s.Grants
	r.lost += s.Lost
	strikes, struck, declared := 0, 0, 0
	for _, f := range s.Faults {
		strikes += f.Strikes
		struck += f.Struck
		r.nemeses[f.Nemesis] += f.Bit
	}
	for _, v := range x.Result.Verdicts {
		declared += v.Declared
	}
	if x.Result.Has(check.TooWeak) {
		r.weak++
	}
	violations := torture.Violations(x.Result)
	r.strikes += strikes
	r.struck += struck
	r.violations += violations
	r.declared += declared
	return fmt.Sprintf("%d leases, %d lost, %d faults, %d of them with an effect on a lease, %d violations, %d as declared;",
		s.Grants, s.Lost, strikes, struck, violations, declared)
}

// word is the verdict on an engine.
func (r *row) word() string {
	switch {
	case r.violations > 0:
		return "VIOLATED"
	case r.failed > 0:
		return "FAILED"
	case r.left > 0:
		return "LEFT CLAIMS"
	case r.void():
		return "void: too few"
	case r.weak == r.trials:
		return "too weak to show what it declares"
	}
	return fmt.Sprintf("not seen: below %.2g of strikes", 3/float64(r.struck))
}

// void is whether the trials could not have shown a violation.
func (r *row) void() bool { return r.leases < enoughLeases || r.struck < enoughStrikes }

// code is the exit code.
func (t *total) code() int {
	code := 0
	for _, r := range t.rows {
		switch {
		case r.violations+r.failed+r.left > 0:
			return codeViolated
		case r.void(), r.weak == r.trials:
			code = codeVoid
		}
	}
	return code
}

// String is the table. The bound of an engine is with 95 % confidence.
func (t *total) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "engine\ttrials\tleases\tlost\tfaults\ton a lease\tas declared\tviolations\tverdict\tfaults with an effect")
	for _, name := range t.order {
		r := t.rows[name]
		var effects []string
		for _, n := range slices.Sorted(maps.Keys(r.nemeses)) {
			effects = append(effects, fmt.Sprintf("%s %d", n, r.nemeses[n]))
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\n", name, r.trials, r.leases, r.lost, r.strikes, r.struck, r.declared, r.violations,
			r.word(), strings.Join(effects, ", "))
	}
	w.Flush() // a strings.Builder takes everything
	return b.String()
}
