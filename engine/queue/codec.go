package queue

import (
	"encoding"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"leasehold/engine"
)

// A queue as bytes, for stores that keep bytes:
//
//	version 1 | Last | Limit | number of places | places
//	place: flags | ID | Ticket | Deadline | Asked | Permits | Client | Owner
//
// Ticket, Deadline and Asked have eight bytes and Permits four, least significant
// first; Client and Owner follow their length; lengths and what stands in the
// first line are uvarints.
const version = 1

const (
	flagHeld = 1 << iota
	flagDetached
	flagRevoked
	flagNotified
)

const placeHead = 1 + 16 + 8 + 8 + 8 + 4 // flags, ID, ticket, deadline, asked, permits

var (
	_ encoding.BinaryAppender    = (*Queue)(nil)
	_ encoding.BinaryUnmarshaler = (*Queue)(nil)
)

// ErrEncoding is returned for bytes that are no queue written by this version.
var ErrEncoding = errors.New("not a stored queue")

// AppendBinary implements [encoding.BinaryAppender]. The error is always nil.
func (l *Queue) AppendBinary(b []byte) ([]byte, error) {
	b = append(b, version)
	b = binary.AppendUvarint(b, l.Last)
	b = binary.AppendUvarint(b, uint64(l.Limit))
	b = binary.AppendUvarint(b, uint64(len(l.Places)))
	for i := range l.Places {
		p := &l.Places[i]
		b = append(b, flag(p.Held, flagHeld)|flag(p.Detached, flagDetached)|flag(p.Revoked, flagRevoked)|flag(p.Notified, flagNotified))
		b = append(b, p.ID[:]...)
		b = binary.LittleEndian.AppendUint64(b, p.Ticket)
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Deadline))
		b = binary.LittleEndian.AppendUint64(b, uint64(p.Asked))
		b = binary.LittleEndian.AppendUint32(b, uint32(p.Permits))
		b = appendText(b, p.Client)
		b = appendText(b, p.Owner)
	}
	return b, nil
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

// UnmarshalBinary implements [encoding.BinaryUnmarshaler]. It keeps nothing of data, and
// reuses the memory of Places. The error is [ErrEncoding], also for values that cannot be
// a queue, since no operation may meet one. The queue is then as new.
func (l *Queue) UnmarshalBinary(data []byte) error {
	places := l.Places[:0]
	*l = Queue{}
	if len(data) == 0 || data[0] != version {
		return fmt.Errorf("%w of this version", ErrEncoding)
	}
	r := reader{s: string(data[1:])}
	read := Queue{Last: r.uvarint(engine.MaxTicket), Limit: int32(r.uvarint(engine.Max))}
	sum, ticket, waits := int64(0), uint64(0), false
	for range r.uvarint(engine.MaxQueue) {
		h := r.bytes(placeHead)
		if r.bad {
			return ErrEncoding
		}
		places = append(places, Place{
			Held: h[0]&flagHeld != 0, Detached: h[0]&flagDetached != 0,
			Revoked: h[0]&flagRevoked != 0, Notified: h[0]&flagNotified != 0,
			ID:       engine.ID([]byte(h[1:17])),
			Ticket:   fixed64(h[17:25]),
			Deadline: time.Duration(fixed64(h[25:33])),
			Asked:    time.Duration(fixed64(h[33:41])),
			Permits:  int32(fixed64(h[37:45]) >> 32),
			Client:   r.text(math.MaxInt32),
			Owner:    r.text(math.MaxInt32),
		})
		p := &places[len(places)-1]
		sum += int64(p.Permits)
		waits = waits || !p.Held
		if r.bad || p.Permits < 1 || p.Permits > read.Limit || p.Ticket <= ticket || p.Ticket > read.Last ||
			p.Held && (waits || sum > int64(read.Limit)) {
			return ErrEncoding
		}
		ticket = p.Ticket
	}
	if r.bad || r.at < len(r.s) {
		return ErrEncoding
	}
	read.Places = places
	*l = read
	return nil
}

// reader takes values off the front of a string. The first value that is missing or out of
// bounds makes it bad, and every later value zero. It counts instead of reslicing: moving
// a pointer costs a write barrier each time.
type reader struct {
	s   string
	at  int
	bad bool
}

func (r *reader) bytes(n int) string {
	if r.bad || n > len(r.s)-r.at {
		r.bad = true
		return ""
	}
	r.at += n
	return r.s[r.at-n : r.at]
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != "" {
		return b[0]
	}
	return 0
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
