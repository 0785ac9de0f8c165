package testutil

import (
	"context"
	"strings"
	"testing"

	"leasehold/engine"
)

// Findings are what an examination reported, by heading.
type Findings map[string]engine.Finding

// Examine is that of an engine package.
type Examine func(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error

// Examined is one examination, which must not fail.
func Examined(t testing.TB, examine Examine, url string, o engine.ExamineOptions) Findings {
	t.Helper()
	all := Findings{}
	worst := engine.SeverityProblem
	err := examine(Within(t), url, o, func(f engine.Finding) {
		heading, _, ok := strings.Cut(f.What, ": ")
		if !ok || f.Means == "" || f.Do == "" {
			t.Errorf("a finding that says too little: %+v", f)
		}
		if _, twice := all[heading]; twice || f.Severity > worst {
			t.Errorf("%q comes twice, or after what is less bad", heading)
		}
		all[heading], worst = f, f.Severity
	})
	if err != nil {
		t.Fatalf("examining %s: %v", url, err)
	}
	return all
}

// Want requires a finding whose details contain those texts.
func (f Findings) Want(t testing.TB, s engine.Severity, heading string, details ...string) {
	t.Helper()
	got, ok := f[heading]
	if !ok || got.Severity != s {
		t.Errorf("%s %q: it is %q (%v) among %s", s, heading, got.What, got.Severity, f)
		return
	}
	for _, d := range details {
		if !strings.Contains(got.What, d) {
			t.Errorf("%q does not say %q", got.What, d)
		}
	}
}

// None requires that there is no finding of that heading.
func (f Findings) None(t testing.TB, heading string) {
	t.Helper()
	if got, ok := f[heading]; ok {
		t.Errorf("it reports %q", got.What)
	}
}

// Healthy requires that nothing is as bad as that.
func (f Findings) Healthy(t testing.TB, s engine.Severity) {
	t.Helper()
	for _, got := range f {
		if got.Severity >= s {
			t.Errorf("a healthy server has the %s %q", got.Severity, got.What)
		}
	}
}

func (f Findings) String() string {
	var all []string
	for _, got := range f {
		all = append(all, got.Severity.String()+" "+got.What)
	}
	return strings.Join(all, "; ")
}
