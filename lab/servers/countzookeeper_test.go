package servers

import (
	"encoding/binary"
	"slices"
	"testing"
)

func TestOperationsAreCountedHoweverTheyAreCut(t *testing.T) {
	packet := func(op int32, size int) (b []byte) {
		b = binary.BigEndian.AppendUint32(b, uint32(8+size))
		b = binary.BigEndian.AppendUint32(b, 7) // its number
		b = binary.BigEndian.AppendUint32(b, uint32(op))
		return append(b, make([]byte, size)...)
	}
	stream := slices.Concat(packet(99, 36), packet(1, 70), packet(11, 0), packet(14, 3000), packet(-11, 0), packet(77, 1))
	want := []string{"session", "create", "ping", "multi", "closeSession", "operation 77"}
	for _, piece := range []int{1, 2, 3, 7, 12, 13, 100, len(stream)} {
		var k packetCounter
		var got []string
		for part := range slices.Chunk(stream, piece) {
			k.feed(part, func(name string) { got = append(got, name) })
		}
		if !slices.Equal(got, want) {
			t.Errorf("in pieces of %d: %q", piece, got)
		}
	}
}
