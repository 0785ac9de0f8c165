package queuestore

import (
	"context"
	"errors"
	"slices"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// operation is one operation on one queue, and what came of its last attempt.
type operation struct {
	run func(*Record, *operation) // sets claims, notifications and err; called anew for every attempt

	client   string           // whose Join it is
	join     *engine.Request  // it is a Join
	leaves   []engine.Claim   // every claim in the answer says how a Leave found it
	renews   []engine.Renewal // asks after more clients than a Join does: renewals are the floor
	polls    bool             // asks after everybody: somebody is known to have died
	notifies bool             // tells every holder what it is, known or not

	outcome
	ran bool
	one [1]engine.Claim // where the usual answer stands
}

// joining is a Join and what it asks for: one piece of garbage, not two.
type joining struct {
	operation
	request engine.Request
}

// outcome is what came of one attempt.
type outcome struct {
	claims        []engine.Claim
	notifications []queue.Notification
	await         []death
	err           error // the operation was refused
}

// answers makes room for n claims.
func (op *operation) answers(n int) {
	if op.claims = op.one[:]; n != 1 {
		op.claims = make([]engine.Claim, n)
	}
}

// join, renew and leave are what an operation runs: no closures, which would
// be garbage of each call.
func join(c *Record, op *operation) {
	op.answers(1)
	op.claims[0], op.notifications, op.err = c.Queue.Join(c.Now, c.Micros, op.client, *op.join)
}

func renew(c *Record, op *operation) {
	op.answers(len(op.renews))
	for i, r := range op.renews {
		var notifications []queue.Notification
		op.claims[i], notifications = c.Queue.Renew(c.Now, r)
		op.notifications = append(op.notifications, notifications...)
	}
}

func leave(c *Record, op *operation) {
	op.answers(len(op.leaves))
	for i := range op.leaves {
		var notifications []queue.Notification
		op.claims[i], notifications = c.Queue.Leave(c.Now, c.Name, op.leaves[i].ID)
		op.notifications = append(op.notifications, notifications...)
	}
}

// update applies one operation to one queue. Then, because only then it counts, it
// notifies the clients concerned. A client that dies in between has notified nobody;
// renewals are the fallback.
func (e *Engine) update(ctx context.Context, name string, op *operation) ([]engine.Claim, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.leave()
	err := e.store.Change(ctx, name, func(c *Record) error { return e.attempt(c, op) })
	if err != nil {
		return nil, err
	}
	for i := range op.notifications {
		e.send(&op.notifications[i])
	}
	for _, d := range op.await {
		e.lives.Await(d.client, name, d.until)
	}
	if e.poll > 0 {
		e.advise(op.claims)
	}
	return op.claims, op.err
}

// attempt is one call of a change. What it returns is nil if the record is to be
// stored, also for an operation that was refused after others have left.
func (e *Engine) attempt(c *Record, op *operation) error {
	var before *outcome // of an attempt that may have been stored
	if c.Again && op.ran {
		o := op.outcome
		o.claims = slices.Clone(o.claims)
		before = &o
	}
	op.ran = true
	died := e.apply(c, op)
	if before != nil {
		op.mend(c, before)
	}
	if op.err != nil && len(op.notifications) == 0 && !died {
		return op.err
	}
	return nil
}

// mend corrects an answer by what came of the attempt before, which may have
// been stored but notified nobody: its notifications are sent if they are true, an
// Revoke that finds nothing any more may have ended the claim itself, and a
// Leave says what that attempt found.
func (op *operation) mend(c *Record, before *outcome) {
	for _, n := range before.notifications {
		same := func(id engine.ID) bool { return id == n.Claim.ID }
		if slices.ContainsFunc(op.notifications, func(n queue.Notification) bool { return same(n.Claim.ID) }) ||
			slices.ContainsFunc(op.claims, func(c engine.Claim) bool { return same(c.ID) }) {
			continue
		}
		i := slices.IndexFunc(c.Queue.Places, func(p queue.Place) bool { return same(p.ID) })
		if n.Claim.State == engine.Gone || i >= 0 && c.Queue.Places[i].Held && !c.Queue.Places[i].Revoked {
			op.notifications = append(op.notifications, n)
		}
	}
	if errors.Is(op.err, engine.ErrNoClaim) && before.err == nil {
		op.err = nil
	}
	if op.leaves == nil {
		return
	}
	for i := range op.claims {
		if c, b := &op.claims[i], &before.claims[i]; c.State == engine.Gone && !c.Revoked {
			*c = *b
		}
	}
}

// advise says when to poll if the store delivers no notifications.
func (e *Engine) advise(cs []engine.Claim) {
	for i := range cs {
		if c := &cs[i]; c.State == engine.Waiting {
			most := pollOthers * e.poll
			if c.PollAfter > 0 { // the first waiter
				most = min(e.poll, c.PollAfter)
			}
			c.PollAfter = most
		}
	}
}
