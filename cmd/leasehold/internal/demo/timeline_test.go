package demo

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
)

// Each process has its own lane, and a row says where several hold.
func TestTheTimelineShowsWhoHolds(t *testing.T) {
	var out bytes.Buffer
	line := newTimeline(&out, false, "A title", letters(2))
	line.states["A"] = holds
	line.say("A has the lock")
	line.states["B"] = waits
	line.say("B asks for %s", "it")
	line.states["B"] = holds
	line.say("B has the lock")
	line.states["A"] = stopped
	line.say("A is stopped")
	line.apart = true
	line.states["A"] = holds
	line.say("of another name")
	got := regexp.MustCompile(`(?m)^ +[0-9]+\.[0-9]{2} s`).ReplaceAllString(out.String(), "   T s")
	want := strings.Join([]string{
		"", "A title", "           A        B      ",
		"   T s  HOLDS    -        A has the lock",
		"   T s  HOLDS    waits    B asks for it",
		"   T s  HOLDS    HOLDS    B has the lock   <-- 2 hold",
		"   T s  stopped  HOLDS    A is stopped",
		"   T s  HOLDS    HOLDS    of another name", "",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
