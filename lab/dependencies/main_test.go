package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const list = header + `
leasehold
    direct   example.com/a                            reads the clock
    through  example.com/b

leasehold/engines
    nothing
`

func TestReasonsAreKept(t *testing.T) {
	r := reasonsOf(list)
	if len(r) != 1 || r["leasehold example.com/a"] != "reads the clock" {
		t.Fatalf("%q", r)
	}
}

func TestADifferenceIsNamedWithItsModule(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"same", list, list, ""},
		{"one more", list, strings.Replace(list, "    nothing\n", "    direct   example.com/c  ?\n", 1),
			"- leasehold/engines: nothing\n+ leasehold/engines: direct example.com/c ?\n"},
		{"one less", list, strings.Replace(list, "    through  example.com/b\n", "", 1), "- leasehold: through example.com/b\n"},
		{"another module", list, list + "\nleasehold/new\n    nothing\n", "+ leasehold/new\n+ leasehold/new: nothing\n"},
		{"another reason", list, strings.Replace(list, "clock", "time", 1),
			"- leasehold: direct example.com/a reads the clock\n+ leasehold: direct example.com/a reads the time\n"},
		{"spacing alone", list, list + "\n", "only in the order or the spacing of lines\n"},
	} {
		if got := difference(c.old, c.new); got != c.want {
			t.Errorf("%s:\n%swant:\n%s", c.name, got, c.want)
		}
	}
}

func TestModulesThatAreNotInLockstepAreRefused(t *testing.T) {
	for what, c := range map[string]struct{ a, b, tied, says string }{
		"one version, from this tree": {"require leasehold v0.3.0\nreplace leasehold => ../..\n", "require (\n\tleasehold v0.3.0\n\texample.com/x v1.0.0\n)\nreplace leasehold => ..\n", "", ""},
		"two versions":                {"require leasehold v0.3.0\nreplace leasehold => ../..\n", "require leasehold v0.2.0\nreplace leasehold => ..\n", "", "lockstep"},
		"not from this tree":          {"require leasehold v0.3.0\n", "", "", "replace"},
		"from this tree by go.work":   {"require leasehold v0.3.0\n", "require leasehold v0.3.0\n", "leasehold@v0.3.0", ""},
		"another version by go.work":  {"require leasehold v0.3.0\n", "", "leasehold@v0.2.0", "replace"},
	} {
		t.Run(what, func(t *testing.T) {
			var modules []module
			for name, text := range map[string]string{"leasehold": "", "leasehold/a": c.a, "leasehold/b": c.b} {
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module "+name+"\n\ngo 1.26.0\n"+text), 0o644); err != nil {
					t.Fatal(err)
				}
				modules = append(modules, module{name, dir})
			}
			err := lockstep(modules, map[string]bool{c.tied: true})
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want one that says %q", err, c.says)
			}
		})
	}
}
