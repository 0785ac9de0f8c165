package records

import (
	"encoding/binary"
	"hash/crc32"
)

// A file is a sequence of slot pairs, each pair twice as large as the one
// before:
//
//	offset 0      1 KiB   2 KiB        4 KiB        6 KiB
//	       | even | odd  | even       | odd        | even ...
//	         class 0       class 1                   class 2
//
// The newest slot is the valid one with the highest sequence number, wherever
// it is. A store writes the smallest class that holds the queue, in the half
// that the parity of its number selects: never the slot that is the newest so
// far. A process that is killed in the middle of it leaves that one standing.
//
// A slot is 4 bytes magic, 4 bytes length, 8 bytes sequence number, 4 bytes
// CRC-32C of all before and of the payload, then the payload.
const (
	slotMagic = "LHL2"
	slotHead  = 4 + 4 + 8 + 4
	slotSize  = 1024 // of class 0: about eight claims with short owners
	maxClass  = 14   // 16 MiB: MaxQueue claims with owners of MaxOwner bytes fit
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
// what could be it: of a long queue that is most of the work.
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
