package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold/lab/bench/harness"
)

// line is a row for the terminal.
func (r *row) line() string { return r.engine + ", " + r.fault + ": " + strings.Join(r.cells(), " | ") }

// cells are the columns behind the fault.
func (r *row) cells() []string {
	if r.why != "" {
		return []string{"not run: " + r.why, "", "", "", "", "", ""}
	}
	if r.void != "" {
		return []string{r.void, "", "", "", "", "", ""}
	}
	next := spread(r.next)
	if r.kept > 0 {
		next = strings.TrimPrefix(next+"; ", "; ") + fmt.Sprintf("%d of %d went on holding", r.kept, r.hit)
	}
	notified := spread(r.notified)
	if r.fault == holderKilled {
		notified = "no holder is left"
	} else if notified == "" {
		notified = "nothing was lost"
	}
	tokens := "rose"
	if r.fell > 0 {
		tokens = fmt.Sprintf("%d of %d did not rise", r.fell, r.hit)
	}
	fenced := "kept all"
	if r.lostSafe != 0 {
		fenced = fmt.Sprintf("lost %d updates", r.lostSafe)
	}
	if r.refused > 0 {
		fenced += fmt.Sprintf(", refused %d", r.refused)
	}
	unfenced := "kept all"
	if r.lost > 0 {
		unfenced = fmt.Sprintf("lost %d updates", r.lost)
	}
	return []string{next, notified, seconds(max(0, r.overlap)), seconds(r.allowed), tokens, unfenced, fenced}
}

func seconds(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// spread is the smallest and the largest.
func spread(d []time.Duration) string {
	if len(d) == 0 {
		return ""
	}
	low, high := fmt.Sprintf("%.1f", d[0].Seconds()), fmt.Sprintf("%.1f s", d[len(d)-1].Seconds())
	if low+" s" == high {
		return high
	}
	return low + " to " + high
}

// document is docs/failures.md.
func document(rows []*row, took time.Duration) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `# When something fails

This page shows the effect of a failed process or engine on the holder of a lock and on
the next waiter. `+"`make failures`"+` measured every figure and wrote this page; no figure is
typed by hand. One run on %s, %s.

- One process holds %d names with a TTL of %v, and another waits for the same names. Then
  the fault comes, somewhere between two renewals. A fault that heals (stopped, cut off)
  does so after %v. Clocks step by %v.
- **next holds**: the seconds from the fault to the grant, over the names. If the fault ends
  no lease, the row says so; then the next waiter held when the lease was given back.
- **old holder learns**: the seconds from the fault until the lease's context ended, in the
  old holder. A stopped holder learns of it when it goes on.
- **two held**: the longest time for which both processes could trust their leases.
- **allowed**: how much of that the engine's guarantee allows. If it allows any, a second is
  added for a busy machine.
- **tokens**: whether the next holder's token was higher.
- **unfenced**: both processes read a number, think for some %v and write the number back plus
  one. The cell says how many such updates were lost in the end. A holder checks its lease
  *before* it thinks, as programs do. So on every engine a stopped holder writes when it goes
  on.
- **fenced**: the same with a resource that refuses stale tokens (package fence), and how many
  it refused. The holder shows its token when it reads, too.

These words are explained in [guarantees.md](guarantees.md). Times and lost updates differ
from run to run. `+"`make failures`"+` fails if they are more than the guarantee allows.

A row is one trial, which shows what happens and bounds nothing. [torture.md](torture.md#every-engine-one-fault-at-a-time)
has the bounds: at least 100 strikes of each fault to each engine.
`, harness.ThisMachine(), took.Round(time.Minute), samples, ttl, outage, step, think)
	for _, d := range deployments() {
		b.WriteString(d.section(rows, ""))
	}
	return b.Bytes()
}

// section is the part of the page on one engine. when says when it was measured, if not with the
// rest.
func (d *deployment) section(rows []*row, when string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s.%s\n\n", d.engine, strings.ToUpper(d.about[:1])+d.about[1:], when)
	b.WriteString("| fault | next holds | old holder learns | two held | allowed | tokens | unfenced | fenced |\n|---|---|---|---|---|---|---|---|\n")
	var not []string
	for _, r := range rows {
		switch {
		case r.engine != d.engine:
		case r.why != "":
			not = append(not, fmt.Sprintf("- *%s*: %s", r.fault, r.why))
		default:
			fmt.Fprintf(&b, "| %s | %s |\n", r.fault, strings.Join(r.cells(), " | "))
		}
	}
	if len(not) > 0 {
		fmt.Fprintf(&b, "\nNot run:\n\n%s\n", strings.Join(not, "\n"))
	}
	return b.String()
}

// renewed is an old page with new sections on the engines of which every trial was run. It keeps
// the order of the engines.
func renewed(old []byte, rows []*row) ([]byte, error) {
	const begins = "\n## "
	head, rest, _ := strings.Cut(string(old), begins)
	sections := map[string]string{}
	for text := range strings.SplitSeq(rest, begins) {
		name, _, _ := strings.Cut(text, "\n")
		sections[name] = begins + text
	}
	page, new := head, 0
	for _, d := range deployments() {
		if d.complete(rows) {
			sections[d.engine] = d.section(rows, fmt.Sprintf(" Measured by itself, on %s.", harness.ThisMachine()))
			new++
		}
		if text, ok := sections[d.engine]; ok { // an old page may lack a section that was never measured
			page += strings.TrimSuffix(text, "\n") + "\n"
		}
	}
	if new == 0 {
		return nil, errors.New("no engine has all of its trials in this run: let -only match the engine alone, such as '^filelock,'")
	}
	return []byte(page), nil
}

// complete is whether rows have every trial of the engine.
func (d *deployment) complete(rows []*row) bool {
	for _, fault := range faults() {
		if d.has(fault) && !slices.ContainsFunc(rows, func(r *row) bool { return r.engine == d.engine && r.fault == fault }) {
			return false
		}
	}
	return true
}
