package linestore

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// operation is one operation on one line. run is called again, on the line as
// it then is, whenever an attempt turned out not to count; it therefore only
// assigns to what it is given.
type operation struct {
	run func(*Cell, *outcome)

	join   *engine.Request // it is a Join
	leaves bool            // every claim in the answer says how a Leave found it
	renews bool            // asks after more clients than a Join does: renewals are the floor
	looks  bool            // asks after everybody: somebody is known to have died
	tells  bool            // tells every holder what it is, known or not
}

// outcome is what came of one attempt.
type outcome struct {
	claims []engine.Claim
	notes  []line.Note
	await  []death
	err    error // the operation was refused
	now    time.Duration
	ran    bool
}

func isRefused(err error) bool { return errors.Is(err, engine.ErrRefused) }

// update is one operation of a caller: change, unless the engine is closed.
func (e *Engine) update(ctx context.Context, name string, op *operation) ([]engine.Claim, error) {
	if err := e.enter(ctx); err != nil {
		return nil, err
	}
	defer e.leave()
	return e.change(ctx, name, op)
}

// change applies one operation to one line and then, because only then it
// counts, tells those concerned. Whoever dies in between has told nobody;
// renewals are the floor.
func (e *Engine) change(ctx context.Context, name string, op *operation) ([]engine.Claim, error) {
	var out outcome
	err := e.store.Change(ctx, name, func(c *Cell) error {
		before := out
		out = outcome{now: c.Now, ran: true}
		if c.Again && before.ran {
			op.tells = true // what it told, if it counts, was never sent
		}
		died := e.apply(c, op, &out)
		if c.Again && before.ran {
			mend(&out, &before, op)
		}
		if out.err != nil && len(out.notes) == 0 && !died {
			return out.err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range out.notes {
		e.send(&out.notes[i])
	}
	for _, d := range out.await {
		e.lives.Await(d.client, name, d.until)
	}
	if e.poll > 0 {
		e.advise(out.claims)
	}
	e.mine.learn(out.claims, out.now, op.leaves)
	return out.claims, out.err
}

// mend corrects the answer of an operation that an attempt before may already
// have made: an Evict or a Leave that now finds nothing. Such a Leave says what
// that attempt found.
func mend(out, before *outcome, op *operation) {
	if errors.Is(out.err, engine.ErrNoClaim) && before.err == nil {
		out.err = nil
		for _, n := range before.notes {
			if n.Claim.State == engine.Gone { // true, whoever ended it
				out.notes = append(out.notes, n)
			}
		}
	}
	if !op.leaves {
		return
	}
	for i := range out.claims {
		if c, b := &out.claims[i], &before.claims[i]; c.State == engine.Gone && !c.Evicted {
			*c = *b
		}
	}
}

// advise says when to look again where nobody is told anything.
func (e *Engine) advise(cs []engine.Claim) {
	for i := range cs {
		if c := &cs[i]; c.State == engine.Waiting {
			most := pollOthers * e.poll
			if c.Look > 0 { // the first waiter
				most = min(e.poll, c.Look)
			}
			c.Look = most
		}
	}
}
