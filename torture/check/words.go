package check

import (
	"fmt"
	"time"
)

// voids is whether the engine promises no exclusion under that fault.
func (t *trial) voids(s *strike) bool { return !t.run.Declares.Excludes(s.Breaks...) }

func (s *strike) describe() string {
	what := fmt.Sprintf("fault %d (%s", s.Fault, s.Named)
	if on := s.Client + s.Target; on != "" {
		what += " of " + on
	}
	return what + ") at " + clock(s.At)
}

// clock is a time of the trial, to the millisecond.
func clock(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// long is a duration that people read.
func long(d time.Duration) string {
	if d < time.Millisecond {
		return d.String()
	}
	return d.Round(time.Millisecond).String()
}

// describe is a lease in words.
func (o *op) describe() string {
	kind := fmt.Sprintf("%d of %d permits", o.permits, o.limit)
	switch {
	case o.exclusive():
		kind = "exclusive"
	case o.permits == 1 && o.limit == 1<<31-1:
		kind = "shared"
	}
	return fmt.Sprintf("lease %d of %s (%s)", o.number, o.client, kind)
}

// most is how many findings of a property are listed. The rest is counted.
const most = 100

// enough is how many findings of a property are counted that the engine does not declare: a
// lock that is as wrong as that needs no more of them.
const enough = 10_000

func (t *trial) report(f Finding, names ...string) {
	c := t.found[f.Property]
	if c == nil {
		c = &count{}
		t.found[f.Property] = c
	}
	c.all++
	if f.Declared != "" {
		c.declared++
	}
	// What the engine declares must not hide what it does not.
	listed := c.all - c.declared
	if f.Declared != "" {
		listed = c.declared
	}
	if listed <= most {
		f.Names = names
		t.findings = append(t.findings, f)
	}
}

// full is whether a property has so many findings that looking for more is a waste. Those that
// the engine declares do not count: they must not hide what it does not.
func (t *trial) full(p Property) bool {
	c := t.found[p]
	return c != nil && c.all-c.declared >= enough
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
