package redislock

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// drawn draws a message of Redis' protocol.
func drawn(t *rapid.T, depth int) string {
	line := rapid.StringMatching(`[ -~]{0,12}`)
	count := func() int { return rapid.IntRange(0, 4).Draw(t, "count") }
	several := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(drawn(t, depth+1))
		}
		return b.String()
	}
	kinds := []string{"line", "text", "null"}
	if depth < 4 {
		kinds = append(kinds, "list", "map", "attribute")
	}
	switch rapid.SampledFrom(kinds).Draw(t, "kind") {
	case "line":
		return rapid.SampledFrom([]string{"+", "-", ":", "_", "#", ",", "("}).Draw(t, "type") + line.Draw(t, "line") + "\r\n"
	case "text":
		text := string(rapid.SliceOfN(rapid.Byte(), 0, 30).Draw(t, "text"))
		return fmt.Sprintf("%s%d\r\n%s\r\n", rapid.SampledFrom([]string{"$", "=", "!"}).Draw(t, "type"), len(text), text)
	case "null":
		return rapid.SampledFrom([]string{"$", "*"}).Draw(t, "type") + "-1\r\n"
	case "list":
		n := count()
		return fmt.Sprintf("%s%d\r\n%s", rapid.SampledFrom([]string{"*", ">", "~"}).Draw(t, "type"), n, several(n))
	case "map":
		n := count()
		return fmt.Sprintf("%%%d\r\n%s", n, several(2*n))
	default:
		n := count()
		return fmt.Sprintf("|%d\r\n%s", n, several(2*n+1))
	}
}

func TestFramesFindTheEndOfEveryMessage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawn(t, 0)
		if n := span([]byte(m + rapid.SampledFrom([]string{"", "+OK\r\n", "$", "x"}).Draw(t, "behind"))); n != len(m) {
			t.Fatalf("%q: %d, want %d", m, n, len(m))
		}
		if cut := rapid.IntRange(0, len(m)-1).Draw(t, "cut"); span([]byte(m[:cut])) != 0 {
			t.Fatalf("%q is not whole, and %d long", m[:cut], span([]byte(m[:cut])))
		}
	})
}

func TestFramesFollowAStreamInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		ends := []int{0}
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			stream = append(stream, drawn(t, 0)...)
			ends = append(ends, len(stream))
		}
		var f frames
		for at := 0; at < len(stream); {
			n := rapid.IntRange(1, len(stream)-at).Draw(t, "piece")
			f.feed(stream[at : at+n])
			if at += n; f.between() != slices.Contains(ends, at) {
				t.Fatalf("%q and then %q: between is %v", stream[:at], stream[at:], f.between())
			}
		}
	})
}

func TestFramesOfNonsense(t *testing.T) {
	for _, b := range []string{
		"HTTP/1.1 200 OK\r\n", "\r\n", "x\n", "+\n", "$x\r\n", "$9223372036854775807\r\n", "$9223372036854775800\r\nx",
		"*9223372036854775807\r\n", "%4611686018427387904\r\n", "*x\r\n", "$-2\r\n", "*?\r\n",
	} {
		var f frames
		if f.feed([]byte(b)); f.between() {
			t.Errorf("%q is a message", b)
		}
		if f.feed([]byte("+OK\r\n")); f.between() {
			t.Errorf("%q is forgotten", b)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.SampledFrom([]byte("$*>%|+-:_019\r\nx")), 0, 40).Draw(t, "bytes")
		if n := span(b); n > len(b) {
			t.Fatalf("%q: %d", b, n)
		}
		if _, n := parse(b); n > len(b) || n < 0 {
			t.Fatalf("%q: %d", b, n)
		}
		var f frames
		f.feed(b)
	})
}

func TestParse(t *testing.T) {
	for text, want := range map[string][]string{
		">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\n12\r\n": {"message", "c", "12"},
		"*3\r\n$1\r\na\r\n$0\r\n\r\n$2\r\n\r\n\r\n":      {"a", "", "\r\n"},
		">1\r\n:1\r\n":            nil,
		"*1\r\n$-0\r\n":           nil,
		">1\r\n$-1\r\n":           nil,
		">1\r\n*1\r\n$1\r\na\r\n": nil,
		"+OK\r\n":                 nil,
		"*-1\r\n":                 nil,
	} {
		got, n := parse([]byte(text + "+"))
		if !slices.Equal(got, want) || want != nil && n != len(text) || want == nil && n != 0 {
			t.Errorf("%q: %q, %d", text, got, n)
		}
	}
}
