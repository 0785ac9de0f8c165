package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"

	"leasehold/engine/queue"
)

// readable is a file, as far as it is read.
type readable interface {
	ReadAt(b []byte, off int64) (int, error)
}

// read reads the whole file into r.buf.
func (r *record) read(f readable) error {
	if cap(r.buf) == 0 {
		r.buf = make([]byte, 2*firstSize)
	}
	for size := 0; ; {
		n, err := f.ReadAt(r.buf[size:cap(r.buf)], int64(size))
		if err != nil && err != io.EOF {
			return err
		}
		size += n
		if size < cap(r.buf) || int64(size) >= classEnd(maxClass) {
			r.buf, r.size = r.buf[:size], int64(size)
			return nil
		}
		r.buf = slices.Grow(r.buf[:size], size)
		r.buf = r.buf[:cap(r.buf)]
	}
}

// readSteady reads a file whose lock is not ours. Writers may tear one slot
// while it is read, and two fast ones both; what reads the same twice is no
// tear.
func (r *record) readSteady(f readable) (payload []byte, seq uint64, ok bool, err error) {
	var before []byte
	for {
		if err := r.read(f); err != nil {
			return nil, 0, false, err
		}
		if payload, seq, ok = newest(r.buf); ok || before != nil && bytes.Equal(before, r.buf) {
			return payload, seq, ok, nil
		}
		before = append(before[:0], r.buf...)
		if before == nil {
			before = []byte{}
		}
	}
}

// load finds what the record says: its own newest slot or, where it has none
// yet, that of the highest number below that has one. known is false if there
// is none at all: a new record, or one that was truncated or overwritten.
func (r *record) load(locked bool) (payload []byte, seq uint64, known bool, err error) {
	if locked {
		if err = r.read(r.f); err != nil {
			return nil, 0, false, err
		}
		payload, seq, known = newest(r.buf)
	} else if payload, seq, known, err = r.readSteady(r.f); err != nil {
		return nil, 0, false, err
	}
	size := r.size
	for n := r.number - 1; !known && n > 0; n-- {
		f, err := r.dir.Open(strconv.FormatUint(n, 10))
		if errors.Is(err, fs.ErrNotExist) {
			break // numbers go from below: nothing is left
		}
		if err != nil {
			return nil, 0, false, err
		}
		payload, seq, known, err = r.readSteady(f)
		f.Close()
		if err != nil {
			return nil, 0, false, err
		}
	}
	r.size = size
	return payload, seq, known, nil
}

// store writes s as sequence number seq. The slot it writes is not the newest
// one, so that an error, a kill or a full disk leaves that one standing.
func (c *Records) store(r *record, seq uint64) error {
	class := 0
	for ; slotSize<<class < len(r.out); class++ {
	}
	if class > maxClass {
		return fmt.Errorf("a queue of %d bytes is too long to store", len(r.out))
	}
	end := classEnd(class)
	if r.size < end {
		// Take the room of both halves now, so that a store of this class
		// never fails later for want of it.
		if err := r.f.WriteAt(make([]byte, end-max(r.size, 0)), r.size); err != nil {
			return err
		}
		c.step("grown")
	}
	off, _ := slotAt(class, seq)
	if err := r.f.WriteAt(r.out, off); err != nil {
		return err
	}
	if r.size > classEnd(class+2) {
		// The queue was long once. What is cut off is older than what was just
		// written; if it cannot be cut, the file only stays long.
		_ = r.f.Truncate(end)
	}
	return nil
}

// parse turns a payload into r.state, or into an empty queue if it is of
// another boot, of another name, or none: then fresh is true, and what is on
// disk may be marked as swept, by whatever name. floor gives tickets of queues
// that were removed.
func (c *Records) parse(r *record, payload []byte, known bool, highWater func() (uint64, error)) (fresh bool, err error) {
	s := &r.state
	known = known && parseState(payload, s) == nil && s.name == r.name
	if known && !s.swept {
		if current, err := c.isCurrent(s); current || err != nil {
			return false, err
		}
	}
	last := uint64(0)
	if known {
		last = s.queue.Last
	}
	if !known || s.swept {
		f, err := highWater()
		if err != nil {
			return false, err
		}
		last = max(last, f)
	}
	*s = state{boot: c.boot(), name: r.name, queue: queue.Queue{Last: last, Places: s.queue.Places[:0]}}
	return true, nil
}
