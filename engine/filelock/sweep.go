package filelock

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Nothing is left behind for good. What a client makes it removes itself when
// it has used other names since (makeRoom) or is closed. What is left by one
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
	idleTime   = time.Minute // how long a line was empty when its record goes
)

func (e *Engine) sweepLoop() {
	every := min(sweepEvery, max(e.idle, time.Millisecond))
	from := newClient() // as good a place as any
	for {
		// An error means that it is left to another time, or to others: what
		// matters about it every other call says too.
		begin := time.Now()
		done, err := e.sweep(e.ctx, from)
		pause := every
		if err == nil && done.removed*sweepMuch > done.looked {
			pause = time.Since(begin) // and leave half of a processor to others
		}
		from = done.last
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-e.ctx.Done():
			t.Stop()
			return
		}
	}
}

// swept is what one sweep did.
type swept struct {
	last            string // where to go on: empty at the end
	looked, removed int
}

// sweep goes through at most sweepPart records whose files come after from.
func (e *Engine) sweep(ctx context.Context, from string) (done swept, err error) {
	done.last = from
	if !e.enter() {
		return done, ctx.Err()
	}
	files, err := e.lines.list()
	e.leave()
	if err != nil {
		return done, err
	}
	slices.Sort(files)
	i, _ := slices.BinarySearch(files, from+"\x00")
	part := files[i:]
	if len(part) > sweepPart {
		part = part[:sweepPart]
		done.last = part[sweepPart-1]
	} else {
		done.last = ""
	}
	done.looked = len(part)
	// One rise of the floor serves all records of this part.
	var idle []string
	floor := uint64(0)
	for _, file := range part {
		if last, ok := e.isIdle(ctx, file); ok {
			idle, floor = append(idle, file), max(floor, last)
		}
	}
	if len(idle) > 0 {
		if err := e.gated(func() error { return e.raiseFloor(ctx, floor) }); err != nil {
			return done, err
		}
		e.step("floor raised")
	}
	for _, file := range idle {
		if ctx.Err() != nil {
			return done, ctx.Err()
		}
		if err := e.gated(func() error {
			gone, err := e.removeRecord(file, floor)
			if gone {
				done.removed++
			}
			return err
		}); err != nil {
			return done, err
		}
	}
	return done, e.gated(func() error { return e.sweepClients(ctx) })
}

// gated runs a short step unless the engine is closed; between two of them
// Close need not wait.
func (e *Engine) gated(step func() error) error {
	if !e.enter() {
		return e.ctx.Err()
	}
	defer e.leave()
	return step()
}

// isIdle looks, without the lock, whether a record could go. One that may not
// is rid of the numbers below it at least.
func (e *Engine) isIdle(ctx context.Context, file string) (last uint64, ok bool) {
	_ = e.gated(func() error {
		if ctx.Err() != nil {
			return nil
		}
		r := newRecord(e.lines, "", file)
		if err := r.find(); err != nil {
			return err
		}
		defer r.shut()
		if last, ok = e.idleNow(r, false, e.idle); !ok && r.number > 1 {
			return e.removeBelow(r)
		}
		return nil
	})
	return last, ok
}

// removeBelow removes the numbers below a record that is in use, if it has a
// state of its own: from then on it always has one, and nobody reads them.
func (e *Engine) removeBelow(r *record) error {
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
		if done, err := e.removeNumber(r, n, 0); err != nil || !done {
			return err
		}
	}
	return nil
}

// idleNow reports whether nobody is in the line of an open record, nor was for
// that long, and its last ticket.
func (e *Engine) idleNow(r *record, locked bool, since time.Duration) (last uint64, ok bool) {
	payload, _, known, err := r.load(locked)
	if err != nil {
		return 0, false
	}
	s := &r.state
	if !known || parseState(payload, s) != nil {
		return 0, true // new, or damaged: an empty line either way
	}
	if s.boot != e.boot || s.swept {
		return s.line.Last, true
	}
	now := e.clock()
	for i := range s.line.Places {
		p := &s.line.Places[i]
		if p.Deadline > now && (p.Detached || !e.isDead(p.Client)) {
			return 0, false
		}
	}
	return s.line.Last, now-s.touched >= since
}

// removeRecord removes a record that is idle and whose last ticket the floor
// covers, and reports whether it did.
func (e *Engine) removeRecord(file string, floor uint64) (bool, error) {
	r := newRecord(e.lines, "", file)
	if err := r.find(); err != nil {
		if errors.Is(err, errNoRecord) {
			err = nil
		}
		return false, err
	}
	defer r.shut()
	return e.removeOpen(r, floor, e.idle)
}

// removeOpen removes an open record in whose line nobody has been for that
// long. See record for the two rules that make it safe to be stopped or killed
// at any point, and what others may do meanwhile.
func (e *Engine) removeOpen(r *record, floor uint64, since time.Duration) (bool, error) {
	free, err := r.f.tryLock()
	if err != nil || !free {
		return false, err // in use
	}
	defer r.f.unlock()
	last, ok := e.idleNow(r, true, since)
	if !ok || last > floor {
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
	if err := e.mark(r, last); err != nil {
		return false, err
	}
	for _, n := range numbers[:len(numbers)-1] {
		if done, err := e.removeNumber(r, n, last); err != nil || !done {
			return false, err
		}
	}
	if err := r.check(); err != nil {
		if errors.Is(err, errReplaced) || errors.Is(err, errRemoved) {
			err = nil
		}
		return false, err
	}
	e.step("marked")
	if err := r.dir.remove(strconv.FormatUint(r.number, 10)); err != nil {
		return false, err
	}
	e.step("removed")
	if err := e.lines.rmdir(r.file); err != nil && !inUse(err) && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// mark stores that the record is empty and may be gone: whoever gets its lock
// later looks whether it is still linked. It also gives the record a state of
// its own, so that the numbers below mean nothing any more.
func (e *Engine) mark(r *record, last uint64) error {
	_, seq, _, err := r.load(true)
	if err != nil {
		return err
	}
	s := state{swept: true, boot: e.boot, touched: e.clock(), name: r.state.name}
	s.line.Last = last
	r.out = appendState(append(r.out[:0], blankHead[:]...), &s)
	seal(r.out, seq+1)
	return e.store(r, seq+1)
}

// removeNumber removes one number below the record.
func (e *Engine) removeNumber(r *record, n uint64, last uint64) (bool, error) {
	low := newRecord(e.lines, "", r.file)
	f, err := r.dir.open(strconv.FormatUint(n, 10))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	defer f.close()
	free, err := f.tryLock()
	if err != nil || !free {
		return false, err
	}
	defer f.unlock()
	low.dir, low.f = r.dir, f
	low.setNumber(n)
	low.state.name = r.state.name
	if err := e.mark(low, last); err != nil {
		return false, err
	}
	e.step("low marked")
	return true, r.dir.remove(strconv.FormatUint(n, 10))
}

// sweepClients removes what dead clients have left, the file last: as long as
// it is there somebody will come for the rest.
func (e *Engine) sweepClients(ctx context.Context) error {
	names, err := e.clients.list()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		client, _, _ := strings.Cut(strings.TrimPrefix(name, bornPrefix), ".")
		if !validClient(client) || seen[client] || client == e.client {
			continue
		}
		seen[client] = true
		if bornPrefix != "" && strings.HasPrefix(name, bornPrefix) {
			e.removeUnborn(name)
		} else if e.isDead(client) {
			e.removeClient(client)
		}
	}
	return e.sweepFresh(ctx, seen)
}

// removeUnborn removes the file of a client that died before it had a name. If
// it is only about to take its lock, it finds its file missing and fails; a
// lock is asked for within microseconds of the file.
func (e *Engine) removeUnborn(name string) {
	f, err := e.clients.open(name)
	if err != nil {
		return
	}
	defer f.close()
	if free, err := f.tryShared(); err == nil && free {
		e.clients.remove(name)
	}
}

// sweepFresh removes directories that dead clients were about to make records
// of.
func (e *Engine) sweepFresh(ctx context.Context, seen map[string]bool) error {
	names, err := e.fresh.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		client, _, _ := strings.Cut(name, ".")
		if client == e.client || !e.isDead(client) {
			continue
		}
		if d, err := e.fresh.sub(name); err == nil {
			d.remove("1")
			d.close()
		}
		e.fresh.rmdir(name)
	}
	return nil
}
