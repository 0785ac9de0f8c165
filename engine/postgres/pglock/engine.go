package pglock

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
	"leasehold/engine/internal/room"
)

// Engine is one client of a database.
type Engine struct {
	pool       *pgxpool.Pool
	own        bool      // the pool is ours to close
	room       room.Room // for calls that are not renewals
	opts       Options
	calls      calls
	mode       pgx.QueryExecMode // 0: the pool's
	poll       time.Duration     // 0: notifications are heard
	channel    string            // where this client's claims are told of changes
	guarantees engine.Guarantees

	joined atomic.Bool // something that Close has to give up
	closed atomic.Bool
	life   context.Context // ends when Close has left the claims
	end    context.CancelFunc
}

var _ engine.Engine = (*Engine)(nil)

var declared = engine.Guarantees{
	Order:        engine.FIFO,
	Modes:        engine.Exclusive | engine.Shared | engine.Units,
	Fencing:      engine.FencingAlways,
	Failover:     engine.FailoverNone,
	Scope:        engine.ScopeCluster,
	CrashRelease: engine.CrashTTL,
	Detach:       true,
	SeesWaiters:  true,
}

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees { return e.guarantees }

// Listens reports whether this client hears that its claims hold. Behind a pooler
// that shares connections between transactions it does not, and waiting claims are
// looked at in intervals instead: see the package documentation.
func (e *Engine) Listens() bool { return e.poll == 0 }

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if err := e.guarantees.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	if e.closed.Load() {
		return engine.Claim{}, engine.ErrClosed
	}
	if !r.Detached {
		e.joined.Store(true) // before it is sent: a Join whose answer is lost must be left too
	}
	if err := e.room.Enter(ctx); err != nil {
		return engine.Claim{}, err
	}
	defer e.room.Leave()
	var replaces []byte
	if r.Replaces != (engine.ID{}) {
		replaces = r.Replaces[:]
	}
	var refusal string
	var have int32
	var got answer
	err := e.row(ctx, e.calls.join, append([]any{&refusal, &have}, got.into()...),
		[]byte(r.Name), r.ID[:], e.channel, r.Owner.AppendText(nil), r.Units, r.Limit, r.WaitTTL.Microseconds(), r.NoWait, r.Detached, replaces)
	if err != nil {
		return engine.Claim{}, err
	}
	switch refusal {
	case "":
	case "L":
		return engine.Claim{}, &engine.LimitError{Name: r.Name, Have: have, Want: r.Limit}
	case "C":
		return engine.Claim{}, engine.Refuse("%d claims are in line already, which is the most", have)
	default:
		return engine.Claim{}, engine.Refuse("the next ticket is above %d: the clock of this server is wrong", uint64(engine.MaxTicket))
	}
	c := e.claim(r.Name, r.ID, &got)
	if c.State == engine.Gone && !c.Evicted {
		c.Units, c.Limit = r.Units, r.Limit
	}
	return c, nil
}

// answer is what a call says of a claim: the type reply in schema.sql.
type answer struct {
	state              int32
	contended, evicted bool
	ticket             int64
	units, lim         int32
	ttl, look          int64
}

func (a *answer) into() []any {
	return []any{&a.state, &a.contended, &a.evicted, &a.ticket, &a.units, &a.lim, &a.ttl, &a.look}
}

func (e *Engine) claim(name string, id engine.ID, a *answer) engine.Claim {
	c := engine.Claim{
		Name: name, ID: id, Ticket: uint64(a.ticket), Units: a.units, Limit: a.lim,
		State: engine.State(a.state), Contended: a.contended, Evicted: a.evicted,
		TTL: time.Duration(a.ttl) * time.Microsecond, Look: time.Duration(a.look) * time.Microsecond,
	}
	if e.poll > 0 && c.State == engine.Waiting {
		if c.Look > 0 { // the first who waits
			c.Look = min(c.Look, e.poll)
		} else {
			c.Look = pollOthers * e.poll
		}
	}
	return c
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	for i := range rs {
		if err := engine.CheckTTL(rs[i].Want); err != nil {
			return nil, err
		}
	}
	return e.batch(ctx, e.calls.renew, len(rs), func(i int) (string, engine.ID) { return rs[i].Name, rs[i].ID }, func(from, to int) []any {
		lives := make([]int64, 0, to-from)
		for i := from; i < to; i++ {
			lives = append(lives, rs[i].Want.Microseconds())
		}
		return []any{lives}
	})
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if err := e.room.Enter(ctx); err != nil {
		return nil, err
	}
	defer e.room.Leave()
	return e.batch(ctx, e.calls.leave, len(cs), func(i int) (string, engine.ID) { return cs[i].Name, cs[i].ID }, func(int, int) []any { return nil })
}

// chunk is how many claims one call renews or leaves: their names stay locked until
// its commit.
const chunk = 100

// batch makes one call for each chunk of n claims: of is the i-th, more are the
// arguments of a call that say more of them. It answers for those of which it
// learned something, and the first error.
func (e *Engine) batch(ctx context.Context, call several, n int, of func(i int) (string, engine.ID), more func(from, to int) []any) ([]engine.Claim, error) {
	if n > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", n, engine.MaxBatch)
	}
	for i := range n {
		name, _ := of(i)
		if err := engine.CheckName(name); err != nil {
			return nil, err
		}
	}
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	out := make([]engine.Claim, 0, n)
	var first error
	for from := 0; from < n; from += chunk {
		to := min(from+chunk, n)
		names, ids := make([][]byte, 0, to-from), make([][]byte, 0, to-from)
		for i := from; i < to; i++ {
			name, id := of(i)
			names, ids = append(names, []byte(name)), append(ids, id[:])
		}
		sql := call.all
		if to-from == 1 {
			sql = call.one
		}
		before := len(out)
		err := e.query(ctx, sql, func(r pgx.Rows) error {
			var i int32
			var a answer
			if err := r.Scan(append([]any{&i}, a.into()...)...); err != nil {
				return err
			}
			if i < 1 || int(i) > to-from {
				return fmt.Errorf("not an answer of ours: claim %d of %d", i, to-from)
			}
			name, id := of(from + int(i) - 1)
			out = append(out, e.claim(name, id, &a))
			return nil
		}, func() { out = out[:before] }, append([]any{names, ids}, more(from, to)...)...)
		if err != nil {
			out = out[:before] // the commit failed, or its answer was lost: nothing is known
			if first == nil {
				first = err
			}
		}
	}
	return out, first
}

// closeBound is how long Close gives claims up, and how long it then waits for
// connections.
const closeBound = 2 * time.Second

// Close implements [engine.Engine]: it gives up every claim that is not detached,
// for at most two seconds, and then waits for at most two more for connections that
// are in use. What it could not give up ends by its TTL, and the error says so.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	err := e.depart()
	e.end()
	if !e.own {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.pool.Close() // waits for calls that are under way
	}()
	select {
	case <-ended:
	case <-time.After(closeBound):
	}
	return err
}

func (e *Engine) depart() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	for more := e.joined.Load(); more; {
		var lines int32
		if err := e.row(ctx, e.calls.depart, []any{&lines}, e.channel); err != nil {
			return fmt.Errorf("pglock: what was not left ends by its TTL: %w", err)
		}
		more = lines > 0
	}
	return nil
}
