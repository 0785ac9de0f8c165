package records

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold/engine/queuestore"

	"leasehold/engine/filelock/internal/disk"
)

// A record is where one name's queue is kept: a directory of numbered files.
//
//	queues/<hash of the name>/1      replaced: somebody was stopped holding its lock
//	queues/<hash of the name>/2      the record: the highest number
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
	name string   // of the queue; empty for the high-water mark
	file string   // of the directory
	in   disk.Dir // where the directory is

	turn  chan struct{} // capacity 1: in it while somebody of this engine uses the record
	hurry chan struct{} // a renewal that waits for the turn sends here

	// Between begin and end only; for records outside of the cache, in the turn.
	isOpen bool
	looked time.Duration // when it was certain that a name leads to it
	dir    disk.Dir
	f      disk.File
	number uint64
	next   string // number + 1

	// In the turn only.
	buf    []byte // what was read
	out    []byte // what is written
	size   int64  // of the file when it was read
	state  state
	record queuestore.Record // what is changed

	// Under Records.mu.
	users  int           // who hold or wait for the turn
	works  bool          // one of them is between begin and end
	places chan struct{} // that one's: working or renewing
	used   uint64        // when the last of them was done, in uses of the engine
	last   uint64        // ticket of the queue then
	empty  bool          // nobody was in the queue then
}

// fileName is the directory of a name: its SHA-256 in lower-case base32. Thus
// names that differ by case, accents or a trailing space differ on every file
// system, and 512 bytes fit. The name itself stands inside.
func fileName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:]))
}

// Path is where the record of a name is, below the directory of all.
func Path(name string) string { return filepath.Join("lines", fileName(name)) }

func newRecord(in disk.Dir, name, file string) *record {
	return &record{name: name, file: file, in: in, turn: make(chan struct{}, 1), hurry: make(chan struct{})}
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
	var hurry chan<- struct{}
	if renews(ctx) {
		hurry = r.hurry
	}
	for {
		select {
		case r.turn <- struct{}{}:
			return nil
		case hurry <- struct{}{}: // whoever has the turn waits for a place
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// give keeps no memory of a long queue. It comes after end, so another call may be in
// detach meanwhile: what give writes belongs to the turn, and detach leaves it alone.
func (r *record) give() {
	if cap(r.buf) > maxKept {
		r.buf, r.out, r.state, r.record = nil, nil, state{}, queuestore.Record{}
	}
	<-r.turn
}

// detach moves what is open to a record of its own. The caller has Records.mu, but not
// the turn: another call may be between end and give, which forgets a long queue. To
// detach, that queue would be empty though it is full. So of the queue detach reads
// only what end noted, under Records.mu.
func (r *record) detach() *record {
	own := newRecord(r.in, r.name, r.file)
	own.isOpen, own.dir, own.f = true, r.dir, r.f
	own.used, own.last, own.empty = r.used, r.last, r.empty
	own.setNumber(r.number)
	r.isOpen = false
	return own
}

func (r *record) shut() {
	if r.isOpen {
		r.f.Close()
		r.dir.Close()
		r.isOpen = false
	}
}

// find opens the record as it stands, or says errNoRecord.
func (r *record) find() error {
	foreign := false // there is something without a number, at every try
	for range 1000 {
		d, err := r.in.Sub(r.file)
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
		d.Close()
		switch foreign = false; {
		case errors.Is(err, errNoRecord):
			// Emptied by a sweeper that has not removed it yet, or never
			// will. If it is not empty any more, rmdir leaves it alone.
			err := r.in.Rmdir(r.file)
			if foreign = disk.IsInUse(err); err != nil && !foreign && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		case errors.Is(err, fs.ErrNotExist): // swept between listing and opening
		default:
			return err
		}
	}
	if foreign {
		return disk.ErrStranger
	}
	return fmt.Errorf("%s is replaced faster than it can be opened", r.file)
}

// highest opens the highest number in d. Nearly always that is 1: guessed
// right it saves reading the directory, guessed wrong it does no harm, because
// every transaction ends with a look for the next number.
func highest(d disk.Dir) (disk.File, uint64, error) {
	f, err := d.Open("1")
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			if more, err := d.Has("2"); err == nil && !more {
				return f, 1, nil
			}
			f.Close()
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
	f, err = d.Open(strconv.FormatUint(n, 10))
	return f, n, err
}

// numbers lists the files of a record in order.
func numbers(d disk.Dir) ([]uint64, error) {
	names, err := d.List()
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

// check says errReplaced if the file is not the record any more.
func (r *record) check() error {
	more, err := r.dir.Has(r.next)
	if err == nil && more {
		err = errReplaced
	}
	return err
}

// checkLinked says errRemoved if the name does not lead to the file any more,
// and disk.ErrMoved if nobody else comes to where it leads. Sweepers remove only
// what they marked, so that who finds the mark looks. But operators and
// clean-up jobs remove and move anything, and whoever has it open would then
// hold for himself alone: therefore a change looks if none has for linkedTime, which
// is shorter than any time between two renewals. (Looking each time would cost
// 14 % more.)
func (c *Records) checkLinked(r *record, now time.Duration) error {
	if c.lines.IsReplaced(filepath.Join(c.path, "lines")) {
		return disk.ErrMoved
	}
	linked, err := r.f.IsAt(r.in, filepath.Join(r.file, strconv.FormatUint(r.number, 10)))
	if err == nil && !linked {
		err = errRemoved
	}
	r.looked = now
	return err
}

const linkedTime = 100 * time.Millisecond
