package harness

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"leasehold/lab/internal/page"
)

// Machine says what the figures were measured on.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
	Date   string `json:"date"`
}

// ThisMachine describes where this runs.
func ThisMachine() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(), Date: time.Now().UTC().Format(time.DateOnly)}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:])
	}
	return m
}

// String is one line.
func (m Machine) String() string {
	return fmt.Sprintf("%d cores of %s, %s, %s, %s", m.Cores, m.CPU, m.Kernel, m.Go, m.Date)
}

// Write prints a suite's results as Markdown, which is readable as text too.
func (r *Results) Write(w io.Writer, m Machine) {
	fmt.Fprintf(w, "Measured on %s; %s; %d rounds, %.0f s.\n\n", m, strings.Join(r.Servers, ", "), r.Rounds, r.Seconds)
	rows := [][]string{{"", "how it was used", "how it waits"}}
	for _, p := range r.Competitors {
		waits := p.Waits
		if waits == "" {
			waits = "-"
		}
		rows = append(rows, []string{styled(p.Name, p.Baseline), p.About, waits})
	}
	markdown(w, rows)
	for _, t := range r.Tables {
		fmt.Fprintf(w, "\n### %s: %s\n\n%s\n\n", t.ID, t.Title, t.How)
		t.write(w)
	}
	if len(r.Targets) > 0 {
		fmt.Fprintf(w, "\n### Targets\n\n")
		rows = [][]string{{"target", "wanted", "measured (spread)", "verdict"}}
		for _, b := range r.Targets {
			got := "-"
			if b.Got != nil {
				got = fmt.Sprintf("%s (%s to %s)", short(b.Got.Median), short(b.Got.Min), short(b.Got.Max))
			}
			verdict := b.Verdict
			if b.Verdict == Missed {
				verdict = "**missed**"
			}
			if b.Expected != "" {
				verdict += ", expected: " + b.Expected
			}
			rows = append(rows, []string{b.What, b.Want, got, verdict})
		}
		markdown(w, rows)
	}
}

func (t *Table) write(w io.Writer) {
	ahead := slices.ContainsFunc(t.Rows, func(r *Row) bool { return r.Ahead != nil })
	head := []string{""}
	for _, c := range t.Columns {
		head = append(head, c.Head)
	}
	if ahead {
		head = append(head, "leasehold ahead by ("+t.head()+")")
	}
	rows := [][]string{head}
	for _, r := range t.Rows {
		row := []string{styled(r.Competitor, r.Baseline)}
		for _, c := range t.Columns {
			s, ok := r.Figures[c.Key]
			if !ok {
				row = append(row, "-")
				continue
			}
			text := c.Unit.Format(s.Median)
			if len(s.Rounds) > 1 && s.Min != s.Max && c.Key == t.Main {
				text += fmt.Sprintf(" (%s to %s)", c.Unit.Format(s.Min), c.Unit.Format(s.Max))
			}
			row = append(row, text)
		}
		if ahead {
			text := ""
			if r.Ahead != nil {
				text = r.Ahead.Compare()
			}
			row = append(row, text)
		}
		rows = append(rows, row)
	}
	markdown(w, rows)
	var traffic []string
	for _, r := range t.Rows {
		if len(r.Traffic) > 0 {
			text := "nothing"
			if all := commands(r.Traffic); all != "" {
				text = "`" + all + "`"
			}
			traffic = append(traffic, r.Competitor+" "+text)
		}
	}
	if len(traffic) > 0 {
		fmt.Fprintf(w, "\nOn the wire: %s.\n", strings.Join(traffic, ", "))
	}
	for _, r := range t.Rows {
		if len(r.Faults) == 0 {
			continue
		}
		var faults []string
		for name, n := range r.Faults {
			faults = append(faults, fmt.Sprintf("%d %s", n, name))
		}
		slices.Sort(faults)
		fmt.Fprintf(w, "\n%s, all rounds together: %s.", r.Competitor, strings.Join(faults, ", "))
		if r.Cause != "" {
			fmt.Fprintf(w, " First cause: `%s`.", strings.ReplaceAll(r.Cause, "\n", " "))
		}
		fmt.Fprintln(w)
	}
}

// styled sets baselines in italics and us in bold.
func styled(competitor string, baseline bool) string {
	switch {
	case baseline:
		return "*" + competitor + "*"
	case strings.HasPrefix(competitor, Us):
		return "**" + competitor + "**"
	}
	return competitor
}

// commands lists requests by command, the most frequent first, without those
// that are hardly there.
func commands(traffic map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(traffic), func(a, b string) int {
		return cmp.Or(cmp.Compare(traffic[b], traffic[a]), cmp.Compare(a, b))
	})
	var words []string
	for _, name := range names {
		if traffic[name] >= 0.005 {
			words = append(words, name+" "+short(traffic[name]))
		}
	}
	return strings.Join(words, ", ")
}

func (t *Table) head() string {
	for _, c := range t.Columns {
		if c.Key == t.Main {
			return c.Head
		}
	}
	return t.Main
}

// markdown prints a table with its columns aligned.
func markdown(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)))
		}
		fmt.Fprintln(w, "|")
		if n > 0 {
			continue
		}
		for _, width := range widths {
			fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
		}
		fmt.Fprintln(w, "|")
	}
}

// WriteDocs puts a suite's results between its markers in a document.
func (r *Results) WriteDocs(path string, m Machine) error {
	var b strings.Builder
	r.Write(&b, m)
	return page.Put(path, r.Suite, "\n"+b.String()+"\n")
}
