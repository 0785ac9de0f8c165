package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/torture/history"
)

// lease is what a member needs of one. A *leasehold.Lease has it.
type lease interface {
	Name() string
	Mode() engine.Modes
	Token() leasehold.Token
	Valid() bool
	Context() context.Context
	Bind(context.Context) (context.Context, context.CancelFunc)
	Unlock() error
	Detach() (leasehold.Handle, error)
}

// held is a lease of a member.
type held struct {
	lease
	op     int64 // the acquisition
	name   string
	shared bool
	writes bool // it is exclusive, so that its holder may change the resources
}

// began is a lease that has begun.
func (m *member) began(l lease, op int64) *held {
	h := &held{lease: l, op: op, name: l.Name(), shared: l.Mode() == engine.Shared, writes: l.Mode() == engine.Exclusive}
	ctx := l.Context()
	context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); errors.Is(cause, leasehold.ErrLost) {
			m.say(said{Event: &history.Event{Kind: history.Lost, Op: op, Error: reason(cause)}})
		}
	})
	return h
}

// reason is why a lease was lost, in as few words as there are.
func reason(err error) string {
	if lost, ok := errors.AsType[*leasehold.LostError](err); ok {
		return lost.Reason.String()
	}
	return err.Error()
}

// mark proves to the witness that the lease is valid at a moment of the witness's clock.
func (m *member) mark(h *held) bool {
	a := m.ask(said{Event: &history.Event{Kind: history.Mark, Op: h.op, Token: uint64(h.Token())}})
	valid := h.Valid()
	m.say(said{Mark: a.Answer, Valid: valid})
	return valid
}

// use works under a lease for about that long, or until it is lost or ctx ends.
func (m *member) use(ctx context.Context, h *held, length time.Duration, rng *rand.Rand) {
	ctx, cancel := h.Bind(ctx)
	defer cancel()
	for end := time.Now().Add(length); m.mark(h); {
		switch {
		case h.writes:
			m.increment(ctx, h, rng)
		case h.shared && m.job.Fencing:
			m.serve(history.Read, history.Fenced, h, 0)
		}
		left := time.Until(end)
		if left <= 0 || ctx.Err() != nil {
			return
		}
		sleep(ctx, rng, min(left, m.job.TTL/10))
	}
}

// increment reads both counters, thinks, and writes them back. It does not look at its
// lease in between: that is where a stopped process goes on without knowing it.
func (m *member) increment(ctx context.Context, h *held, rng *rand.Rand) {
	resources := []string{history.Unfenced}
	if m.job.Fencing {
		resources = append(resources, history.Fenced)
	}
	values := make([]int64, len(resources))
	for i, r := range resources {
		t := m.serve(history.Read, r, h, 0)
		if t.Stale {
			return
		}
		values[i] = t.Value
	}
	sleep(ctx, rng, m.job.TTL/50)
	for i, r := range resources {
		m.serve(history.Write, r, h, values[i]+1)
	}
}

// serve asks the witness, who has the resources.
func (m *member) serve(kind history.Kind, resource string, h *held, value int64) told {
	return m.ask(said{Shared: h.shared, Event: &history.Event{
		Kind: kind, Op: h.op, Name: h.name, Resource: resource, Token: uint64(h.Token()), Value: value,
	}})
}

// unlock ends a lease.
func (m *member) unlock(h *held) {
	op := m.begin(history.Event{What: history.Unlock, Of: h.op, Name: h.name})
	err := h.Unlock()
	e := history.Event{Kind: history.Answer, Op: op, Result: history.OK}
	switch {
	case err == nil:
	case errors.Is(err, leasehold.ErrUnknown):
		e.Error = err.Error() // it was valid to its end; when others hold is not known
	case errors.Is(err, leasehold.ErrLost):
		e.Result, e.Error = history.Gone, reason(err)
	default:
		e.Result, e.Error = history.Failed, err.Error()
	}
	m.say(said{Event: &e})
}

// detach ends a lease here, for another member to adopt.
func (m *member) detach(h *held) {
	op := m.begin(history.Event{What: history.Detach, Of: h.op, Name: h.name})
	handle, err := h.Detach()
	e := history.Event{Kind: history.Answer, Op: op, Result: history.OK}
	switch {
	case err == nil:
	case handle != "": // the engine did not confirm a fresh TTL
		e.Error = err.Error()
	case errors.Is(err, leasehold.ErrLost):
		e.Result, e.Error = history.Gone, reason(err)
	default:
		e.Result, e.Error = history.Failed, err.Error()
	}
	if handle != "" {
		e.Of, e.Name = h.op, h.name // for the offer
	}
	m.say(said{Event: &e, Handle: string(handle)})
}

// adopt goes on with a lease that another member has detached.
func (m *member) adopt(ctx context.Context, a adoption, rng *rand.Rand) {
	sleep(ctx, rng, m.job.TTL/4)
	if ctx.Err() != nil {
		return // its TTL ends it
	}
	op := m.begin(history.Event{What: history.Adopt, Of: a.Of, Name: a.Name})
	l, err := m.locks.Adopt(ctx, leasehold.Handle(a.Handle))
	e := history.Event{Kind: history.Answer, Op: op, Result: history.OK}
	switch {
	case err == nil:
		e.Token = uint64(l.Token())
	case errors.Is(err, leasehold.ErrLost):
		e.Result, e.Error = history.Gone, err.Error()
	default:
		e.Result, e.Error = history.Failed, err.Error()
	}
	m.say(said{Event: &e})
	if err == nil {
		h := m.began(l, op)
		m.use(ctx, h, m.length(rng), rng)
		m.unlock(h)
	}
}
