package torture

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/torture/history"
)

// lockNames does what programs do with locks, mixed, until ctx ends.
func (m *member) lockNames(ctx context.Context, rng *rand.Rand) {
	for ctx.Err() == nil {
		n := m.job.Names[rng.IntN(len(m.job.Names))]
		choice := rng.IntN(20)
		if m.others != nil && (choice == 0 || choice == 3) {
			choice = 19 // their locks are neither revoked nor locked once more by who has them
		}
		switch choice {
		case 0:
			m.revoke(ctx, n.Name, rng)
		case 1, 2:
			m.nest(ctx, rng)
		case 3:
			m.reenter(ctx, n, rng)
		case 4:
			m.handOver(ctx, n, rng)
		case 5, 6:
			m.cancelled(ctx, n, rng)
		case 7, 8, 9, 10:
			w := m.want(n, rng)
			w.what = history.Try
			m.holdOne(ctx, w, rng)
		default:
			m.holdOne(ctx, m.want(n, rng), rng)
		}
		sleep(ctx, rng, m.job.TTL/10)
	}
}

// want is what a member asks for.
type want struct {
	what           string // history.Lock or history.Try
	name           string
	permits, limit int32
	under          *held // re-entrant in it
	detached       bool
}

// want is a random way to ask for a name.
func (m *member) want(n name, rng *rand.Rand) want {
	w := want{what: history.Lock, name: n.Name, permits: n.Limit, limit: n.Limit}
	switch {
	case n.Limit != engine.Max:
		w.permits = 1 + rng.Int32N(n.Limit)
	case n.Share && rng.IntN(3) == 0:
		w.permits = 1
	}
	return w
}

// length is a random time to hold: none, below half a TTL, below one, or below three.
func (m *member) length(rng *rand.Rand) time.Duration {
	ttl := m.job.TTL
	switch n := rng.IntN(20); {
	case n < 8:
		return 0
	case n < 16:
		return time.Duration(rng.Int64N(int64(ttl / 2)))
	case n < 19:
		return time.Duration(rng.Int64N(int64(ttl)))
	}
	return time.Duration(rng.Int64N(int64(3 * ttl)))
}

// acquire asks for a name, and returns nil if it does not get it.
func (m *member) acquire(ctx context.Context, w want) *held {
	call := history.Event{What: w.what, Name: w.name, Permits: w.permits, Limit: w.limit}
	if w.under != nil {
		call.Under = w.under.op
	}
	op := m.begin(call)
	began := time.Now()
	l, err := m.obtain(ctx, w, op)
	e := history.Event{Kind: history.Answer, Op: op, Result: resultOf(ctx, w, err), Waited: time.Since(began)}
	if err == nil {
		e.Token = uint64(l.Token())
	} else if e.Result != history.Taken {
		e.Error = err.Error()
	}
	m.say(said{Event: &e})
	m.answered(op)
	if err != nil {
		return nil
	}
	return m.began(l, op)
}

// obtain makes the call. Its number is the label of the claim.
func (m *member) obtain(ctx context.Context, w want, op int64) (lease, error) {
	if m.others != nil {
		return m.obtainOther(ctx, w)
	}
	locks := m.locks.With(leasehold.LockOptions{Label: strconv.FormatInt(op, 10), Detached: w.detached, Reentrant: w.under != nil})
	try := w.what == history.Try
	switch mode := engine.ModeOf(w.permits, w.limit); {
	case w.limit != engine.Max && try:
		return locks.TryAcquire(ctx, w.name, w.permits, w.limit)
	case w.limit != engine.Max:
		return locks.Acquire(ctx, w.name, w.permits, w.limit)
	case mode == engine.Shared && try:
		return locks.TryRLock(ctx, w.name)
	case mode == engine.Shared:
		return locks.RLock(ctx, w.name)
	case try:
		return locks.TryLock(ctx, w.name)
	}
	return locks.Lock(ctx, w.name)
}

// resultOf is what a call came to.
func resultOf(ctx context.Context, w want, err error) string {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, leasehold.ErrUnavailable):
		return history.Failed
	case errors.Is(err, leasehold.ErrDeadlock):
		return history.Victim
	case errors.Is(err, leasehold.ErrHeld) && w.what == history.Try:
		return history.Taken
	case errors.Is(err, leasehold.ErrHeld), errors.Is(err, leasehold.ErrRevoked):
		return history.Gave
	case errors.Is(err, engine.ErrRefused), errors.Is(err, errors.ErrUnsupported), errors.Is(err, leasehold.ErrReentry):
		return history.Refused
	case ctx.Err() != nil:
		return history.Gave
	}
	return history.Failed
}

func (m *member) holdOne(ctx context.Context, w want, rng *rand.Rand) {
	if h := m.acquire(ctx, w); h != nil {
		m.use(ctx, h, m.length(rng), rng)
		m.unlock(h)
	}
}

// errCancelled is the cause of a context that a member has cancelled.
var errCancelled = errors.New("the client gave up")

// cancelled gives up after less than a TTL.
func (m *member) cancelled(ctx context.Context, n name, rng *rand.Rand) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	after := time.AfterFunc(time.Duration(rng.Int64N(int64(m.job.TTL))), func() { cancel(errCancelled) })
	defer after.Stop()
	if h := m.acquire(ctx, m.want(n, rng)); h != nil {
		after.Stop()
		m.use(ctx, h, m.length(rng)/4, rng)
		m.unlock(h)
	}
}

// nest locks two or three names, each under the one before it. All members lock in the
// order of the names, so that nobody waits in a cycle.
func (m *member) nest(ctx context.Context, rng *rand.Rand) {
	n := min(2+rng.IntN(2), len(m.job.Names))
	at := rng.Perm(len(m.job.Names))[:n]
	slices.Sort(at)
	var all []*held
	under := ctx
	for _, i := range at {
		h := m.acquire(under, m.want(m.job.Names[i], rng))
		if h == nil {
			break
		}
		all = append(all, h)
		bound, cancel := h.Bind(under)
		defer cancel()
		under = bound
		m.use(under, h, m.length(rng)/8, rng)
	}
	for _, h := range slices.Backward(all) {
		m.mark(h) // it was valid while others were waited for, too
		m.unlock(h)
	}
}

// reenter locks a name that it holds.
func (m *member) reenter(ctx context.Context, n name, rng *rand.Rand) {
	w := m.want(n, rng)
	if w.limit != engine.Max {
		w.permits = 1 // the second call takes further permits, which must fit
	}
	outer := m.acquire(ctx, w)
	if outer == nil {
		return
	}
	bound, cancel := outer.Bind(ctx)
	defer cancel()
	if w.limit == engine.Max {
		w.under = outer
		if inner := m.acquire(bound, w); inner != nil {
			m.use(bound, inner, m.length(rng)/4, rng)
			m.unlock(inner)
		}
	}
	m.use(ctx, outer, m.length(rng)/4, rng)
	m.unlock(outer)
}

// handOver detaches a lease, which the witness gives to another member.
func (m *member) handOver(ctx context.Context, n name, rng *rand.Rand) {
	w := m.want(n, rng)
	w.detached = m.job.Detach
	h := m.acquire(ctx, w)
	if h == nil {
		return
	}
	m.use(ctx, h, m.length(rng)/4, rng)
	if w.detached {
		m.detach(h)
		return
	}
	m.unlock(h)
}

// revoke ends a claim of whoever holds the name, one time in four at once.
func (m *member) revoke(ctx context.Context, name string, rng *rand.Rand) {
	look, cancel := context.WithTimeout(ctx, m.job.TTL)
	defer cancel()
	q, err := m.locks.Queue(look, name)
	if err != nil || len(q.Claims) == 0 || q.Claims[0].State != engine.Held {
		return
	}
	ticket, now := q.Claims[0].Ticket, rng.IntN(4) == 0
	op := m.begin(history.Event{What: history.Revoke, Name: name, Now: now})
	if now {
		err = m.locks.RevokeNow(look, name, ticket)
	} else {
		err = m.locks.Revoke(look, name, ticket)
	}
	e := history.Event{Kind: history.Answer, Op: op, Result: history.OK}
	switch {
	case err == nil:
	case errors.Is(err, engine.ErrNoClaim):
		e.Result = history.Gone
	case errors.Is(err, errors.ErrUnsupported):
		e.Result = history.Refused
	default:
		e.Result, e.Error = history.Failed, err.Error()
	}
	m.say(said{Event: &e})
}
