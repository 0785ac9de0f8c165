package main

import (
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
