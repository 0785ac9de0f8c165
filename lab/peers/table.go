package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"leasehold/torture/check"
)

// results are the outcomes of runs: of one trial that was made again the last counts.
type results []outcome

func (r results) of(p *peer, asked bool, fault string) (outcome, bool) {
	for _, x := range slices.Backward(r) {
		if x.Lock == p.name && x.Asked == asked && x.Fault == fault {
			return x, true
		}
	}
	return outcome{}, false
}

// cell is what a trial says of exclusion.
func (x outcome) cell() string {
	overlaps := x.Found[string(check.Exclusion)]
	switch {
	case x.Failed != "":
		return "failed"
	case overlaps > 0 && x.busy():
		return fmt.Sprintf("void: nobody ran for %.0f s", x.Still.Seconds())
	case x.Fault == "none" && overlaps > 0:
		return fmt.Sprintf("**%d overlaps** of %d locks", overlaps, x.Leases)
	case x.Leases < enoughLeases:
		return fmt.Sprintf("void: %d locks", x.Leases)
	case x.Fault == "none":
		return fmt.Sprintf("not seen in %d locks", x.Leases)
	case x.Doubled > 0:
		return fmt.Sprintf("**%d of %d**", x.Doubled, x.Struck)
	case x.Struck < enoughStrikes:
		return fmt.Sprintf("void: %d strikes", x.Struck)
	}
	return fmt.Sprintf("0 of %d: below %.2g", x.Struck, 3/float64(x.Struck))
}

// busy is whether a trial without a fault had one: the machine ran nobody for longer than a TTL.
func (x outcome) busy() bool {
	return x.Fault == "none" && x.Still > peerOf(x.Lock).ttl
}

// besides is what else was seen in the trials of a row: of what the library promises, and of
// names that are not granted.
func (r results) besides(p *peer, asked bool) string {
	var all []string
	for _, fault := range faultNames {
		x, made := r.of(p, asked, fault)
		if !made || x.busy() {
			continue
		}
		for _, property := range []check.Property{check.Liveness, check.Honesty, check.Notified} {
			switch {
			case property == check.Honesty && (!p.speaks || x.Found[string(check.Exclusion)] > 0):
				continue // who held beside the one that unlocked only believed it: exclusion says so
			case property == check.Notified && !p.tells:
				continue
			}
			if n := x.Found[string(property)]; n > 0 {
				all = append(all, fmt.Sprintf("%s %d (%s)", property, n, fault))
			}
		}
	}
	return cmp.Or(strings.Join(all, ", "), "nothing")
}

// String is the two tables.
func (r results) String() string {
	var b strings.Builder
	b.WriteString("| lock | version | who renews | how a holder learns of a loss | order | fencing |\n|---|---|---|---|---|---|\n")
	seen := map[string]bool{}
	for _, p := range peers() {
		if !seen[p.shown] {
			seen[p.shown] = true
			fmt.Fprintf(&b, "| [%s](%s) | %s | %s | %s | %s | %s |\n", p.shown, p.page, p.released(), p.renewal, p.learns, p.order, p.fencing)
		}
	}
	b.WriteString("\n| store | lock | holder | no fault | kill | stop | wire | besides |\n|---|---|---|---|---|---|---|---|\n")
	for _, p := range peers() {
		for _, asked := range p.ways {
			cells := []string{p.store, p.shown, map[bool]string{true: "asks", false: "is notified"}[asked]}
			for _, fault := range faultNames {
				cell := "not made"
				if x, ok := r.of(p, asked, fault); ok {
					cell = x.cell()
				}
				cells = append(cells, cell)
			}
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(cells, " | "), r.besides(p, asked))
		}
	}
	return b.String()
}

// What the tables stand between in the page.
const (
	begin = "<!-- what `make peers` writes -->\n"
	end   = "<!-- until here -->\n"
)

// write puts the tables into a page.
func (r results) write(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return errors.New(page + " has no place for the tables: it needs the lines\n" + begin + end)
	}
	return os.WriteFile(page, []byte(before+begin+r.String()+end+after), 0o644)
}
