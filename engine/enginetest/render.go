package enginetest

import (
	"fmt"
	"slices"
	"strings"
)

// Render is the rows as Markdown: what each engine declares, what the suite
// found, what each promise means, and everything that was not put to the test.
func Render(rows []Row) string {
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Engine, b.Engine) })
	var b strings.Builder
	b.WriteString("### Declared\n\n")
	grid(&b, "guarantee", rows, func(r Row) []Entry { return r.Declared })
	b.WriteString("\n### Measured\n\n")
	grid(&b, "promise", rows, func(r Row) []Entry { return r.Promises })
	b.WriteString("\n### The promises\n\n| promise | in one sentence |\n|---|---|\n")
	for _, p := range promises() {
		fmt.Fprintf(&b, "| %s | %s |\n", p.name, p.about)
	}
	b.WriteString("\n### Not put to the test\n\n")
	for _, r := range rows {
		if len(r.Remarks) == 0 {
			fmt.Fprintf(&b, "- **%s**: nothing, every case was.\n", r.Engine)
		}
		for _, s := range r.Remarks {
			fmt.Fprintf(&b, "- **%s**: %s\n", r.Engine, s)
		}
	}
	return b.String()
}

// grid has engines across and entries down, in the order of the suite. An
// entry that a row lacks is shown as such: the row is older than the suite.
func grid(b *strings.Builder, head string, rows []Row, entries func(Row) []Entry) {
	var names []string
	cells := map[[2]string]string{}
	for _, r := range rows {
		for _, e := range entries(r) {
			if !slices.Contains(names, e.Name) {
				names = append(names, e.Name)
			}
			cells[[2]string{r.Engine, e.Name}] = e.Cell
		}
	}
	fmt.Fprintf(b, "| %s |", head)
	for _, r := range rows {
		fmt.Fprintf(b, " %s |", r.Engine)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(rows)) + "\n")
	for _, name := range names {
		fmt.Fprintf(b, "| %s |", name)
		for _, r := range rows {
			cell := cells[[2]string{r.Engine, name}]
			if cell == "" {
				cell = "?"
			}
			fmt.Fprintf(b, " %s |", cell)
		}
		b.WriteByte('\n')
	}
}
