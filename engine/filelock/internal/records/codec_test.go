package records

import (
	"bytes"
	"testing"
)

func FuzzDecode(f *testing.F) {
	s := state{boot: [16]byte{1}, name: "x"}
	valid := appendState(make([]byte, slotHead), &s)
	seal(valid, 1)
	f.Add(valid)
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte{0xff}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s state
		payload, _, ok := newest(b)
		if !ok {
			payload = b // as if it had been sealed
		}
		if parseState(payload, &s) == nil {
			again := appendState(nil, &s)
			var s2 state
			if err := parseState(again, &s2); err != nil || s2.name != s.name || len(s2.queue.Places) != len(s.queue.Places) {
				t.Fatalf("what was read cannot be written and read: %v", err)
			}
		}
	})
}
