package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
	"leasehold/torture/history"
)

// raw calls the engine itself, on names of its own, without the client library between.
type raw struct {
	m      *member
	eng    *checked.Engine
	owner  engine.Owner
	made   int
	round  int         // of the names
	claims []*rawClaim // that may exist
	left   *rawClaim   // the last that was given up
}

// rawClaim is a claim that a raw has asked for.
type rawClaim struct {
	alias    string // the ID is a secret
	r        engine.Request
	replaces *rawClaim
	ticket   uint64 // 0: no answer came
	hasty    bool   // its Join is given up almost at once
}

const (
	rawAtOnce = 3 // claims of one client
	rawHaste  = 2 * time.Millisecond
	rawLimit  = 3 // of a semaphore
)

// openRaw opens the engine once more: its sessions are its own.
func (m *member) openRaw(ctx context.Context, open Open) (*raw, error) {
	eng, err := open(ctx, m.job.URL)
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // only shown to people
	return &raw{m: m, eng: checked.New(eng), owner: engine.Owner{Host: host, PID: os.Getpid(), Label: m.job.Client}, round: m.job.Round}, nil
}

func (r *raw) close() error { return r.eng.Close() }

// run makes random calls until ctx ends, and then gives up what it may have.
func (r *raw) run(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil && len(r.m.job.Raw) > 0 {
		r.one(ctx, rng)
		sleep(ctx, rng, r.m.job.Think)
	}
	for _, c := range slices.Clone(r.claims) {
		r.leave(context.WithoutCancel(ctx), c)
	}
}

func (r *raw) one(ctx context.Context, rng *rand.Rand) {
	if len(r.claims) == 0 || len(r.claims) < rawAtOnce && rng.IntN(3) == 0 {
		c := r.request(rng)
		r.claims = append(r.claims, c)
		r.join(ctx, c)
		return
	}
	c := r.claims[rng.IntN(len(r.claims))]
	queues := r.eng.Guarantees().Order == engine.FIFO
	switch n := rng.IntN(8); {
	case c.ticket == 0 && n < 4, n == 1 && queues:
		r.join(ctx, c) // again: its answer was lost, or it extends the claim, where a queue has it
	case n == 0 && r.left != nil && rng.IntN(4) == 0:
		r.revoke(ctx, r.left, rng.IntN(2) == 0) // which must end nobody else's
	case c.ticket != 0 && n == 0:
		r.revoke(ctx, c, rng.IntN(2) == 0)
	case n < 5 && (c.ticket != 0 || queues): // without order, Renew is for held claims only
		r.renew(ctx, c, rng)
	default:
		r.leave(ctx, c)
	}
}

// request is a new claim on a random name. Every other name is a semaphore, if the engine
// has those. One request in twelve disagrees about its limit, and is refused while others
// are there.
func (r *raw) request(rng *rand.Rand) *rawClaim {
	r.made++
	grants := r.eng.Guarantees()
	modes := grants.Modes
	at := rng.IntN(len(r.m.job.Raw))
	q := engine.Request{
		Name: inRound(r.m.job.Raw[at], r.round), ID: engine.NewID(), Owner: r.owner, Permits: engine.Max, Limit: engine.Max,
		WaitTTL: r.m.job.TTL, TTL: r.m.job.TTL, NoWait: rng.IntN(3) == 0,
	}
	q.Owner.Since = time.Now()
	switch {
	case at%2 == 1 && modes&engine.Permits != 0:
		q.Limit = rawLimit
		q.Permits = 1 + rng.Int32N(rawLimit)
		if rng.IntN(12) == 0 {
			q.Limit++
		}
	case modes&engine.Shared != 0 && rng.IntN(2) == 0:
		q.Permits = 1
	case modes&engine.Permits != 0 && rng.IntN(4) == 0:
		q.Permits-- // one other may hold beside it: the sum is the largest that there is
	}
	c := &rawClaim{alias: fmt.Sprintf("%s-%d", r.m.job.Client, r.made), r: q, hasty: rng.IntN(12) == 0}
	if i := slices.IndexFunc(r.claims, func(old *rawClaim) bool { return old.r.Name == q.Name && old.r.Limit == q.Limit }); i >= 0 && !q.NoWait && grants.Order == engine.FIFO {
		c.replaces = r.claims[i]
		c.r.Replaces = c.replaces.r.ID
	}
	return c
}

// inRound is a name in a round. In the next round all clients use others: of a call whose
// answer was lost, it is never known whether it still arrives.
func inRound(base string, round int) string { return fmt.Sprintf("%s.%d", base, round) }

// announce tells the witness of a call. now is of a Revoke.
func (r *raw) announce(c *rawClaim, call history.EngineCall, now bool) (op int64) {
	call.Claim = c.alias
	op, told := r.m.begins(history.Event{
		What: history.Raw, Name: c.r.Name, Permits: c.r.Permits, Limit: c.r.Limit, Engine: &call, Now: now,
	})
	r.round = told.Round
	return op
}

// answered tells the witness what a call came to. got is nil if nothing was learned.
func (r *raw) answered(op int64, c *rawClaim, method string, got *engine.Claim, err error) {
	e := history.Event{Kind: history.Answer, Op: op, Result: history.OK, Engine: &history.EngineCall{Method: method, Claim: c.alias}}
	switch {
	case errors.Is(err, engine.ErrNoClaim):
		e.Result = history.Gone
	case errors.Is(err, engine.ErrRefused), errors.Is(err, errors.ErrUnsupported):
		e.Result, e.Error = history.Refused, err.Error()
		if limit, ok := errors.AsType[*engine.LimitError](err); ok {
			e.Limit = limit.Have
		}
	case err != nil:
		e.Result, e.Error = history.Failed, err.Error()
	case got != nil:
		e.Engine.State, e.Engine.Ticket, e.Engine.Granted, e.Engine.Revoked = got.State.String(), got.Ticket, got.TTL, got.Revoked
	}
	r.m.say(said{Event: &e})
	// Who was revoked has its room until it leaves.
	if e.Result == history.Refused && method == "join" || got != nil && err == nil && got.State == engine.Gone && !got.Revoked {
		r.forget(c)
	}
}

func (r *raw) forget(c *rawClaim) {
	r.claims = slices.DeleteFunc(r.claims, func(other *rawClaim) bool { return other == c })
}

// bounded is ctx for one call: a call that outlives its claim cannot help it.
func (r *raw) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, r.m.job.TTL)
}

func (r *raw) join(ctx context.Context, c *rawClaim) {
	call := history.EngineCall{Method: "join", WaitTTL: c.r.WaitTTL, TTL: c.r.TTL, NoWait: c.r.NoWait}
	if c.replaces != nil {
		call.Replaces = c.replaces.alias
	}
	op := r.announce(c, call, false)
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	if c.hasty {
		c.hasty = false
		var hasty context.CancelFunc
		ctx, hasty = context.WithTimeout(ctx, rawHaste)
		defer hasty()
	}
	got, err := r.eng.Join(ctx, c.r)
	if err == nil {
		c.ticket = got.Ticket
		if c.replaces != nil {
			r.forget(c.replaces)
		}
	}
	r.answered(op, c, "join", &got, err)
}

// renew asks for a TTL, or for half of one: that must not shorten what the claim has.
func (r *raw) renew(ctx context.Context, c *rawClaim, rng *rand.Rand) {
	want := c.r.TTL
	if rng.IntN(2) == 0 {
		want = max(want/2, engine.MinTTL, r.eng.Guarantees().MinTTL)
	}
	op := r.announce(c, history.EngineCall{Method: "renew", TTL: want}, false)
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	all, err := r.eng.Renew(ctx, []engine.Renewal{{Name: c.r.Name, ID: c.r.ID, Want: want}})
	got, err := only(all, c, err)
	r.answered(op, c, "renew", got, err)
}

func (r *raw) leave(ctx context.Context, c *rawClaim) {
	op := r.announce(c, history.EngineCall{Method: "leave"}, false)
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	all, err := r.eng.Leave(ctx, []engine.Claim{{Name: c.r.Name, ID: c.r.ID}})
	got, err := only(all, c, err)
	r.answered(op, c, "leave", got, err)
	r.forget(c) // it is not renewed any more
	if c.ticket != 0 {
		r.left = c
	}
}

func (r *raw) revoke(ctx context.Context, c *rawClaim, now bool) {
	op := r.announce(c, history.EngineCall{Method: "revoke", Ticket: c.ticket}, now)
	ctx, cancel := r.bounded(ctx)
	defer cancel()
	r.answered(op, c, "revoke", nil, r.eng.Revoke(ctx, c.r.Name, c.ticket, now))
}

// only is the one claim that a batch of one was answered with.
func only(all []engine.Claim, c *rawClaim, err error) (*engine.Claim, error) {
	i := slices.IndexFunc(all, func(got engine.Claim) bool { return got.ID == c.r.ID })
	switch {
	case i >= 0:
		return &all[i], nil
	case err == nil:
		err = errors.New("the answer does not have the claim")
	}
	return nil, err
}
