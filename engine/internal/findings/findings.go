// Package findings is what the examinations of all engines share: names that count as
// locks, bounds, and one finding for all that has the same heading.
package findings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"leasehold/engine"
)

// DefaultLimit is how many keys, rows or nodes an examination reads unless it is told.
const DefaultLimit = 10_000

// shown is how many servers, keys or nodes a finding names.
const shown = 5

// List collects findings, in the order in which their headings first came. It is not
// safe for concurrent use.
type List struct {
	Limit int // of keys, rows or nodes

	names *regexp.Regexp
	all   []*entry
}

type entry struct {
	engine.Finding
	of    []string // the first
	count int
}

// New is an empty list for an examination with these options.
func New(o engine.ExamineOptions) *List {
	names := o.Names
	if len(names) == 0 {
		names = []string{"*lock*", "*mutex*", "*lease*"}
	}
	var any []string
	for _, name := range names {
		any = append(any, strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(name)))
	}
	l := &List{Limit: cmp.Or(max(o.Limit, 0), DefaultLimit)}
	l.names = regexp.MustCompile(`(?is)^(?:` + strings.Join(any, "|") + `)$`) // what is quoted compiles
	return l
}

// Counts reports whether a key, table or node of that name counts as a lock.
func (l *List) Counts(name string) bool { return l.names.MatchString(name) }

// Add notes one thing of which f is true; f.What is the heading alone. The worst severity
// of a heading counts.
func (l *List) Add(f engine.Finding, format string, args ...any) {
	i := slices.IndexFunc(l.all, func(e *entry) bool { return e.What == f.What })
	if i < 0 {
		i, l.all = len(l.all), append(l.all, &entry{Finding: f})
	}
	e := l.all[i]
	if f.Severity > e.Severity {
		e.Finding = f
	}
	if e.count++; len(e.of) < shown {
		e.of = append(e.of, fmt.Sprintf(format, args...))
	}
}

// Unread notes a part of the store that could not be read, and the right that is needed,
// if that is known.
func (l *List) Unread(part string, err error, right string) {
	do := "Try again, or ask the operator of the store."
	if right != "" {
		do = "Grant the user of the URL " + right + ", or use another user."
	}
	l.Add(engine.Finding{
		Severity: engine.SeverityNote, What: "not read",
		Means: "This report says nothing about that part of the store.",
		Do:    do,
	}, "%s: %v", part, err)
}

// Stopped notes that the limit was reached.
func (l *List) Stopped(format string, args ...any) {
	l.Add(engine.Finding{
		Severity: engine.SeverityNote, What: "stopped at the limit",
		Means: "The rest of the store was not read, and may hold more of the same.",
		Do:    "Raise --limit, lower it if the time was over, or examine the rest at a quiet hour.",
	}, format, args...)
}

// Late reports whether a part of the examination failed because its time was over. What
// was found so far is worth reporting, with a note.
func (l *List) Late(ctx context.Context, err error) bool {
	late := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	if late {
		l.Stopped("the time for the examination was over")
	}
	return late
}

// Report hands over every finding, the worst first.
func (l *List) Report(found func(engine.Finding)) {
	slices.SortStableFunc(l.all, func(a, b *entry) int { return cmp.Compare(b.Severity, a.Severity) })
	for _, e := range l.all {
		e.What += ": " + strings.Join(e.of, ", ")
		if more := e.count - len(e.of); more > 0 {
			e.What += fmt.Sprintf(" and %d more", more)
		}
		found(e.Finding)
	}
	l.all = nil
}

// Over reports whether an error is the end of the examination, and not of one part of it.
func Over(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil || errors.Is(err, engine.ErrClosed)
}
