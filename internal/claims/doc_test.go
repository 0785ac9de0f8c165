package claims

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
)

var writeDoc = flag.Bool("doc.write", false, "write the table of phases into doc.go")

// phaseTable is every phase as godoc shows it: its name, the first sentence of its
// comment, and what may follow it.
func phaseTable(t *testing.T) string {
	f, err := parser.ParseFile(token.NewFileSet(), "phase.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	next := Joining
	for _, d := range f.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			continue
		}
		for _, s := range decl.Specs {
			spec := s.(*ast.ValueSpec)
			name, doc := spec.Names[0].Name, spec.Doc.Text()
			if next > Gone || !strings.HasPrefix(doc, name+": ") {
				continue
			}
			text := strings.Join(strings.Fields(strings.TrimPrefix(doc, name+": ")), " ")
			text, _, _ = strings.Cut(text, ". ")
			b.WriteString("//\t" + next.String() + strings.Repeat(" ", 14-len(next.String())) + strings.TrimSuffix(text, ".") + "\n")
			var after []string
			for p := Joining; p <= Gone; p++ {
				if p.in(next.follows()) {
					after = append(after, p.String())
				}
			}
			if after != nil {
				b.WriteString("//\t              -> " + strings.Join(after, ", ") + "\n")
			}
			next++
		}
	}
	if next != Gone+1 {
		t.Fatalf("phase.go says what %v means in no comment that begins with its name", next)
	}
	return b.String()
}

// The package documentation shows the phases as Phase.follows has them: the table is
// written from it (go test -run TestDoc -doc.write), and every arrow above is one of it.
func TestDocShowsEveryPhase(t *testing.T) {
	raw, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	doc, want := string(raw), phaseTable(t)
	head, rest, found := strings.Cut(doc, "from which this is written):\n//\n")
	have, _, more := strings.Cut(rest, "//\n// # Verbs\n")
	if !found || !more {
		t.Fatal("doc.go has no table of phases before its verbs")
	}
	if *writeDoc {
		if err := os.WriteFile("doc.go", []byte(strings.Replace(doc, have, want, 1)), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if have != want {
		t.Errorf("doc.go has\n%s\nwant (go test -run TestDoc -doc.write)\n%s", have, want)
	}
	byName := map[string]Phase{}
	for p := Joining; p <= Gone; p++ {
		byName[p.String()] = p
	}
	names := "(" + strings.Join(phaseNames[1:], "|") + ")"
	arrow, count := regexp.MustCompile("^"+names+" -> "+names+"\\b"), 0
	for i := range head {
		if a := arrow.FindStringSubmatch(head[i:]); a != nil {
			count++
			if !byName[a[2]].in(byName[a[1]].follows()) {
				t.Errorf("doc.go shows %s, which is no arrow of Phase.follows", a[0])
			}
		}
	}
	if shown := strings.Count(head, " -> "); count < shown {
		t.Errorf("doc.go has %d arrows, of which %d are between phases", shown, count)
	}
}
