// Package sqllock is the common part of engines whose queues are rows of a database,
// changed by the database's own procedures. It splits requests into calls of a [Database],
// checks their answers, and reads queues for inspection.
//
// It promises that calls which are not renewals leave connections to renewals, and that
// bad rows of one name cost no other name. It knows no driver and no SQL. Atomicity,
// order, expiry and notifications are the Database's.
package sqllock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/internal/coalesce"
)

// Database makes the calls of one client. Each is one round trip and, unless it only
// reads, one transaction. An error means that nothing was learned; any other result beside
// it means nothing.
type Database interface {
	Join(ctx context.Context, r *engine.Request) (Joined, error)

	// Batch renews up to [Chunk] claims, or leaves them if Want is 0, and answers for
	// all of them in any order. Their names stay locked until its commit.
	Batch(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error)

	// Revoke reports whether there was a claim with that ticket.
	Revoke(ctx context.Context, name string, ticket uint64, now bool) (bool, error)

	// Queue reads one queue.
	Queue(ctx context.Context, name string) (Queues, error)

	// Queues reads some queues of names after one and from another to before a third,
	// which is nil if there is no such end, in the order of their names. None: there
	// are no more.
	Queues(ctx context.Context, after, from, end []byte) (Queues, error)
}

// Joined is what a Join is answered with.
type Joined struct {
	Refusal Refusal
	Have    int32 // the queue's limit, or how many are in it: see Refusal
	Claim   engine.Claim
}

// Refusal is why a Join was refused, or 0.
type Refusal int

const (
	OtherLimit  Refusal = 1 + iota // Have is the queue's
	QueueFull                      // Have are in it
	TicketRange                    // the next ticket would be above engine.MaxTicket
)

// Engine is one client of a database. It lacks Watch and Close of an [engine.Engine].
type Engine struct {
	db         Database
	claims     *Claims
	capacity   capacity // for calls that are not renewals
	packet     int      // see New
	guarantees engine.Guarantees
	group      *coalesce.Group[Call, result] // nil: calls share nothing
}

// New is an engine over a database that has so many connections, and takes so many bytes
// in a statement and in an answer; 0: any number. It notes in claims, which are those of the
// database's [Pool], what may have to be renewed. Calls of many callers share statements if
// the database is a [Sharer].
func New(db Database, claims *Claims, connections, packet int, g engine.Guarantees) *Engine {
	e := &Engine{db: db, claims: claims, capacity: capacityOf(connections), packet: packet, guarantees: g}
	if s, able := db.(Sharer); able {
		e.share(s)
	}
	return e
}

// Guarantees are what queues in a database promise. failover: another server may answer
// one day, which may not have every commit. forgets: a crash may lose the last commits.
func Guarantees(failover, forgets bool) engine.Guarantees {
	g := engine.Guarantees{
		Order:        engine.FIFO,
		Modes:        engine.Exclusive | engine.Shared | engine.Permits,
		Fencing:      engine.FencingAlways,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashTTL,
		Detach:       true,
		SeesWaiters:  true,
	}
	if failover {
		g.Failover = engine.FailoverMayDouble
	}
	if failover || forgets {
		g.Fencing = engine.FencingMemory
	}
	return g
}

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees { return e.guarantees }

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	e.claims.keep(r.ID, always)
	c, err := e.call(ctx, Call{Request: &r})
	if err != nil { // nobody renews what a Join may have made unanswered
		e.claims.drop(r.ID)
		return c, err
	}
	e.note(&c)
	return c, nil
}

// note takes in an answer.
func (e *Engine) note(c *engine.Claim) {
	if c.State == engine.Gone {
		e.claims.drop(c.ID)
		return
	}
	e.claims.keep(c.ID, c.TTL)
}

func (e *Engine) join(ctx context.Context, r *engine.Request) (engine.Claim, error) {
	got, err := e.db.Join(ctx, r)
	if err != nil {
		return engine.Claim{}, err
	}
	switch got.Refusal {
	case 0:
	case OtherLimit:
		return engine.Claim{}, &engine.LimitError{Name: r.Name, Have: got.Have, Want: r.Limit}
	case QueueFull:
		return engine.Claim{}, engine.Refuse("the queue has %d claims already, the most: let fewer callers wait for one name", got.Have)
	default:
		return engine.Claim{}, engine.Refuse("the next ticket would be above %d: the clock of this server is wrong; set it", uint64(engine.MaxTicket))
	}
	c := got.Claim
	if err := sound(&c); err != nil {
		return engine.Claim{}, err
	}
	if c.State == engine.Gone && !c.Revoked {
		c.Permits, c.Limit = r.Permits, r.Limit
	}
	return c, nil
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	out, err := e.batch(ctx, rs)
	for i := range out {
		e.note(&out[i]) // also of a claim whose Leave has begun meanwhile: for its TTL
	}
	return out, err
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	for i := range cs {
		e.claims.drop(cs[i].ID)
	}
	if len(cs) == 1 {
		c, err := e.call(ctx, Call{Request: &engine.Request{Name: cs[0].Name, ID: cs[0].ID}, Leave: true})
		if err != nil || c.State == engine.Unknown { // which no answer says
			return nil, err
		}
		return []engine.Claim{c}, nil
	}
	if err := e.capacity.enter(ctx); err != nil {
		return nil, err
	}
	defer e.capacity.leave()
	rs := make([]engine.Renewal, len(cs))
	for i := range cs {
		rs[i] = engine.Renewal{Name: cs[i].Name, ID: cs[i].ID}
	}
	return e.batch(ctx, rs)
}

// Chunk is how many claims one call renews or leaves at most. Where somebody else keeps the row of
// one name locked, the whole call waits, and the calls after it for a part of their time: see part.
const Chunk = 100

// ErrRows is the error of a [Database] that could not read the rows of a name.
var ErrRows = errors.New("rows of this name have values that leasehold does not write: check its queue, and revoke or delete the wrong ones")

// sound refuses an answer that says what cannot be.
func sound(c *engine.Claim) error {
	switch {
	case c.State == engine.Gone:
		return nil
	case c.State != engine.Held && c.State != engine.Waiting, c.Ticket > engine.MaxTicket, c.Permits < 1, c.Limit < c.Permits, c.TTL < 0, c.TTL > engine.MaxTTL:
		return fmt.Errorf("%q: %w", c.Name, ErrRows)
	}
	return nil
}

// batch answers for those claims of which it learned something, and the first error. Its calls
// come one after the other. One that waits for a row must not cost the claims of the others their
// leases: their answers are handed over with the last.
func (e *Engine) batch(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	out := make([]engine.Claim, 0, len(rs))
	var first error
	calls := slices.Collect(e.calls(rs))
	bound := part(ctx, len(calls))
	for i, some := range calls {
		if i == len(calls)-1 && len(out) == 0 {
			bound = 0 // nobody waits for the last
		}
		cs, err := e.bounded(ctx, bound, some)
		switch {
		case errors.Is(err, ErrRows) && len(some) > 1: // the rows of one name must not cost others their leases
			for i := range some {
				cs, err := e.bounded(ctx, bound, some[i:i+1])
				out, first = learned(out, first, cs, err)
			}
		default:
			out, first = learned(out, first, cs, err)
		}
	}
	return out, first
}

const leastPart, mostParts = time.Second, 6

// part is how long one of n calls may take that others wait for; 0: as long as ctx. A renewal
// begins when two thirds of a lease are left. A server that is evenly slow, and answers n calls in
// two thirds of ctx, is not cut off. A Leave that was cut off is tried again, and costs no lease.
func part(ctx context.Context, n int) time.Duration {
	until, bounded := ctx.Deadline()
	if n == 1 || !bounded {
		return 0
	}
	return max(leastPart, time.Until(until)/time.Duration(min(n+1, mostParts)))
}

// bounded makes one call, which is cut off after bound; 0: with ctx.
func (e *Engine) bounded(ctx context.Context, bound time.Duration, some []engine.Renewal) ([]engine.Claim, error) {
	if bound == 0 {
		return e.db.Batch(ctx, some)
	}
	own, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cs, err := e.db.Batch(own, some)
	if err != nil && own.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("no answer in %v to a statement for %d claims, while others waited: somebody keeps the row of a name locked, or the server hangs; look for an open transaction: %w",
			bound.Round(time.Millisecond), len(some), err)
	}
	return cs, err
}

// learned is what is known after a call: those of its answers that can be, and the first
// error.
func learned(out []engine.Claim, first error, cs []engine.Claim, err error) ([]engine.Claim, error) {
	if err == nil {
		for i := range cs {
			if bad := sound(&cs[i]); bad != nil {
				err = bad
			} else {
				out = append(out, cs[i])
			}
		}
	}
	if first == nil {
		first = err
	}
	return out, first
}

// calls are the renewals of each call: up to Chunk, and what fits into one.
func (e *Engine) calls(rs []engine.Renewal) iter.Seq[[]engine.Renewal] {
	return func(yield func([]engine.Renewal) bool) {
		for len(rs) > 0 {
			n, size := 0, 0
			for n < min(len(rs), Chunk) {
				// Each byte of a name and an ID may be two in a statement, and an answer
				// has some eighty.
				if size += max(2*(len(rs[n].Name)+26), 80); n > 0 && e.packet > 0 && size > e.packet {
					break
				}
				n++
			}
			if !yield(rs[:n]) {
				return
			}
			rs = rs[n:]
		}
	}
}
