//go:build linux

package main

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

func digits(ticket uint64) string { return strconv.FormatUint(ticket, 10) }

// nest starts a run of inner within a run of outer. The inner one begins when
// somebody holds its name.
func (p *place) nest(outer, inner string) *process {
	p.Helper()
	cmd := exec.Command(program, "run", outer, "--label", "holds "+outer, "--", "sh", "-c",
		`touch $DIR/`+outer+`; while [ ! -e $DIR/`+inner+` ]; do sleep 0.02; done; exec $L run `+inner+` --label "wants `+inner+`" -- true`)
	cmd.Env = append(p.env, "L="+program, "DIR="+p.file(""))
	return p.startCmd(cmd)
}

// Two runs that nest in opposite order would wait for ever: one of them fails, and
// says why.
func TestRunsInACycle(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x, y := p.nest("a", "b"), p.nest("b", "a")
	codes := []int{x.wait(t), y.wait(t)}
	said := x.err.String() + y.err.String()
	if codes[0]+codes[1] != codeConflict || codes[0]*codes[1] != 0 {
		t.Errorf("exit codes %d, %s", codes, said)
	}
	one(t, said, "deadlock: this caller waits for", "(wants ", "unlock what you hold")
}

// The cycle stays for as long as the test looks: these callers do not look.
func TestWhyAndGraph(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.start("run", "b", "--", "sleep", "60")
	p.held("b") // before the run within a comes for it
	p.start("run", "a", "--label", "one", "--", "sh", "-c", program+` run b --label "waits in one" -- true`)
	a := p.held("a")
	until(t, "b is waited for", func() bool { return len(p.line("b").Claims) == 2 })
	b := p.line("b")
	out := p.must("why", "a")
	if !strings.Contains(out, "a is held by") || !strings.Contains(out, "who waits for b") || !strings.Contains(out, "who waits for nothing here") ||
		strings.Contains(out, "cycle") {
		t.Error(out)
	}
	if out := p.must("why", "nobody"); out != "nobody: nobody holds it\n" {
		t.Error(out)
	}
	for _, cmd := range [][]string{{"show", "b"}} {
		if out := p.must(cmd...); !strings.Contains(out, "HOLDS") || !strings.Contains(out, "a:"+digits(a.Ticket)) {
			t.Errorf("%s: %s", cmd, out)
		}
	}
	if h := b.Claims[1].Owner.Holds; len(h) != 1 || h[0] != (engine.Hold{Name: "a", Ticket: a.Ticket}) {
		t.Errorf("%+v", b.Claims[1])
	}
	mermaid := p.must("graph")
	for _, want := range []string{"flowchart LR", `n0["a"]`, `n1["b"]`, "held, " + digits(a.Ticket), "waits, " + digits(b.Claims[1].Ticket)} {
		if !strings.Contains(mermaid, want) {
			t.Errorf("%q is not in:\n%s", want, mermaid)
		}
	}
	dot := p.must("graph", "--format", "dot")
	if !strings.HasPrefix(dot, "digraph leasehold {\n") || strings.Count(dot, " -> ") != 3 || strings.Contains(dot, "red") {
		t.Error(dot)
	}
	code, _, said := p.leasehold("graph", "--format", "png")
	if code != codeUsage {
		t.Error(code)
	}
	one(t, said, "neither mermaid nor dot")
}

func crossed() []engine.Queue {
	claim := func(name, label string, ticket uint64, state engine.State, holds ...engine.Hold) engine.Claim {
		return engine.Claim{Name: name, Ticket: ticket, Permits: engine.Max, Limit: engine.Max, State: state, TTL: time.Second,
			Owner: engine.Owner{Host: "h", PID: int(ticket), Label: label, Holds: holds}}
	}
	return []engine.Queue{
		{Name: "a", Claims: []engine.Claim{claim("a", "A", 1, engine.Held), claim("a", "B", 4, engine.Waiting, engine.Hold{Name: "b", Ticket: 2})}},
		{Name: "b", Claims: []engine.Claim{claim("b", "B", 2, engine.Held), claim("b", "A", 3, engine.Waiting, engine.Hold{Name: "a", Ticket: 1}, engine.Hold{Name: "a", Ticket: 1})}},
		{Name: "c\"\x1b", Claims: []engine.Claim{claim("c\"\x1b", "C", 5, engine.Held), claim("c\"\x1b", "D", 6, engine.Waiting)}},
	}
}

func TestWhySaysCycle(t *testing.T) {
	got := view.NewSnapshot(crossed()).Why("a").Text(quoteName, printable)
	want := `a is held by h pid 1 (A) (exclusive, ticket 1)
  who waits for b (ticket 3)
  b is held by h pid 2 (B) (exclusive, ticket 2)
    who waits for a (ticket 4): a cycle
`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestGraphsShowTheCycle(t *testing.T) {
	s := view.NewSnapshot(crossed())
	g := s.Graph(s.Circles(0))
	if len(g.Callers) != 4 || len(g.Edges) != 6 {
		t.Fatalf("%+v", g)
	}
	var m, d strings.Builder
	if writeMermaid(&m, g) != nil || writeDot(&d, g) != nil {
		t.Fatal("not written")
	}
	if !strings.Contains(m.String(), "classDef cycle ") { // which the mark below means
		t.Error(m.String())
	}
	for _, c := range []struct {
		text, mark, name string
	}{
		{m.String(), ":::cycle", `n2["c#34;#92;x1b"]`},
		{d.String(), "color=red", `label="c\"\\x1b"`},
	} {
		if strings.Count(c.text, c.mark) != 2 || !strings.Contains(c.text, c.name) {
			t.Error(c.text)
		}
	}
}
