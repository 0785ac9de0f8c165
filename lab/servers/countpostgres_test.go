package servers

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
)

func TestStatementsAreCountedHoweverTheyAreCut(t *testing.T) {
	first := func(code uint32, rest string) []byte {
		return append(binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(8+len(rest))), code), rest...)
	}
	message := func(kind byte, text string) []byte {
		return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(text))), text...)
	}
	stream := slices.Concat(first(sslRequest, ""), first(gssRequest, ""), first(196608, "user\x00me\x00\x00"),
		message('P', "stmt\x00SELECT 1\x00\x00\x00"), message('D', "Sstmt\x00"), message('S', ""),
		message('B', "\x00stmt\x00"+strings.Repeat("Q", 3000)), message('E', "\x00\x00\x00\x00\x00"), message('S', ""),
		message('Q', "LISTEN a\x00"), message('Q', "-- ping\x00"), message('Q', "\x00"), message('X', ""))
	want := []string{"prepare", "execute", "LISTEN", "--", "?"}
	for _, piece := range []int{1, 2, 3, 5, 8, 13, 100, len(stream)} {
		var k statementCounter
		var got []string
		for part := range slices.Chunk(stream, piece) {
			k.feed(part, func(name string) { got = append(got, name) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: %q", piece, got)
		}
	}
}
