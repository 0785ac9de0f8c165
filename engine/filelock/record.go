package filelock

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold/engine/line"
	"leasehold/engine/linestore"
)

// A record is where one name's line is kept: a directory of numbered files.
//
//	lines/<hash of the name>/1      replaced: somebody was stopped holding its lock
//	lines/<hash of the name>/2      the record: the highest number
//
// Everything follows from two rules.
//
//  1. A number is added with O_EXCL, by anybody, and that alone replaces the
//     number below: the new file is empty, which means "what the one below
//     says". So two replacers cannot both win, a replacer can be stopped or
//     killed anywhere, and there is nothing to copy.
//  2. A number is removed only by who holds the kernel lock on that very file,
//     has marked it swept, and has removed all lower ones before it.
//
// A writer counts only if, after its write and still under the lock of number
// N, there is no N+1. Then whoever adds N+1 does so later, and finds the write.
// If there is one, the write may or may not be found by whoever reads N for
// N+1: the writer has learned nothing and asks again by ID. By rule 2 an N+1
// that was ever added still stands then, because N is locked.
//
// (One file per name and a fresh copy renamed over it, the obvious version,
// loses writes: the copier reads the file, the writer writes it, checks the
// inode, is content, and only then does the copier rename. Unlinking is worse:
// who is stopped between check and unlink removes whatever came in between.
// Here the directory goes by rmdir, which spares what is not empty.)
type record struct {
	name string // of the line; empty for the floor
	file string // of the directory
	in   dir    // where the directory is

	turn chan struct{} // capacity 1: in it while somebody of this engine uses the record

	// Between begin and end only; for records outside of the cache, in the turn.
	isOpen bool
	looked time.Duration // when it was certain that a name leads to it
	dir    dir
	f      file
	number uint64
	next   string // number + 1
	buf    []byte // what was read
	out    []byte // what is written
	size   int64  // of the file when it was read
	state  state
	cell   linestore.Cell // what is changed

	// Under Engine.mu.
	users int    // who hold or wait for the turn
	works bool   // one of them is between begin and end
	used  uint64 // when the last of them was done, in uses of the engine
}

// fileName is the directory of a name: its SHA-256 in lower-case base32. Thus
// names that differ by case, accents or a trailing space differ on every file
// system, and 512 bytes fit. The name itself stands inside.
func fileName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

func newRecord(in dir, name, file string) *record {
	return &record{name: name, file: file, in: in, turn: make(chan struct{}, 1)}
}

// errReplaced: this file is not the record any more; look again.
var errReplaced = errors.New("filelock: the record was replaced")

// errRemoved: no name leads to this file any more; what was written to it
// nobody will read. Look again.
var errRemoved = errors.New("filelock: the record was removed")

// errNoRecord: nobody uses the name.
var errNoRecord = errors.New("filelock: no record")

func (r *record) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	default:
	}
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *record) give() {
	if cap(r.buf) > maxKept {
		r.buf, r.out, r.state, r.cell = nil, nil, state{}, linestore.Cell{}
	}
	<-r.turn
}

// detach moves what is open to a record of its own.
func (r *record) detach() *record {
	own := newRecord(r.in, r.name, r.file)
	own.isOpen, own.dir, own.f, own.state = true, r.dir, r.f, r.state
	own.used = r.used
	own.setNumber(r.number)
	r.isOpen, r.state = false, state{}
	return own
}

func (r *record) shut() {
	if r.isOpen {
		r.f.close()
		r.dir.close()
		r.isOpen = false
	}
}

// find opens the record as it stands, or says errNoRecord.
func (r *record) find() error {
	for range 1000 {
		d, err := r.in.sub(r.file)
		if errors.Is(err, fs.ErrNotExist) {
			return errNoRecord
		}
		if err != nil {
			return err
		}
		f, number, err := highest(d)
		if err == nil {
			r.dir, r.f, r.isOpen, r.looked = d, f, true, 0
			r.setNumber(number)
			return nil
		}
		d.close()
		switch {
		case errors.Is(err, errNoRecord):
			// Emptied by a sweeper that has not removed it yet, or never
			// will. If it is not empty any more, rmdir leaves it alone.
			if err := r.in.rmdir(r.file); err != nil && !errors.Is(err, fs.ErrNotExist) && !inUse(err) {
				return err
			}
		case errors.Is(err, fs.ErrNotExist): // swept between listing and opening
		default:
			return err
		}
	}
	return fmt.Errorf("%s is replaced faster than it can be opened", r.file)
}

// highest opens the highest number in d. Nearly always that is 1: guessed
// right it saves reading the directory, guessed wrong it does no harm, because
// every transaction ends with a look for the next number.
func highest(d dir) (file, uint64, error) {
	f, err := d.open("1")
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			if more, err := d.has("2"); err == nil && !more {
				return f, 1, nil
			}
			f.close()
		} else {
			return f, 0, err
		}
	}
	numbers, err := numbers(d)
	if err != nil {
		return f, 0, err
	}
	if len(numbers) == 0 {
		return f, 0, errNoRecord
	}
	n := numbers[len(numbers)-1]
	f, err = d.open(strconv.FormatUint(n, 10))
	return f, n, err
}

// numbers lists the files of a record in order.
func numbers(d dir) ([]uint64, error) {
	names, err := d.list()
	if err != nil {
		return nil, err
	}
	var ns []uint64
	for _, name := range names {
		if n, err := strconv.ParseUint(name, 10, 64); err == nil && n > 0 && n < 1<<62 {
			ns = append(ns, n)
		}
	}
	slices.Sort(ns)
	return ns, nil
}

func (r *record) setNumber(n uint64) {
	r.number, r.next = n, strconv.FormatUint(n+1, 10)
}

// found makes the record: a directory with a file of its final first size in
// it, so that later stores need no room on the disk, renamed into place. The
// rename is the decision: it takes the place of nothing or of an empty
// directory, so that of two founders one wins and the other uses the winner's.
func (c *cells) found(r *record) error {
	c.mu.Lock()
	c.made++
	tmp := c.owner + "." + strconv.FormatUint(c.made, 10)
	c.mu.Unlock()
	if err := c.fresh.mkdir(tmp); err != nil {
		return err
	}
	c.step("made")
	err := fill(c.fresh, tmp)
	if err == nil {
		c.step("filled")
		if err = c.fresh.moveDir(tmp, r.in, r.file); err == nil {
			c.step("founded")
			return nil
		}
	}
	if d, err := c.fresh.sub(tmp); err == nil {
		d.remove("1")
		d.close()
	}
	c.fresh.rmdir(tmp)
	if inUse(err) {
		return nil
	}
	return err
}

func fill(in dir, name string) error {
	d, err := in.sub(name)
	if err != nil {
		return err
	}
	defer d.close()
	f, err := d.create("1")
	if err != nil {
		return err
	}
	defer f.close()
	return f.writeAt(make([]byte, firstSize), 0)
}

// readable is a file, as far as it is read.
type readable interface {
	readAt(b []byte, off int64) (int, error)
}

// read reads the whole file into r.buf.
func (r *record) read(f readable) error {
	if cap(r.buf) == 0 {
		r.buf = make([]byte, 2*firstSize)
	}
	for size := 0; ; {
		n, err := f.readAt(r.buf[size:cap(r.buf)], int64(size))
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
		f, err := r.dir.open(strconv.FormatUint(n, 10))
		if errors.Is(err, fs.ErrNotExist) {
			break // numbers go from below: nothing is left
		}
		if err != nil {
			return nil, 0, false, err
		}
		payload, seq, known, err = r.readSteady(f)
		f.close()
		if err != nil {
			return nil, 0, false, err
		}
	}
	r.size = size
	return payload, seq, known, nil
}

// store writes s as sequence number seq. The slot it writes is not the newest
// one, so that an error, a kill or a full disk leaves that one standing.
func (c *cells) store(r *record, seq uint64) error {
	class := 0
	for ; slotSize<<class < len(r.out); class++ {
	}
	if class > maxClass {
		return fmt.Errorf("a line of %d bytes is too long to store", len(r.out))
	}
	end := classEnd(class)
	if r.size < end {
		// Take the room of both halves now, so that a store of this class
		// never fails later for want of it.
		if err := r.f.writeAt(make([]byte, end-max(r.size, 0)), r.size); err != nil {
			return err
		}
		c.step("grown")
	}
	off, _ := slotAt(class, seq)
	if err := r.f.writeAt(r.out, off); err != nil {
		return err
	}
	if r.size > classEnd(class+2) {
		// The line was long once. What is cut off is older than what was just
		// written; if it cannot be cut, the file only stays long.
		_ = r.f.truncate(end)
	}
	return nil
}

// check says errReplaced if the file is not the record any more.
func (r *record) check() error {
	more, err := r.dir.has(r.next)
	if err == nil && more {
		err = errReplaced
	}
	return err
}

// checkLinked says errRemoved if no name leads to the file any more. Sweepers
// remove only what they marked, so that who finds the mark looks. But operators
// and clean-up jobs remove anything, and whoever has it open would then hold
// for himself alone: therefore a change looks if none has for linkedTime, which
// is shorter than any time between two renewals. (Looking each time would cost
// a tenth more.)
func (r *record) checkLinked(now time.Duration) error {
	linked, err := r.f.linked()
	if err == nil && !linked {
		err = errRemoved
	}
	r.looked = now
	return err
}

const linkedTime = 100 * time.Millisecond

// patience is how long a kernel lock may be held while nothing is written
// before its holder counts as stopped. A transaction takes microseconds.
const patience = time.Second

// lock takes the kernel lock of the record. Its holder may be stopped, so it
// never simply blocks: who has seen the lock taken and nothing written for
// patience adds the next number and goes on there.
func (c *cells) lock(ctx context.Context, r *record) error {
	var (
		pause   = 10 * time.Microsecond
		looked  time.Duration // when progress was looked for
		since   time.Duration // since when there is none
		lastSeq uint64
	)
	for try := 0; ; try++ {
		ok, err := r.f.tryLock()
		if err != nil || ok {
			return err
		}
		if try < 3 {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		now := c.clock()
		if try == 3 {
			looked, since = now, now
		}
		if now-looked >= c.patience/20 {
			looked = now
			if err := r.check(); err != nil {
				return err
			}
			_, seq, _, err := r.load(false)
			if err != nil {
				return err
			}
			if seq != lastSeq {
				lastSeq, since = seq, now
			} else if now-since >= c.patience {
				if err := c.replace(r); err != nil {
					return err
				}
				pause, since = 10*time.Microsecond, now
				continue
			}
		}
		sleep(ctx, pause)
		pause = min(pause*3/2, 2*time.Millisecond)
	}
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

// replace adds the next number.
func (c *cells) replace(r *record) error {
	c.step("replacing")
	f, err := r.dir.create(r.next)
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, fs.ErrNotExist):
		return errReplaced // by somebody else, or swept
	case err != nil:
		return err
	}
	c.step("replaced")
	r.f.close()
	r.f = f
	r.setNumber(r.number + 1)
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	if d < time.Millisecond {
		time.Sleep(d)
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// parse turns a payload into r.state, or into an empty line if it is of
// another boot, of another name, or none: then fresh is true, and what is on
// disk may be marked as swept, by whatever name. floor gives tickets of lines
// that were removed.
func (r *record) parse(payload []byte, known bool, boot [16]byte, floor func() (uint64, error)) (fresh bool, err error) {
	s := &r.state
	known = known && parseState(payload, s) == nil && s.name == r.name
	if known && !s.swept && s.boot == boot {
		return false, nil
	}
	last := uint64(0)
	if known {
		last = s.line.Last
	}
	if !known || s.swept {
		f, err := floor()
		if err != nil {
			return false, err
		}
		last = max(last, f)
	}
	*s = state{boot: boot, name: r.name, line: line.Line{Last: last, Places: s.line.Places[:0]}}
	return true, nil
}
