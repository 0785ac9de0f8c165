package records

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"leasehold/engine/filelock/internal/disk"
)

// maxKept bounds the buffers that a record keeps: a queue that was long once
// should not cost its memory for ever.
const maxKept = 256 << 10

// hold finds the record of a name, or makes one to open.
func (c *Records) hold(name string) *record {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.records[name]
	delete(c.spent, name)
	if r == nil {
		r = newRecord(c.lines, name, fileName(name))
		c.records[name] = r
	}
	r.users++
	return r
}

func (c *Records) unhold(r *record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.users--; r.users == 0 && !r.isOpen {
		delete(c.records, r.name)
	}
}

// begin lets as many calls work at the same time as there are descriptors for,
// each in the turn of its record. From begin to end nobody else touches that;
// outside, if it is open, it may be closed, also while somebody has the turn.
//
// It comes after the turn: of a name whose lock somebody stopped holds, one
// call of this engine waits here, and the rest where they bother nobody.
//
// Renewals have a place of their own. They come one after the other, and each would
// wait behind all that join and leave: a crowd of these would cost this client what
// it holds.
func (c *Records) begin(ctx context.Context, r *record) error {
	places := c.working
	if renews(ctx) {
		places = c.renewing
	}
	select {
	case places <- struct{}{}:
	default:
		select {
		case places <- struct{}{}:
		case <-r.hurry:
			select {
			case places <- struct{}{}:
			case c.renewing <- struct{}{}:
				places = c.renewing
			case <-ctx.Done():
				return ctx.Err()
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.works, r.places = true, places
	if r.isOpen {
		c.idles--
	}
	return nil
}

// end keeps the record open for the next call.
func (c *Records) end(r *record) {
	c.mu.Lock()
	places := r.places
	r.works = false
	if r.isOpen {
		c.idles++
		c.uses++
		r.used, r.last, r.empty = c.uses, r.state.queue.Last, len(r.state.queue.Places) == 0
	}
	c.mu.Unlock()
	<-places
}

type renewal struct{}

// Renewing says of the changes that are made with ctx that they renew claims.
func Renewing(ctx context.Context) context.Context { return context.WithValue(ctx, renewal{}, true) }

func renews(ctx context.Context) bool { return ctx.Value(renewal{}) != nil }

// maxSpent is how many names a client leaves for a sweep, that nobody is in the queue
// of and whose record it has closed. To found a record costs a hundred times
// what it costs to open one, so a few hundred names that are used in turns
// should keep theirs.
const maxSpent = 256

// spent is a name that this client has used and may remove.
type spent struct {
	file string
	last uint64 // its last ticket, when this client closed it
	used uint64 // as of the record
}

// releaseIdle comes before another record is opened. If as many as may be are
// open and idle, it closes the half that was used longest ago; and of the names
// closed so far in which nobody was in the queue, it removes those beyond maxSpent:
// a name that is used once costs nothing soon after, and who makes many pays
// for it, a renewal excepted. An error leaves them to a sweep; it is one that the caller's own work
// meets too.
//
// It comes before the work and not after it, so that the time it takes is not
// the time of a claim that was just granted.
func (c *Records) makeRoom(ctx context.Context) {
	c.spend(c.dropIdle(c.most))
	if renews(ctx) {
		return
	}
	if old := c.takeSpent(maxSpent); len(old) > 0 {
		_ = c.removeSpent(ctx, old)
	}
}

// spend closes records of the caller's own.
func (c *Records) spend(rs []*record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range rs {
		if r.empty && c.records[r.name] == nil {
			c.spent[r.name] = spent{r.file, r.last, r.used}
		}
		r.shut()
	}
}

// takeSpent takes all but so many of the names that may be removed: those that
// were used longest ago.
func (c *Records) takeSpent(most int) (old []spent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spent) <= most {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(c.spent), func(a, b string) int { return cmp.Compare(c.spent[a].used, c.spent[b].used) })
	for _, name := range names[:len(names)-most] {
		old = append(old, c.spent[name])
		delete(c.spent, name)
	}
	return old
}

// removeSpent removes names, unless somebody is in the queue there by now. One rise
// of the high-water mark serves all of them.
func (c *Records) removeSpent(ctx context.Context, names []spent) error {
	if !disk.MovesOpenFiles {
		return nil // see Sweep
	}
	highWater := uint64(0)
	for _, s := range names {
		highWater = max(highWater, s.last)
	}
	if err := c.raiseHighWater(ctx, highWater); err != nil {
		return err
	}
	c.step("floor raised")
	for _, s := range names {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := c.removeRecord(s.file, highWater, 0); err != nil {
			return err
		}
	}
	return nil
}

// closeIdle closes whatever is open and idle, since the process has no
// descriptor left. Nothing is removed, which would need some.
func (c *Records) closeIdle() {
	for _, r := range c.dropIdle(0) {
		r.shut()
	}
	c.shed()
}

// dropIdle takes what is open and idle out of the cache if it is at least so
// many: all but the most recent half of them. The caller has it for itself.
func (c *Records) dropIdle(most int) (old []*record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idles < most {
		return nil
	}
	for _, r := range c.records {
		if !r.works && r.isOpen { // of one that works nothing else may be looked at
			old = append(old, r)
		}
	}
	slices.SortFunc(old, func(a, b *record) int { return cmp.Compare(a.used, b.used) })
	old = old[:len(old)-most/2]
	for i, r := range old {
		old[i] = r.detach()
		if r.users == 0 {
			delete(c.records, r.name)
		}
	}
	c.idles -= len(old)
	return old
}
