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

// newest finds the payload of the newest valid slot of a file. It sums up only
// what could be it: of a long line that is most of the work.
func newest(b []byte) (payload []byte, seq uint64, ok bool) {
	for class := 0; class <= maxClass; class++ {
		for half := uint64(0); half < 2; half++ {
			off, size := slotAt(class, half)
			if off+slotHead > int64(len(b)) {
				return payload, seq, ok
			}
			s := b[off:min(off+size, int64(len(b)))]
			n, its, plausible := slot(s)
			if !plausible || ok && its <= seq || checksum(s, n) != binary.LittleEndian.Uint32(s[16:]) {
				continue
			}
			payload, seq, ok = s[slotHead:slotHead+n], its, true
		}
	}
	return payload, seq, ok
}

// slot reads the head of a slot: how long its payload is said to be, and its
// sequence number.
func slot(b []byte) (n int, seq uint64, plausible bool) {
	if string(b[:4]) != slotMagic {
		return 0, 0, false
	}
	length := binary.LittleEndian.Uint32(b[4:])
	seq = binary.LittleEndian.Uint64(b[8:])
	return int(length), seq, int64(length) <= int64(len(b)-slotHead) && seq < maxSeq
}

func checksum(b []byte, n int) uint32 {
	return crc32.Update(crc32.Checksum(b[:16], castagnoli), castagnoli, b[slotHead:slotHead+n])
}

// seal fills in the head of a slot whose payload begins at b[slotHead].
func seal(b []byte, seq uint64) {
	copy(b, slotMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-slotHead))
	binary.LittleEndian.PutUint64(b[8:], seq)
	binary.LittleEndian.PutUint32(b[16:], checksum(b, len(b)-slotHead))
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

const placeHead = 1 + 16 + 8 + 8 + 4 // flags, ID, ticket, deadline, units

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
		b = binary.LittleEndian.AppendUint64(b, p.Ticket)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Deadline))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Units))
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
	r := reader{s: payload}
	places, owners := s.line.Places[:0], s.owners[:0]
	*s = state{}
	if touched := r.bytes(touchedSize); !r.bad {
		s.touched = time.Duration(fixed64(touched))
	}
	s.swept = r.byte() == 1
	copy(s.boot[:], r.bytes(len(s.boot)))
	s.name = r.text(engine.MaxName)
	s.line.Last = r.uvarint(engine.MaxTicket)
	s.line.Limit = int32(r.uvarint(engine.Max))
	count := r.uvarint(engine.MaxLine)
	sum, ticket := int64(0), uint64(0)
	for range count {
		h := r.bytes(placeHead)
		if r.bad {
			return errGarbage
		}
		places = append(places, line.Place{
			Held: h[0]&placeHeld != 0, Detached: h[0]&placeDetached != 0,
			Evicted: h[0]&placeEvicted != 0, Told: h[0]&placeTold != 0,
			ID:       engine.ID([]byte(h[1:17])),
			Ticket:   fixed64(h[17:25]),
			Deadline: time.Duration(fixed64(h[25:33])),
			Asked:    engine.MaxTTL, // not stored: the clock of a boot never steps back
			Units:    int32(fixed64(h[29:37]) >> 32),
			Client:   r.text(maxClient),
		})
		owners = append(owners, r.text(maxOwnerSize))
		p := &places[len(places)-1]
		sum += int64(p.Units)
		if r.bad || p.Units < 1 || p.Units > s.line.Limit || p.Ticket <= ticket || p.Ticket > s.line.Last ||
			p.Deadline < 0 || p.Held && sum > int64(s.line.Limit) {
			return errGarbage
		}
		ticket = p.Ticket
	}
	if r.bad || r.more() {
		return errGarbage
	}
	s.line.Places, s.owners = places, owners
	return nil
}

// reader takes values off the front of a string; the first that is not there
// or out of bounds makes it bad, and everything after it zero. It counts
// instead of reslicing: moving a pointer costs a write barrier each time.
type reader struct {
	s   string
	at  int
	bad bool
}

func (r *reader) more() bool { return r.at < len(r.s) && !r.bad }

func (r *reader) bytes(n int) string {
	if r.bad || n > len(r.s)-r.at {
		r.bad = true
		return ""
	}
	r.at += n
	return r.s[r.at-n : r.at]
}

func (r *reader) byte() byte {
	if r.bad || r.at == len(r.s) {
		r.bad = true
		return 0
	}
	r.at++
	return r.s[r.at-1]
}

// fixed64 reads eight bytes, least significant first.
func fixed64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
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
