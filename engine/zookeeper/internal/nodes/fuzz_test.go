package nodes

import (
	"strings"
	"testing"
	"unicode/utf8"

	"leasehold/engine"
)

func layouts(t testing.TB) []Layout {
	t.Helper()
	plain, err := Plain("client")
	if err != nil {
		t.Fatal(err)
	}
	return []Layout{Curator(), ReadWrite(), plain}
}

// hostile is what somebody may have put below the node of a name.
var hostile = []string{
	"", "-", "lock-", "lock--2147483648", "lock-4294967295", "lock-00000000-1", "lock-+000000001", "lock-0000000001lock-",
	"_c_", "_c_" + uuid, "_c_" + uuid + "-lock-", "_c_" + uuid + "-0-of-0-lock-0000000001", "_c_" + uuid + "--1-of-5-lock-0000000001",
	"_c_" + uuid + "-2147483648-of-2147483648-lock-0000000001", "_c_" + uuid + "-1-of-2147483647-lock-2147483647",
	"_c_" + uuid + "-5-of-5-lock-0000000001", "_c_" + uuid + "-read-lock-0000000001", "_c_" + uuid + "-2-of-5-lock-0000000002",
	"_c_" + uuid + "-__READ__0000000001", "__WRIT__0000000001", "client0000000001", "client-2147483648",
	"\xff\xfe", "\x00", "%", "%session-0000000000000001", strings.Repeat("lock-", 1<<10), "\u202elock-0000000001",
}

func FuzzNames(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, l := range layouts(t) {
			n, err := l.Parse(name)
			if err == nil && (n.Permits < 1 || n.Permits > n.Limit || n.Seq < 0 || n.Seq >= 1<<31 || n.Name != name) {
				t.Errorf("%q is %+v", name, n)
			}
		}
		if _, err := Plain(name); err == nil && !utf8.ValidString(name) {
			t.Errorf("%q begins nodes", name)
		}
		if engine.CheckName(name) == nil {
			if back, ok := Decode(Encode(name)); !ok || back != name {
				t.Errorf("%q became %q", name, back)
			}
		}
		if back, ok := Decode(name); ok && Encode(back) != name {
			t.Errorf("%q is the node of %q", name, back)
		}
	})
}

// Whatever stands in a queue, who waits has something to wait for that is before it.
func FuzzQueues(f *testing.F) {
	f.Add(strings.Join(hostile, "\n"))
	f.Fuzz(func(t *testing.T, children string) {
		for _, l := range layouts(t) {
			line, _ := l.Sort(strings.Split(children, "\n"))
			for i := range line {
				line.Wakes(i)
				if line.Held(i) {
					line.Contended(i)
				} else if node := line.WaitsFor(i); node != "" && line.Find(node) >= i {
					t.Errorf("%q waits for %q", line[i].Name, node)
				}
			}
		}
	})
}
