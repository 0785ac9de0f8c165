package report

import (
	"fmt"
	"html"
	"strings"

	"leasehold/torture/check"
)

// markup is a piece of the page.
type markup struct{ strings.Builder }

// text adds markup that is in this source.
func (m *markup) text(source string) { m.WriteString(source + "\n") }

// head begins a table.
func (m *markup) head(title string, columns ...string) {
	m.text("<h2>" + title + "</h2>\n<table>")
	if len(columns) > 0 {
		m.text("<tr><th>" + strings.Join(columns, "</th><th>") + "</th></tr>")
	}
}

// row adds a row of texts, which may be anybody's. The first is the row's head, unless the
// class of the second is given.
func (m *markup) row(class string, texts ...string) {
	m.WriteString("<tr>")
	for i, text := range texts {
		text = html.EscapeString(text)
		switch {
		case i == 0 && class == "":
			m.WriteString("<th>" + text + "</th>")
		case i == 1 && class != "":
			m.WriteString(`<td class="` + class + `">` + text + "</td>")
		default:
			m.WriteString("<td>" + text + "</td>")
		}
	}
	m.text("</tr>")
}

// verdict adds the tables of what package check says.
func (m *markup) verdict(r *check.Result) {
	if r == nil {
		m.text(`<h2>Verdict</h2>` + "\n" + `<p class="violated">The history contradicts itself: nothing can be said of it.</p>`)
		return
	}
	m.head("Verdict", "property", "verdict", "why")
	for _, v := range r.Verdicts {
		m.row(class(v.Word), string(v.Property), string(v.Word), v.Why)
	}
	m.text("</table>")
	if len(r.Findings) > 0 {
		m.head("Violations", "at", "property", "what", "names", "lines of the history")
		for _, f := range r.Findings {
			if f.Declared != "" {
				f.Text += " (the engine declares this under " + f.Declared + ")"
			}
			m.row("at", seconds(f.At), string(f.Property), f.Text, strings.Join(f.Names, " "), strings.Trim(fmt.Sprint(f.Lines), "[]"))
		}
		m.text("</table>")
	}
	m.head("Faults", "fault", "strikes", "with an effect", "while somebody held a lease")
	for _, f := range r.Stats.Faults {
		m.row("strikes", f.Nemesis, fmt.Sprint(f.Strikes), fmt.Sprint(f.Bit), fmt.Sprint(f.Struck))
	}
	if len(r.Stats.Faults) == 0 {
		m.text(`<tr><td colspan="4">No fault struck: the trial shows nothing about faults.</td></tr>`)
	}
	m.text("</table>")
	m.head("What was seen")
	s := r.Stats
	m.row("", "clients, of which were killed", fmt.Sprintf("%d, %d", s.Clients, s.Killed))
	m.row("", "calls", fmt.Sprint(s.Calls))
	m.row("", "leases, of which were seen valid for a while", fmt.Sprintf("%d, %d", s.Grants, s.Seen))
	m.row("", "leases whose client learned that they are lost", fmt.Sprint(s.Lost))
	m.row("", "writes that the fenced resource refused", fmt.Sprint(s.Stale))
	m.row("", "updates that the resource without fencing lost", fmt.Sprintf("%d of %d", s.UnfencedLost, s.UnfencedWrites))
	m.row("", "longest wait for a name that nobody held", seconds(s.Outage))
	m.text("</table>")
}
