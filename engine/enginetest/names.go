package enginetest

import (
	"errors"
	"fmt"
	"strings"

	"leasehold/engine"
)

func names() promise {
	return promise{"names", "every name is a name of its own; what is no name is refused", []kase{
		{"what is no name is locked", func(t *trial) {
			a := t.client()
			for what, name := range map[string]string{
				"an empty name":         "",
				"513 bytes":             strings.Repeat("n", engine.MaxName+1),
				"invalid UTF-8":         t.name() + "\xff\xfe",
				"a UTF-8 surrogate":     t.name() + "\xed\xa0\x80",
				"a NUL byte":            t.name() + "\x00",
				"half of a character":   t.name() + "\xc3",
				"an overlong character": t.name() + "\xc0\xaf",
			} {
				if c, err := a.Join(t.ctx(), t.exclusive(name)); !errors.Is(err, engine.ErrName) || !errors.Is(err, engine.ErrRefused) {
					t.Errorf("Join of %s says %v, %v; want engine.ErrName", what, c.State, err)
				}
				if _, err := a.Line(t.ctx(), name); !errors.Is(err, engine.ErrName) {
					t.Errorf("Line of %s says %v; want engine.ErrName", what, err)
				}
				if err := a.Evict(t.ctx(), name, 1, true); !errors.Is(err, engine.ErrName) {
					t.Errorf("Evict of %s says %v; want engine.ErrName", what, err)
				}
			}
		}},
		{"two names are one", func(t *trial) {
			a, b, base := t.client(), t.client(), t.name()
			nasty := nastyNames(base)
			held := map[string]engine.Claim{}
			for _, name := range nasty {
				if _, twice := held[name]; twice {
					t.Fatalf("the suite has %q twice", name)
				}
				held[name] = a.hold(t.exclusive(name))
			}
			for name, c := range held {
				if got := a.is(c, engine.Held, fmt.Sprintf("all are held at once, %q too", name)); got.Name != name {
					t.Fatalf("the claim of %q is answered as %q", name, got.Name)
				}
				l := b.line(name)
				if l.Name != name || len(l.Claims) != 1 || l.Claims[0].Name != name || l.Claims[0].Ticket != c.Ticket {
					t.Fatalf("the line of %q is %+v", name, l)
				}
				b.taken(name, fmt.Sprintf("%q is held", name))
			}
			seen := map[string]int{}
			for l, err := range b.Lines(t.ctx(), "") {
				if err != nil {
					t.Fatalf("Lines: %v", err)
				}
				seen[l.Name]++
			}
			for name, c := range held {
				if seen[name] != 1 {
					t.Fatalf("Lines shows %q %d times", name, seen[name])
				}
				a.leave(c)
			}
			for name := range held {
				b.free(name, fmt.Sprintf("%q was left", name))
			}
		}},
	}}
}

// nastyNames are names that a careless encoding lets collide, escape or
// vanish. Some begin with base and some cannot.
func nastyNames(base string) []string {
	list := []string{
		"/", "//", ".", "..", "../..", "/etc/passwd", `\`, `C:\x`, "con", "NUL",
		"*", "?", "[a]", "~", "#", ":", "|", "-", "--", "%", "%%", "' OR 1=1 --", `"`, "`", "$(x)", "${x}", "a\tb",
		"lock-0000000001", "_c_x-lock-", "__READ__", "\U0010ffff", "\ufeff", "\u200b", "\u202e", "\x01", "\x7f",
	}
	for _, tail := range []string{
		"", "/", "/..", "/.", "/../x", "%2f", "%2F", "%252f", "%", "{}", "{a}", "}{", "{", "}",
		" ", "  ", "\n", "\r\n", "\t", "\x01", ".", "..", ".lock", ".tmp", "~", "*", "?", "[a-z]", `\`, "'", `"`, ":", ";", "\u00a0",
		"a", "A", "\u00e9", "e\u0301", "\u00c9", "E\u0301", "\u00df", "ss", "SS", "i", "I", "\u0130", "\u0131", "\u212b", "\u00c5", "A\u030a", "\ufb01", "fi",
		"\u4e2d", "\U0001f512",
	} {
		list = append(list, base+tail)
	}
	// The longest names, and two that differ in their last byte alone.
	fill := strings.Repeat("n", engine.MaxName-len(base)-1)
	list = append(list, base+fill+"1", base+fill+"2")
	wide := strings.Repeat("\U0001f512", (engine.MaxName-len(base))/4)
	return append(list, base+wide, " "+base, "\n"+base, "/"+base, "."+base, strings.ToUpper(base))
}
