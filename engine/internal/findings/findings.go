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
	"time"

	"leasehold/engine"
)

// DefaultLimit is how many keys, rows or nodes an examination reads unless it is told.
const DefaultLimit = 10_000

const (
	// shown is how many servers, keys or nodes a finding names.
	shown = 5

	// mostBytes bounds what it says of each: a name may be as long as a value.
	mostBytes, endBytes = 700, 200
)

// List collects findings, in the order in which their headings first came. It is not
// safe for concurrent use.
type List struct {
	Limit int // of keys, rows or nodes

	names *regexp.Regexp
	all   []*entry
}

type entry struct {
	engine.Finding
	of     []string // the first
	count  int
	rights []string // that would let the user read what was not read
	other  bool     // something was not read for another reason
}

// New is an empty list for an examination with these options.
func New(o engine.ExamineOptions) *List {
	names := o.Names
	if len(names) == 0 {
		names = []string{"*lock*", "*mutex*", "*lease*"}
	}
	var any []string
	for _, name := range names {
		name = string([]rune(name)) // a regexp must be UTF-8; the rune for another byte matches any such byte
		any = append(any, strings.NewReplacer(`\*`, ".*", `\?`, ".").Replace(regexp.QuoteMeta(name)))
	}
	l := &List{Limit: cmp.Or(max(o.Limit, 0), DefaultLimit)}
	l.names = regexp.MustCompile(`(?is)^(?:` + strings.Join(any, "|") + `)$`) // what is quoted compiles
	return l
}

// Counts reports whether a key, table or node of that name counts as a lock.
func (l *List) Counts(name string) bool { return l.names.MatchString(name) }

// Add notes one thing of which f is true; f.What is the heading alone. The worst severity
// of a heading counts. An error among args is one line.
func (l *List) Add(f engine.Finding, format string, args ...any) { l.add(f, format, args...) }

func (l *List) add(f engine.Finding, format string, args ...any) *entry {
	i := slices.IndexFunc(l.all, func(e *entry) bool { return e.What == f.What })
	if i < 0 {
		i, l.all = len(l.all), append(l.all, &entry{Finding: f})
	}
	e := l.all[i]
	if f.Severity > e.Severity {
		e.Finding = f
	}
	if e.count++; len(e.of) < shown {
		for i, arg := range args {
			if err, ok := arg.(error); ok {
				args[i] = lines.Replace(err.Error())
			}
		}
		e.of = append(e.of, brief(fmt.Sprintf(format, args...)))
	}
	return e
}

// lines makes one line of an error that joins others.
var lines = strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ")

// brief leaves out the middle of a text that a stranger's name made endless.
func brief(s string) string {
	if len(s) <= mostBytes+endBytes {
		return s
	}
	first, last := s[:mostBytes], s[len(s)-endBytes:]
	return strings.ToValidUTF8(first, "") + fmt.Sprintf(" ... (%d bytes) ... ", len(s)-mostBytes-endBytes) + strings.ToValidUTF8(last, "")
}

// Unread notes a part of the store that could not be read. right is what would let the
// user read it; empty if that was not the reason.
func (l *List) Unread(part string, err error, right string) {
	e := l.add(engine.Finding{
		Severity: engine.SeverityNote, What: "not read",
		Means: "This report says nothing about that part of the store.",
	}, "%s: %v", part, err)
	switch {
	case right == "":
		e.other = true
	case !slices.Contains(e.rights, right):
		e.rights = append(e.rights, right)
	}
	e.Do = "Try again, or ask the operator of the store."
	if len(e.rights) > 0 {
		e.Do = "Grant the user of the URL " + strings.Join(e.rights, ", and ") + ", or use another user."
		if e.other {
			e.Do += " For the rest try again, or ask the operator of the store."
		}
	}
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

// Age is a time in seconds as people read it. A column that a program leaves at the year 1
// is older than a Duration can say.
func Age(seconds float64) string {
	const years = 10 * 365 * 24 * 3600
	if seconds >= years {
		return "more than ten years"
	}
	return (time.Duration(seconds) * time.Second).String()
}

// Over reports whether an error is the end of the examination, and not of one part of it.
func Over(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil || errors.Is(err, engine.ErrClosed)
}
