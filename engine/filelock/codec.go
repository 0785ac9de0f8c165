package filelock

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// A file is a sequence of slot pairs, each pair twice as large as the one
// before:
//
//	offset 0      1 KiB   2 KiB        4 KiB        6 KiB
//	       | even | odd  | even       | odd        | even ...
//	         class 0       class 1                   class 2
//
// The newest slot is the valid one with the highest sequence number, wherever
// it is. A store writes the smallest class that holds the line, in the half
// that the parity of its number selects: never the slot that is the newest so
// far. Whoever is killed in the middle of it leaves that one standing.
//
// A slot is 4 bytes magic, 4 bytes length, 8 bytes sequence number, 4 bytes
// CRC-32C of all before and of the payload, then the payload.
const (
	slotMagic = "LHL1"
	slotHead  = 4 + 4 + 8 + 4
	slotSize  = 1024 // of class 0: about eight claims with short owners
	maxClass  = 14   // 16 MiB: MaxLine claims with owners of MaxOwner bytes fit
	firstSize = 2 * slotSize
	maxSeq    = 1 << 62 // nobody counts that far: a higher one was not written here
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// slotAt is where the slot of that class for that sequence number lies.
func slotAt(class int, seq uint64) (off, size int64) {
	size = slotSize << class
	return 2*(size-slotSize) + int64(seq&1)*size, size
}

// classEnd is the size of a file that has all classes up to class.
func classEnd(class int) int64 { return 2 * (slotSize<<(class+1) - slotSize) }

// newest finds the payload of the newest valid slot of a file.
func newest(b []byte) (payload []byte, seq uint64, ok bool) {
	for class := 0; class <= maxClass; class++ {
		for half := uint64(0); half < 2; half++ {
			off, size := slotAt(class, half)
			if off+slotHead > int64(len(b)) {
				return payload, seq, ok
			}
			p, s, valid := slot(b[off:min(off+size, int64(len(b)))])
			if valid && (!ok || s > seq) {
				payload, seq, ok = p, s, true
			}
		}
	}
	return payload, seq, ok
}

func slot(b []byte) (payload []byte, seq uint64, ok bool) {
	if len(b) < slotHead || string(b[:4]) != slotMagic {
		return nil, 0, false
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if int64(n) > int64(len(b)-slotHead) {
		return nil, 0, false
	}
	payload = b[slotHead : slotHead+int(n)]
	sum := crc32.Update(crc32.Checksum(b[:16], castagnoli), castagnoli, payload)
	if sum != binary.LittleEndian.Uint32(b[16:]) {
		return nil, 0, false
	}
	seq = binary.LittleEndian.Uint64(b[8:])
	return payload, seq, seq < maxSeq
}

// seal fills in the head of a slot whose payload begins at b[slotHead].
func seal(b []byte, seq uint64) {
	copy(b, slotMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-slotHead))
	binary.LittleEndian.PutUint64(b[8:], seq)
	sum := crc32.Update(crc32.Checksum(b[:16], castagnoli), castagnoli, b[slotHead:])
	binary.LittleEndian.PutUint32(b[16:], sum)
}

// state is what a slot says.
type state struct {
	touched time.Duration // when it was stored, by the clock of that boot
	swept   bool          // the file is being removed, see sweep.go
	boot    [16]byte      // of which boot the deadlines are
	name    string
	line    line.Line
	owners  []string // of line.Places, by position, as appendOwner wrote them
}

const (
	placeHeld = 1 << iota
	placeDetached
	placeEvicted
	placeTold
)

// touchedSize bytes begin every payload; two payloads that differ only there
// say the same.
const touchedSize = 8

func appendState(b []byte, s *state) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(s.touched))
	b = append(b, flag(s.swept, 1))
	b = append(b, s.boot[:]...)
	b = appendText(b, s.name)
	b = binary.AppendUvarint(b, s.line.Last)
	b = binary.AppendUvarint(b, uint64(s.line.Limit))
	b = binary.AppendUvarint(b, uint64(len(s.line.Places)))
	for i := range s.line.Places {
		p := &s.line.Places[i]
		b = append(b, flag(p.Held, placeHeld)|flag(p.Detached, placeDetached)|flag(p.Evicted, placeEvicted)|flag(p.Told, placeTold))
		b = append(b, p.ID[:]...)
		b = binary.AppendUvarint(b, p.Ticket)
		b = binary.AppendUvarint(b, uint64(p.Units))
		b = binary.AppendUvarint(b, uint64(p.Deadline))
		b = appendText(b, p.Client)
		b = appendText(b, s.owners[i])
	}
	return b
}

func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errGarbage = errors.New("not a line")

// parseState reads what appendState wrote, into s, reusing its slices. What
// could not be a line is an error even under a valid checksum: it was then not
// written by this code, and package line must not meet it.
func parseState(payload string, s *state) error {
	r := reader{rest: payload}
	places, owners := s.line.Places[:0], s.owners[:0]
	*s = state{}
	s.touched = time.Duration(r.fixed64())
	s.swept = r.byte() == 1
	copy(s.boot[:], r.bytes(len(s.boot)))
	s.name = r.text(engine.MaxName)
	s.line.Last = r.uvarint(engine.MaxTicket)
	s.line.Limit = int32(r.uvarint(engine.Max))
	count := r.uvarint(engine.MaxLine)
	sum, ticket := int64(0), uint64(0)
	for range count {
		var p line.Place
		f := r.byte()
		p.Held, p.Detached = f&placeHeld != 0, f&placeDetached != 0
		p.Evicted, p.Told = f&placeEvicted != 0, f&placeTold != 0
		copy(p.ID[:], r.bytes(len(p.ID)))
		p.Ticket = r.uvarint(s.line.Last)
		p.Units = int32(r.uvarint(uint64(s.line.Limit)))
		p.Deadline = time.Duration(r.uvarint(1<<63 - 1))
		p.Client = r.text(maxClient)
		owner := r.text(maxOwnerSize)
		sum += int64(p.Units)
		if r.bad || p.Units < 1 || p.Ticket <= ticket || p.Held && sum > int64(s.line.Limit) {
			return errGarbage
		}
		ticket = p.Ticket
		places, owners = append(places, p), append(owners, owner)
	}
	if r.bad || r.rest != "" {
		return errGarbage
	}
	s.line.Places, s.owners = places, owners
	return nil
}

// reader takes values off the front of a string; the first that is not there
// or out of bounds makes it bad, and everything after it zero.
type reader struct {
	rest string
	bad  bool
}

func (r *reader) bytes(n int) string {
	if r.bad || n > len(r.rest) {
		r.bad = true
		return ""
	}
	s := r.rest[:n]
	r.rest = r.rest[n:]
	return s
}

func (r *reader) byte() byte {
	if s := r.bytes(1); s != "" {
		return s[0]
	}
	return 0
}

func (r *reader) fixed64() (v uint64) {
	for i, c := range []byte(r.bytes(8)) {
		v |= uint64(c) << (8 * i)
	}
	return v
}

func (r *reader) uvarint(most uint64) (v uint64) {
	for shift := 0; shift < 64 && !r.bad; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			if v > most {
				break
			}
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *reader) text(most int) string { return r.bytes(int(r.uvarint(uint64(most)))) }
