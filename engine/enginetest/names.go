package enginetest

import (
	"errors"
	"fmt"
	"strings"

	"leasehold/engine"
)

func names() promise {
	return promise{"names", "two names never share a queue", []kase{
		{"distinct names never collide", func(t *trial) {
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
					t.Fatalf("the queue of %q is %+v", name, l)
				}
				b.taken(name, fmt.Sprintf("%q is held", name))
			}
			seen := map[string]int{}
			for l, err := range b.Queues(t.ctx(), "") {
				if err != nil {
					t.Fatalf("Queues: %v", err)
				}
				seen[l.Name]++
			}
			for name, c := range held {
				if seen[name] != 1 {
					t.Fatalf("Queues shows %q %d times", name, seen[name])
				}
				a.leave(c)
			}
			for name := range held {
				b.free(name, fmt.Sprintf("%q was left", name))
			}
		}},
		{"what is kept beside a name is no other name", func(t *trial) {
			a, b, c := t.client(), t.client(), t.client()
			for k := range t.besides("") {
				for i, form := range []string{"%s", "%s{B}", "{%s}"} {
					base := fmt.Sprintf(form, t.name())
					t.side(a, b, c, base, t.besides(base)[k], (i+k)%2 == 0)
				}
			}
		}},
	}}
}

// besides are names as engines build keys beside the one of base.
func (t *trial) besides(base string) []string {
	names := []string{
		"{" + base + "}", base + "{B}", "{" + base + "}:x", base + ":x", base + ":1", "n{" + base + "}", "t" + base,
		"leasehold:" + base, "leasehold:plain:n{" + base + "}", "leasehold:plain:t" + base,
		"leasehold:redlock:b:" + base, "leasehold:redlock:w:" + base,
		"leasehold:redisson:n{" + base + "}", "leasehold:redisson:t" + base,
		"redisson_lock_token:{" + base + "}", "redisson_lock_queue:{" + base + "}",
		"{" + base + "}:rwlock_timeout", base + "/leases", base + "/lock-0000000001",
	}
	if t.h.Beside != nil {
		names = append(names, t.h.Beside(base)...)
	}
	return names
}

// side uses two names at once, the one that may be a key beside the other first
// or second. That one may be refused, as long as base is none the worse.
func (t *trial) side(a, b, c *client, base, side string, sideFirst bool) {
	t.Helper()
	if base == side {
		return
	}
	r := t.exclusive(side)
	join := func() (engine.Claim, bool) {
		got, err := c.Join(t.ctx(), r)
		if err != nil && !errors.Is(err, engine.ErrRefused) {
			t.Fatalf("beside %q, a Join of %q says %v; want held, or engine.ErrRefused", base, side, err)
		}
		return got, err == nil
	}
	var other engine.Claim
	var taken bool
	if sideFirst {
		other, taken = join()
	}
	first := a.hold(t.exclusive(base))
	second := b.wait(t.exclusive(base))
	if !sideFirst {
		other, taken = join()
	}
	why := fmt.Sprintf("%q and %q are used at once", base, side)
	if taken && other.State == engine.Waiting && t.g.Order == engine.OrderNone {
		other = c.awaits(other)
	}
	if taken && other.State != engine.Held {
		t.Fatalf("%s, and a Join of the second says %v", why, other.State)
	}
	a.is(first, engine.Held, why)
	b.is(second, engine.Waiting, why)
	if taken {
		b.taken(side, why)
		c.is(other, engine.Held, why)
	}
	if l := c.line(base); len(l.Claims) == 0 || l.Claims[0].Ticket != first.Ticket || l.Claims[0].State != engine.Held {
		t.Fatalf("%s, and the queue of the first is %+v", why, l)
	}
	if sideFirst && taken {
		c.leave(other)
	}
	a.leave(first)
	second = b.awaits(second)
	if !sideFirst && taken {
		c.is(other, engine.Held, why)
		c.leave(other)
	}
	b.is(second, engine.Held, why)
	c.taken(base, why)
	b.leave(second)
	c.free(base, why)
	if taken {
		b.free(side, why)
	}
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
