package answers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
	"leasehold/torture/history"
)

// client makes one call at a time.
type client struct {
	r     *recorder
	rng   *rand.Rand
	eng   *checked.Engine
	label string

	made   int
	claims []*claim // that may exist
}

// claim is what a client has asked for.
type claim struct {
	alias   string // its ID is a secret
	r       engine.Request
	older   *claim // that it replaces
	known   bool   // an answer has said that it is there
	leaving bool   // a Leave was sent: nothing else may follow
}

const atOnce = 2 // claims of one client

// one makes a random call.
func (c *client) one(ctx context.Context, round int) {
	if c.rng.IntN(10) == 0 {
		time.Sleep(time.Duration(c.rng.IntN(5)) * time.Millisecond)
	}
	if len(c.claims) == 0 || len(c.claims) < atOnce && c.rng.IntN(3) == 0 {
		x := c.request(round)
		c.claims = append(c.claims, x)
		c.join(ctx, x)
		return
	}
	x := c.claims[c.rng.IntN(len(c.claims))]
	switch n := c.rng.IntN(20); {
	case x.leaving:
		c.leave(ctx, x)
	case !x.known && n < 12, n == 0 && c.r.declares.Order == engine.FIFO:
		c.join(ctx, x) // once more; of an engine without order nobody repeats the Join of a claim that holds
	case n < 9:
		c.renew(ctx, x)
	case n == 9:
		c.revoke(ctx, x)
	case n == 10 && x.known:
		c.replace(ctx, x)
	case n == 11 && c.r.declares.CrashRelease != engine.CrashSession && c.rng.IntN(8) == 0:
		c.forget(x) // its TTL ends it
	default:
		c.leave(ctx, x)
	}
}

func (c *client) alias() string {
	c.made++
	return fmt.Sprintf("%s-%d", c.label, c.made)
}

// request is a new claim on one of two names. One of them is a semaphore, if the engine has
// those.
func (c *client) request(round int) *claim {
	ttl, modes := c.r.ttl(), c.r.declares.Modes
	q := engine.Request{
		Name: fmt.Sprintf("exclusive-%d", round), ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max,
		WaitTTL: ttl, TTL: ttl, NoWait: c.rng.IntN(4) == 0,
	}
	if c.r.declares.CrashRelease != engine.CrashSession { // where few TTLs may be in use
		q.WaitTTL += time.Duration(c.rng.IntN(300)) * time.Millisecond
	}
	switch {
	case c.rng.IntN(2) == 0 && modes&engine.Permits != 0:
		q.Name, q.Limit = fmt.Sprintf("permits-%d", round), 3
		// Refused, unless the name is free. On ZooKeeper two of different limits that come at
		// once are both refused, and one of them can lose the claim that it would replace.
		if c.r.declares.CrashRelease != engine.CrashSession && c.rng.IntN(20) == 0 {
			q.Limit = 4
		}
		q.Permits = 1 + c.rng.Int32N(q.Limit)
	case modes&engine.Shared != 0 && c.rng.IntN(2) == 0:
		q.Permits = 1
	}
	return &claim{alias: c.alias(), r: q}
}

// begin writes a call down, and returns a context for it: some calls are cancelled, so that
// it is not known whether they had an effect.
func (c *client) begin(ctx context.Context, x *claim, e history.Event) (_ context.Context, end func(), op int64) {
	e.Client, e.Name, e.Permits, e.Limit = c.label, x.r.Name, x.r.Permits, x.r.Limit
	e.Engine.Claim = x.alias
	bound := callBound
	if c.rng.IntN(150) == 0 {
		bound = time.Duration(c.rng.IntN(2000)) * time.Microsecond
	}
	op = c.r.call(e)
	ctx, end = context.WithTimeout(ctx, bound)
	return ctx, end, op
}

// answered writes the answer of a call down, and reports whether it was one.
func (c *client) answered(op int64, x *claim, got engine.Claim, err error) bool {
	e := history.Event{Kind: history.Answer, Client: c.label, Op: op, Result: history.OK}
	switch {
	case errors.Is(err, engine.ErrNoClaim):
		e.Result = history.Gone
	case errors.Is(err, engine.ErrRefused), errors.Is(err, errors.ErrUnsupported):
		e.Result, e.Error = history.Refused, err.Error()
	case err != nil:
		e.Result, e.Error = history.Failed, err.Error()
	case got.State != engine.Unknown: // else it is of a Revoke
		e.Engine = &history.EngineCall{Claim: x.alias, State: got.State.String(), Ticket: got.Ticket, Granted: got.TTL, Revoked: got.Revoked}
	}
	c.r.add(e)
	x.leaving = x.leaving || got.Revoked // it has its room until then, and nothing else may follow
	if got.Ticket != 0 {
		c.r.gave(x.r.Name, got.Ticket)
	}
	return e.Result != history.Failed
}

func (c *client) forget(x *claim) {
	c.claims = slices.DeleteFunc(c.claims, func(o *claim) bool { return o == x })
}

func (c *client) join(ctx context.Context, x *claim) {
	call := &history.EngineCall{Method: "join", WaitTTL: x.r.WaitTTL, TTL: x.r.TTL, NoWait: x.r.NoWait}
	if x.older != nil {
		call.Replaces = x.older.alias
	}
	ctx, end, op := c.begin(ctx, x, history.Event{Engine: call})
	defer end()
	got, err := c.eng.Join(ctx, x.r)
	answered := c.answered(op, x, got, err)
	switch {
	case answered && err != nil: // refused: what it would have replaced is still there
		c.forget(x)
		return
	case answered && got.State == engine.Gone && !got.Revoked:
		c.forget(x)
	case answered:
		x.known = got.State == engine.Held || c.r.declares.Order == engine.FIFO
	}
	if answered && x.older != nil {
		c.forget(x.older)
		x.older, x.r.Replaces = nil, engine.ID{}
	}
}

// replace asks anew in place of a claim.
func (c *client) replace(ctx context.Context, older *claim) {
	x := &claim{alias: c.alias(), r: older.r, older: older}
	x.r.ID, x.r.Replaces, x.r.NoWait = engine.NewID(), older.r.ID, false
	older.leaving = true
	c.claims = append(c.claims, x)
	c.join(ctx, x)
}

func (c *client) renew(ctx context.Context, x *claim) {
	ctx, end, op := c.begin(ctx, x, history.Event{Engine: &history.EngineCall{Method: "renew", TTL: x.r.TTL}})
	defer end()
	got, err := only(c.eng.Renew(ctx, []engine.Renewal{{Name: x.r.Name, ID: x.r.ID, Want: x.r.TTL}}))
	if c.answered(op, x, got, err) && err == nil && got.State == engine.Gone && !got.Revoked {
		c.forget(x)
	}
}

func (c *client) leave(ctx context.Context, x *claim) {
	x.leaving = true
	ctx, end, op := c.begin(ctx, x, history.Event{Engine: &history.EngineCall{Method: "leave"}})
	defer end()
	got, err := only(c.eng.Leave(ctx, []engine.Claim{{Name: x.r.Name, ID: x.r.ID}}))
	got.Ticket = 0
	if c.answered(op, x, got, err) {
		c.forget(x)
	}
}

func (c *client) leaveAll(ctx context.Context) {
	for _, x := range slices.Clone(c.claims) {
		c.leave(ctx, x)
	}
}

// revoke ends the claim of whoever came last to the name.
func (c *client) revoke(ctx context.Context, x *claim) {
	ticket, now := c.r.ticketOf(x.r.Name), c.rng.IntN(2) == 0
	if ticket == 0 {
		c.renew(ctx, x)
		return
	}
	ctx, end, op := c.begin(ctx, x, history.Event{Now: now, Engine: &history.EngineCall{Method: "revoke", Ticket: ticket}})
	defer end()
	err := c.eng.Revoke(ctx, x.r.Name, ticket, now)
	c.answered(op, x, engine.Claim{}, err)
}

// only is the answer of a batch of one.
func only(all []engine.Claim, err error) (engine.Claim, error) {
	switch {
	case len(all) > 0:
		return all[0], nil
	case err == nil:
		err = errors.New("the answer does not have the claim")
	}
	return engine.Claim{}, err
}
