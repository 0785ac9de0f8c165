package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// change is one operation on one line. run is called again, on the line as it
// then is, whenever an attempt turned out not to count; it must therefore only
// assign, never add up.
type change struct {
	run    func(now time.Duration, l *line.Line) ([]engine.Claim, []line.Note, error)
	founds bool            // make the record if there is none
	owner  *engine.Request // Join: whose owner stands beside the new claim
	renew  bool            // probe further than a Join does: renewals are the floor
	look   bool            // probe everybody ahead: somebody is known to have died
	tell   bool            // tell every holder what it is, known or not

	leaves bool // every claim in the answer says how a Leave found it
}

// outcome is what counts of a change.
type outcome struct {
	claims []engine.Claim
	notes  []line.Note
	arm    []arm // whose deaths matter to claims that wait here
	err    error // of the operation itself: refused
	ran    bool
}

// update applies one change to one line, sends its notes, and keeps watch over
// the clients that its claims wait for. An error that is not ErrRefused means
// that nothing was learned; the change may still have happened, and every
// change is harmless to repeat by ID.
func (e *Engine) update(ctx context.Context, name string, ch change) ([]engine.Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !e.enter() {
		return nil, engine.ErrClosed
	}
	defer e.leave()
	if err := e.isAlive(); err != nil {
		return nil, e.explain(name, err, ch.founds)
	}
	r := e.hold(name)
	defer e.unhold(r)
	if err := r.take(ctx); err != nil {
		return nil, err
	}
	if err := e.begin(ctx, r); err != nil {
		r.give()
		return nil, err
	}
	if !r.isOpen {
		e.makeRoom(ctx)
	}
	out, err := e.transact(ctx, r, &ch)
	now := r.state.touched
	e.end(r)
	r.give()
	if err != nil {
		return nil, e.explain(name, err, ch.founds && !out.ran)
	}
	e.stayAlive(now)
	e.step("sending")
	e.send(out.notes)
	e.watchFor(name, out.arm)
	if !wakes {
		advise(out.claims)
	}
	return out.claims, out.err
}

// explain says what to do about an error of the file system, for a person. An
// error that only such a person can end is final for a Join that has left
// nothing behind: it is a refusal. Of anything else nothing was learned.
func (e *Engine) explain(name string, err error, join bool) error {
	lasts := true
	switch {
	case errors.Is(err, engine.ErrRefused), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrNotExist):
		err = fmt.Errorf("%s, or a part of it, was removed while in use: begin again, with a new engine: %w", e.path, err)
	case isStranger(err):
		err = fmt.Errorf("%s is in the place of a record and is none: remove it: %w", filepath.Join(e.path, "lines", fileName(name)), err)
	case isReadOnly(err):
		err = fmt.Errorf("cannot write in %s: it must belong to this user and be writable with all that is in it, or use another directory: %w", e.path, err)
	case isFull(err) && e.root.noInodes():
		err = fmt.Errorf("no room for %q: the file system of %s has no inode left (what was there is kept): remove files, or use another directory: %w", name, e.path, err)
	case isFull(err):
		lasts = false
		err = fmt.Errorf("no room for %q in %s (what was there is kept): free some, or use another directory: %w", name, e.path, err)
	case isTooMany(err):
		lasts = false
		err = fmt.Errorf("%q: %w", name, tooMany(err))
	default:
		lasts = false
		err = fmt.Errorf("%q in %s: %w", name, e.path, err)
	}
	if lasts && join {
		return engine.Refuse("filelock: %w", err)
	}
	return fmt.Errorf("filelock: %w", err)
}

// transact runs ch until an attempt counts. The caller has the turn.
func (e *Engine) transact(ctx context.Context, r *record, ch *change) (outcome, error) {
	var before *outcome // of an attempt that did not count, though it may have happened
	shed := false
	for {
		out, err := e.try(ctx, r, ch)
		if err == nil {
			if before != nil {
				mend(&out, before, ch)
			}
			return out, nil
		}
		r.shut()
		switch {
		case errors.Is(err, errReplaced):
			if out.ran {
				before = &out
				ch.tell = true // its notes were never sent
			}
		case errors.Is(err, errRemoved):
		case isTooMany(err) && !shed:
			shed = true
			e.shed()
		case isStranger(err) && !ch.founds:
			return e.onNobody(ch), nil
		default:
			return outcome{ran: out.ran || before != nil}, err
		}
		if err := ctx.Err(); err != nil {
			return outcome{}, err
		}
	}
}

// try is one attempt, with the record open, or opened or founded for it.
func (e *Engine) try(ctx context.Context, r *record, ch *change) (outcome, error) {
	if !r.isOpen {
		err := r.find()
		if errors.Is(err, errNoRecord) && !ch.founds {
			return e.onNobody(ch), nil
		}
		if errors.Is(err, errNoRecord) {
			if err = e.found(r); err == nil {
				err = errReplaced // by the new one
			}
		}
		if err != nil {
			return outcome{}, err
		}
		e.step("opened")
	}
	if err := e.lock(ctx, r); err != nil {
		return outcome{}, err
	}
	e.step("locked")
	out, err := e.attempt(r, ch)
	r.f.unlock()
	e.step("unlocked")
	return out, err
}

// onNobody is a change of a line that has no record, or something else in its
// place: nobody is in it, and
// nothing has to be stored to say so.
func (e *Engine) onNobody(ch *change) outcome {
	claims, _, err := ch.run(e.clock(), &line.Line{})
	return outcome{claims: claims, err: err, ran: true}
}

// mend corrects the answer of a change that an attempt before had already
// made, without learning that it counts: an Evict or a Leave that now finds
// nothing. Such a Leave says what that attempt found.
func mend(out, before *outcome, ch *change) {
	if errors.Is(out.err, engine.ErrNoClaim) && before.err == nil {
		out.err = nil
		for _, n := range before.notes {
			if n.Claim.State == engine.Gone { // true, whoever ended it
				out.notes = append(out.notes, n)
			}
		}
	}
	if !ch.leaves {
		return
	}
	for i := range out.claims {
		c, b := &out.claims[i], &before.claims[i]
		if c.State == engine.Gone && !c.Evicted && b.ID == c.ID {
			*c = *b
		}
	}
}

// attempt is one transaction under the kernel lock: load, apply, store, and
// the look that decides whether it counts.
func (e *Engine) attempt(r *record, ch *change) (outcome, error) {
	payload, seq, known, err := r.load(true)
	if err != nil {
		return outcome{}, err
	}
	fresh, err := r.parse(payload, known, e.boot, e.readFloor)
	if err != nil {
		return outcome{}, err
	}
	if fresh {
		// Perhaps swept: removed before the lock was ours, and then nobody
		// will ever look here again. Before anything is stored: that would hide
		// the mark from the next who has the file open. A sweeper that died, or
		// gave up, leaves it linked; it then serves as if it were new.
		if err := r.checkLinked(0); err != nil {
			return outcome{}, err
		}
	}
	e.step("loaded")
	out, err := e.apply(r, payload, known, ch)
	if err != nil {
		return outcome{}, err
	}
	e.step("applied")
	if fresh || string(r.out[slotHead+touchedSize:]) != payload[touchedSize:] {
		seal(r.out, seq+1)
		if err := e.store(r, seq+1); err != nil {
			return outcome{}, err
		}
		e.step("stored")
	}
	if err := r.check(); err != nil {
		return out, err
	}
	if now := r.state.touched; ch.renew || now-r.looked >= linkedTime {
		if err := r.checkLinked(now); err != nil {
			return out, err
		}
	}
	e.step("checked")
	return out, nil
}

// apply runs the change on the line in r.state and encodes the result into
// r.out. Clients that turn out to be dead leave the line first, which may
// change everything, so that it begins again without them. It ends: every
// round finds at least one more dead client.
func (e *Engine) apply(r *record, payload string, known bool, ch *change) (outcome, error) {
	s := &r.state
	var dead map[string]bool
	for {
		r.before = append(r.before[:0], s.line.Places...) // package line works in place
		out := outcome{ran: true}
		now := e.clock()
		if len(dead) > 0 {
			out.notes = s.line.Depart(now, r.name, func(c string) bool { return dead[c] })
		}
		claims, notes, err := ch.run(now, &s.line)
		out.claims, out.err = claims, err
		out.notes = append(out.notes, notes...)

		if more := e.probe(s, &out, ch, dead); len(more) > 0 {
			if dead == nil {
				dead = map[string]bool{}
			}
			for _, c := range more {
				dead[c] = true
			}
			if _, err := r.parse(payload, known, e.boot, e.readFloor); err != nil {
				return outcome{}, err
			}
			continue
		}

		s.owners = carry(s, r.before, ch.owner)
		e.heed(s, r.before, now, &out, ch, dead)
		s.touched = now
		r.out = append(r.out[:0], blankHead[:]...)
		r.out = appendState(r.out, s)
		return out, nil
	}
}

var blankHead [slotHead]byte

// carry gives every place that is left the owner it had, and a new one the
// owner of its request. Places keep their order, so one walk does.
func carry(s *state, before []line.Place, r *engine.Request) []string {
	after := s.line.Places
	owners := s.owners[:0] // never overtakes what is still to be read
	j := 0
	for i := range after {
		for j < len(before) && before[j].Ticket < after[i].Ticket {
			j++
		}
		switch {
		case j < len(before) && before[j].Ticket == after[i].Ticket:
			owners = append(owners, s.owners[j])
			j++
		case r != nil && after[i].ID == r.ID:
			owner := appendOwner(nil, &r.Owner)
			if len(owner) > maxOwnerSize {
				owner = nil
			}
			owners = append(owners, string(owner))
		default:
			owners = append(owners, "")
		}
	}
	return owners
}

// pollEvery is how often a claim should be looked at where clients cannot wake
// each other: by the first waiter. Nobody else needs to look more than a few
// times a second.
const pollEvery = 10 * time.Millisecond

func advise(cs []engine.Claim) {
	for i := range cs {
		if c := &cs[i]; c.State == engine.Waiting {
			if c.Look == 0 { // somebody waits ahead
				c.Look = 20 * pollEvery
			}
			c.Look = min(c.Look, 20*pollEvery)
		}
	}
}
