package records

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"leasehold/engine/queuestore"

	"leasehold/engine/filelock/internal/disk"
)

// Nothing is left behind for good. What a client makes it removes itself when
// it has used other names since (releaseIdle) or is closed. What is left by one
// that was killed, or that others used last, goes by sweeping: every client
// sweeps the directory when it begins and every sweepEvery, a bounded part at
// a time, going round from any place.
//
// A part in which much was idle is followed by the next one at once, so that
// what nobody uses does not come to more than a small share of what is in use,
// however fast it is made.
const (
	sweepEvery = time.Minute
	sweepPart  = 1000        // records looked at in one go
	sweepMuch  = 10          // one in so many is much
	idleTime   = time.Minute // how long a queue was empty when its record goes
)

func (c *Records) SweepLoop(ctx context.Context, clients func(context.Context) error) {
	every := min(sweepEvery, max(c.idle, time.Millisecond))
	from := queuestore.NewClient() // as good a place as any
	for {
		// An error means that it is left to another time, or to others: what
		// matters about it every other call says too. Nor does a record that cannot be
		// removed keep what dead clients left.
		begin := time.Now()
		done, err := c.Sweep(ctx, from)
		err = errors.Join(err, clients(ctx))
		pause := every
		if err == nil && done.removed*sweepMuch > done.looked {
			pause = time.Since(begin) // and leave half of a processor to others
		}
		from = done.last
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// Swept is what one sweep did.
type Swept struct {
	last            string // where to go on: empty at the end
	looked, removed int
}

// Sweep goes through at most sweepPart records whose files come after from.
func (c *Records) Sweep(ctx context.Context, from string) (done Swept, err error) {
	done.last = from
	if !disk.MovesOpenFiles {
		// Records stay: whoever may remove one has it open. Closed first, it may have
		// a claim by the time it is removed.
		return done, c.sweepFresh(ctx)
	}
	part, next, err := c.part(from, sweepPart)
	if err != nil {
		return done, err
	}
	done.last, done.looked = next, len(part)
	// One rise of the high-water mark serves all records of this part.
	var idle []string
	highWater := uint64(0)
	for _, file := range part {
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if last, ok := c.isIdle(file); ok {
			idle, highWater = append(idle, file), max(highWater, last)
		}
	}
	if len(idle) > 0 {
		if err := c.raiseHighWater(ctx, highWater); err != nil {
			return done, err
		}
		c.step("floor raised")
	}
	for _, file := range idle {
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		gone, err := c.removeRecord(file, highWater, c.idle)
		if err != nil {
			return done, err
		}
		if gone {
			done.removed++
		}
	}
	return done, c.sweepFresh(ctx)
}

// isIdle looks, without the lock, whether a record could go. One that may not
// is rid of the numbers below it at least.
func (c *Records) isIdle(file string) (last uint64, ok bool) {
	r := newRecord(c.lines, "", file)
	if r.find() != nil {
		return 0, false
	}
	defer r.shut()
	if last, ok = c.idleNow(r, false, c.idle); !ok && r.number > 1 {
		_ = c.removeBelow(r) // or another time
	}
	return last, ok
}

// removeBelow removes the numbers below a record that is in use, if it has a
// state of its own: from then on it always has one, and nobody reads them.
func (c *Records) removeBelow(r *record) error {
	if _, _, own, err := r.readSteady(r.f); err != nil || !own {
		return err
	}
	numbers, err := numbers(r.dir)
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if n >= r.number {
			break
		}
		if done, err := c.removeNumber(r, n, 0); err != nil || !done {
			return err
		}
	}
	return nil
}

// idleNow reports whether nobody is in the queue of an open record, nor was for
// that long, and its last ticket.
func (c *Records) idleNow(r *record, locked bool, since time.Duration) (last uint64, ok bool) {
	payload, _, known, err := r.load(locked)
	if err != nil {
		return 0, false
	}
	s := &r.state
	if !known || parseState(payload, s) != nil {
		return 0, true // new, or damaged: an empty queue either way
	}
	if s.swept {
		return s.queue.Last, true
	}
	if current, err := c.isCurrent(s); !current {
		return s.queue.Last, err == nil
	}
	now := c.clock()
	for i := range s.queue.Places {
		p := &s.queue.Places[i]
		if p.Deadline > now && (p.Detached || !c.dead(p.Client)) {
			return 0, false
		}
	}
	return s.queue.Last, now-s.touched >= since
}

// removeRecord removes a record in whose queue nobody has been for that long and
// whose last ticket the high-water mark covers, and reports whether it did.
func (c *Records) removeRecord(file string, highWater uint64, since time.Duration) (bool, error) {
	r := newRecord(c.lines, "", file)
	if err := r.find(); err != nil {
		if errors.Is(err, errNoRecord) {
			err = nil
		}
		return false, err
	}
	defer r.shut()
	return c.removeOpen(r, highWater, since)
}

// removeOpen is removeRecord with the record open. See record for the two rules that make it safe to be stopped or killed
// at any point, and what others may do meanwhile.
func (c *Records) removeOpen(r *record, highWater uint64, since time.Duration) (bool, error) {
	free, err := r.f.TryLock()
	if err != nil || !free {
		return false, err // in use
	}
	defer r.f.Unlock()
	last, ok := c.idleNow(r, true, since)
	if !ok || last > highWater {
		return false, nil
	}
	// The numbers below go first, each under its own lock: one that is still
	// locked belongs to somebody stopped, who must find the next one.
	numbers, err := numbers(r.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // removed by another sweeper, before the lock was ours
	}
	if err != nil || len(numbers) == 0 || numbers[len(numbers)-1] != r.number {
		return false, err
	}
	if err := c.mark(r, last); err != nil {
		return false, err
	}
	for _, n := range numbers[:len(numbers)-1] {
		if done, err := c.removeNumber(r, n, last); err != nil || !done {
			return false, err
		}
	}
	if err := r.check(); err != nil {
		if errors.Is(err, errReplaced) || errors.Is(err, errRemoved) {
			err = nil
		}
		return false, err
	}
	c.step("marked")
	if err := r.dir.Remove(strconv.FormatUint(r.number, 10)); err != nil {
		return false, err
	}
	c.step("removed")
	if err := c.lines.Rmdir(r.file); err != nil && !disk.IsInUse(err) && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// mark stores that the record is empty and may be gone: whoever gets its lock
// later looks whether it is still linked. It also gives the record a state of
// its own, so that the numbers below mean nothing any more.
func (c *Records) mark(r *record, last uint64) error {
	_, seq, _, err := r.load(true)
	if err != nil {
		return err
	}
	s := state{swept: true, boot: c.boot(), touched: c.clock(), name: r.state.name}
	s.queue.Last = last
	r.out = appendState(append(r.out[:0], blankHead[:]...), &s)
	seal(r.out, seq+1)
	return c.store(r, seq+1)
}

// removeNumber removes one number below the record.
func (c *Records) removeNumber(r *record, n uint64, last uint64) (bool, error) {
	low := newRecord(c.lines, "", r.file)
	f, err := r.dir.Open(strconv.FormatUint(n, 10))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	defer f.Close()
	free, err := f.TryLock()
	if err != nil || !free {
		return false, err
	}
	defer f.Unlock()
	low.dir, low.f = r.dir, f
	low.setNumber(n)
	low.state.name = r.state.name
	if err := c.mark(low, last); err != nil {
		return false, err
	}
	c.step("low marked")
	return true, r.dir.Remove(strconv.FormatUint(n, 10))
}

// sweepFresh removes directories that dead clients were about to make records
// of.
func (c *Records) sweepFresh(ctx context.Context) error {
	names, err := c.fresh.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		client, _, _ := strings.Cut(name, ".")
		if client == c.owner || !c.dead(client) {
			continue
		}
		if d, err := c.fresh.Sub(name); err == nil {
			d.Remove("1")
			d.Close()
		}
		c.fresh.Rmdir(name)
	}
	return nil
}
