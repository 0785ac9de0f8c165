package records

import (
	"encoding/binary"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// state is what a slot says: when it was stored, whether the file is being
// removed, of which boot its deadlines are, whose queue it is, and the queue.
type state struct {
	touched time.Duration // by the clock of that boot
	swept   bool          // see sweep.go
	boot    [16]byte
	name    string
	queue   queue.Queue
}

// touchedSize bytes begin every payload; two payloads that differ only there
// say the same.
const touchedSize = 8

func appendState(b []byte, s *state) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(s.touched))
	swept := byte(0)
	if s.swept {
		swept = 1
	}
	b = append(b, swept)
	b = append(b, s.boot[:]...)
	b = binary.AppendUvarint(b, uint64(len(s.name)))
	b = append(b, s.name...)
	b, _ = s.queue.AppendBinary(b) // its error is always nil
	return b
}

var errGarbage = errors.New("not a queue")

// parseState reads what appendState wrote, into s, reusing its room. What could
// not be a queue is an error even under a valid checksum: it was then not
// written by this code, and package queue must not meet it.
func parseState(b []byte, s *state) error {
	const head = touchedSize + 1 + len(s.boot)
	if len(b) < head {
		return errGarbage
	}
	s.touched = time.Duration(binary.LittleEndian.Uint64(b))
	s.swept = b[touchedSize] == 1
	copy(s.boot[:], b[touchedSize+1:])
	b = b[head:]
	n, size := binary.Uvarint(b)
	if size <= 0 || n > engine.MaxName || int(n) > len(b)-size {
		return errGarbage
	}
	if name := b[size : size+int(n)]; s.name != string(name) {
		s.name = string(name)
	}
	return s.queue.UnmarshalBinary(b[size+int(n):])
}
