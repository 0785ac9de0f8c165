package records

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"leasehold/engine/queuestore"

	"leasehold/engine/filelock/internal/disk"
)

// Options say for whom queues are kept. Owner, Most, Boot, Clock, Dead, Shed and
// Explain are needed.
type Options struct {
	Owner string                   // the client: names what is half made
	Most  int                      // records open and idle, and as many in use, and one that is renewed: two descriptors each
	Boot  func() [16]byte          // the boot of the machine that deadlines are of; zero if not known
	Clock func() time.Duration     // since that boot
	Dead  func(client string) bool // whether a client is gone for good
	Ended func(client string) bool // the same, of a client of another boot; if nil, Dead
	Shed  func()                   // closes what else is kept open, when no descriptor is left

	// Explain says what to do about an error. join: it is one of a change that
	// was to add a claim and has left nothing behind.
	Explain func(name string, err error, join bool) error

	Idle     time.Duration     // how long a queue was empty when its record goes: a minute if zero
	Patience time.Duration     // see there: if zero, that
	Step     func(step string) // called at every step, for tests
	Micros   func() uint64     // the wall clock in microseconds: if nil, that of the machine
}

// Records are the queues in a directory, as one client keeps them. Whoever changes
// one has the kernel lock of its file meanwhile.
type Records struct {
	owner   string
	boot    func() [16]byte
	clock   func() time.Duration
	micros  func() uint64
	dead    func(client string) bool
	ended   func(client string) bool
	shed    func()
	explain func(name string, err error, join bool) error
	step    func(string)
	path    string // of root, to find what is in it replaced

	idle, patience time.Duration

	root, lines, fresh disk.Dir
	highWater          *record
	reserve            *reserve
	made               uint64        // names of what is half made; under mu
	most               int           // records open and idle, and as many in use
	working            chan struct{} // has one from each call that may open files
	renewing           chan struct{} // the same of calls that renew: one at a time

	mu      sync.Mutex
	records map[string]*record // those in use, and those open
	spent   map[string]spent   // names that this client may remove, by name
	idles   int                // how many of them are open and not in use
	uses    uint64             // how often a record came to be idle
}

// Open opens what is in root, and makes what is not. path is that of root, for
// people.
func Open(root disk.Dir, path string, o *Options) (*Records, error) {
	c := &Records{
		owner: o.Owner, boot: o.Boot, clock: o.Clock, micros: o.Micros, dead: o.Dead, shed: o.Shed, explain: o.Explain, step: o.Step,
		idle: cmp.Or(o.Idle, idleTime), patience: cmp.Or(o.Patience, Patience),
		root: root, path: path, most: o.Most, working: make(chan struct{}, o.Most), renewing: make(chan struct{}, 1),
		records: map[string]*record{}, spent: map[string]spent{}, highWater: newRecord(root, "", "floor"),
	}
	if c.step == nil {
		c.step = func(string) {}
	}
	if c.ended = o.Ended; c.ended == nil {
		c.ended = o.Dead
	}
	if c.micros == nil {
		c.micros = func() uint64 { return uint64(time.Now().UnixMicro()) }
	}
	var err error
	if c.lines, err = root.MakeSub("lines"); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, "lines"), err)
	}
	if c.fresh, err = root.MakeSub("new"); err != nil {
		c.lines.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, "new"), err)
	}
	if c.reserve, err = openReserve(root, c.boot()); err != nil {
		c.lines.Close()
		c.fresh.Close()
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, "reserve"), err)
	}
	return c, nil
}

// Close comes when nothing uses c any more. It removes what it can of the names
// that this client used last.
func (c *Records) Close(ctx context.Context) {
	c.spend(c.dropIdle(0))
	if old := c.takeSpent(0); len(old) > 0 {
		_ = c.removeSpent(ctx, old) // what is left is swept by others
	}
	c.highWater.shut()
	c.lines.Close()
	c.fresh.Close()
	c.reserve.close()
}

// Change is [queuestore.Store].Change. Its error is one of change as it is, or
// explained. now is when it was, by the clock.
func (c *Records) Change(ctx context.Context, name string, change func(*queuestore.Record) error) (now time.Duration, err error) {
	r := c.hold(name)
	defer c.unhold(r)
	if err := r.take(ctx); err != nil {
		return 0, err
	}
	defer r.give()
	if err := c.begin(ctx, r); err != nil {
		return 0, err
	}
	defer c.end(r)
	if !r.isOpen {
		c.makeRoom(ctx)
	}
	err = c.transact(ctx, r, change)
	return r.state.touched, err
}

// refused is an error of the change itself: nothing is to be stored.
type refused struct{ error }

// transact runs change until an attempt counts. The caller has the turn.
func (c *Records) transact(ctx context.Context, r *record, change func(*queuestore.Record) error) error {
	ran := false // an attempt may be found stored, though it did not count
	shed := false
	for {
		stored, err := c.try(ctx, r, change, ran)
		if err == nil {
			return nil
		}
		if no, ok := errors.AsType[refused](err); ok {
			return no.error
		}
		r.shut()
		switch {
		case errors.Is(err, errReplaced):
			ran = ran || stored
		case errors.Is(err, errRemoved):
		case disk.IsTooMany(err) && !shed:
			shed = true
			c.closeIdle()
		case disk.IsStranger(err), errors.Is(err, disk.ErrMoved):
			if r == c.highWater { // no record goes that it does not cover
				return fmt.Errorf("%w: %w", ErrHighWater, err)
			}
			if adds, err := c.onNobody(r.name, change); err != nil || !adds {
				return err // nobody is in the queue in what is no record, or where nobody comes
			}
			// What was stored where nobody comes has left nothing behind.
			return c.explain(r.name, err, !ran && !stored || errors.Is(err, disk.ErrMoved))
		default:
			return c.explain(r.name, err, !ran && !stored && c.Joins(r.name, change))
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// try is one attempt, with the record open, or opened or founded for it. stored
// means that others may read what it wrote, also if it does not count.
func (c *Records) try(ctx context.Context, r *record, change func(*queuestore.Record) error, again bool) (stored bool, err error) {
	if !r.isOpen {
		err := r.find()
		if errors.Is(err, errNoRecord) {
			adds, err := c.onNobody(r.name, change)
			if err != nil {
				return false, refused{err}
			}
			if !adds && r != c.highWater {
				return false, nil
			}
			if err := c.found(r); err != nil {
				return false, err
			}
			return false, errReplaced // by the new one
		}
		if err != nil {
			return false, err
		}
		c.step("opened")
	}
	if err := c.lock(ctx, r); err != nil {
		return false, err
	}
	c.step("locked")
	stored, err = c.attempt(r, change, again)
	r.f.Unlock()
	c.step("unlocked")
	return stored, err
}

// onNobody runs a change on the queue of a name that has no record: nobody is in
// it. If nobody is in it afterwards nothing has to be stored to say so.
func (c *Records) onNobody(name string, change func(*queuestore.Record) error) (adds bool, err error) {
	record := c.record(name)
	err = change(&record)
	return len(record.Queue.Places) > 0, err
}

// Joins reports whether a change is one that adds a claim.
func (c *Records) Joins(name string, change func(*queuestore.Record) error) bool {
	adds, err := c.onNobody(name, change)
	return err == nil && adds
}

func (c *Records) record(name string) queuestore.Record {
	now := c.clock()
	// What earlier boots have reserved is over, whatever the wall clock says, and
	// tickets go on rising from there as this boot's clock does.
	micros := max(c.micros(), c.reserve.base+uint64(max(now, 0)/time.Microsecond))
	return queuestore.Record{Name: name, Now: now, Micros: micros}
}

// attempt is one transaction under the kernel lock: load, change, store, and the
// look that decides whether it counts.
func (c *Records) attempt(r *record, change func(*queuestore.Record) error, again bool) (stored bool, err error) {
	payload, seq, known, err := r.load(true)
	if err != nil {
		return false, err
	}
	fresh, err := c.parse(r, payload, known, c.readHighWater)
	if err != nil {
		return false, err
	}
	if fresh {
		// Perhaps swept: removed before the lock was ours, and then nobody
		// will ever look here again. Before anything is stored: that would hide
		// the mark from the next who has the file open. A sweeper that died, or
		// gave up, leaves it linked; it then serves as if it were new.
		if err := c.checkLinked(r, 0); err != nil {
			return false, err
		}
	}
	c.step("loaded")
	now := c.record(r.name)
	r.record.Name, r.record.Now, r.record.Micros = now.Name, now.Now, now.Micros
	r.record.Queue, r.record.Again = r.state.queue, again
	no := change(&r.record)
	r.state.queue, r.state.touched = r.record.Queue, r.record.Now
	c.step("applied")
	if no == nil {
		r.out = appendState(append(r.out[:0], blankHead[:]...), &r.state)
		if fresh || !bytes.Equal(r.out[slotHead+touchedSize:], payload[touchedSize:]) {
			if err := c.reserveTicket(r.state.queue.Last); err != nil {
				return false, err
			}
			seal(r.out, seq+1)
			if err := c.store(r, seq+1); err != nil {
				return true, err
			}
			stored = true
			c.step("stored")
		}
	}
	if err := r.check(); err != nil {
		return stored, err
	}
	if r.record.Now-r.looked >= linkedTime {
		if err := c.checkLinked(r, r.record.Now); err != nil {
			return stored, err
		}
	}
	if no != nil {
		return false, refused{no}
	}
	c.step("checked")
	return stored, nil
}

var blankHead [slotHead]byte
