package pglock

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
)

// Engine is one client of a database.
type Engine struct {
	*sqllock.Engine
	client *client
	own    bool // the pool is ours to close
}

var _ engine.Engine = (*Engine)(nil)

var _ engine.Checker = (*Engine)(nil)

// Check implements [engine.Checker]: whether the server writes, and stores what it
// answers as it did when this was opened.
func (e *Engine) Check(ctx context.Context) error {
	var replica, readonly, stores bool
	var unlogged int64
	err := e.client.row(ctx, e.client.calls.check, []any{&replica, &readonly, &stores, &unlogged})
	switch {
	case err != nil:
		return named(err)
	case replica || readonly:
		return named(engine.Refuse("this server only reads: it is a replica, or has become one, and can lock and renew nothing: let this address lead to the primary"))
	case sqllock.Micros(unlogged) != e.Guarantees().MaxTTL:
		return named(engine.Refuse("the tables have another ?unlogged= by now than when this engine was opened: open it again"))
	case !stores && e.Guarantees().Fencing == engine.FencingAlways:
		return named(engine.Refuse("fsync is off by now, so a crash of the machine may forget holds, and tokens may fall: turn it on, or open this engine again"))
	}
	return nil
}

// Listens reports whether this client receives notifications. Behind a pooler that shares
// connections between transactions it does not, and polls for waiting claims instead: see
// the package documentation.
func (e *Engine) Listens() bool { return e.client.poll == 0 }

// poolBound is how long Close waits for connections.
const poolBound = 2 * time.Second

// Close implements [engine.Engine]. It waits for at most two seconds for connections
// that are in use.
func (e *Engine) Close() error {
	e.client.conns.Close()
	if !e.own {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.client.pool.Close() // waits for calls that are under way
	}()
	select {
	case <-ended:
	case <-time.After(poolBound):
	}
	return nil
}

// client makes the calls of one client.
type client struct {
	pool     *pgxpool.Pool
	conns    *sqllock.Pool[*pgxpool.Conn] // how calls come to its connections
	settings *settings                    // nil: the pool is the caller's

	opts    Options
	calls   calls
	mode    pgx.QueryExecMode // 0: the pool's
	poll    time.Duration     // 0: notifications are heard
	channel string            // where this client's claims are told of changes

	guarantees engine.Guarantees // what meet found
}

var _ sqllock.Database = (*client)(nil)

// refusals are the letters of join in schema.sql.
var refusals = map[string]sqllock.Refusal{"": 0, "L": sqllock.OtherLimit, "C": sqllock.QueueFull, "T": sqllock.TicketRange}

// Join implements [sqllock.Database].
func (c *client) Join(ctx context.Context, r *engine.Request) (sqllock.Joined, error) {
	var replaces []byte
	if r.Replaces != (engine.ID{}) {
		replaces = r.Replaces[:]
	}
	var refusal string
	var have int32
	var got answer
	k := sqllock.Joining
	if r.Detached { // and never renewed
		k = sqllock.Other
	}
	err := c.rowOf(ctx, k, c.calls.join, append([]any{&refusal, &have}, got.into()...),
		[]byte(r.Name), r.ID[:], c.channel, r.Owner.AppendText(nil), r.Permits, r.Limit, r.WaitTTL.Microseconds(), r.NoWait, r.Detached, replaces)
	return sqllock.Joined{Refusal: refusals[refusal], Have: have, Claim: c.claim(r.Name, r.ID, &got)}, err
}

// answer is what a call says of a claim: the type reply in schema.sql.
type answer struct {
	state              int32
	contended, revoked bool
	ticket             int64
	permits, lim       int32
	ttl, pollAfter     int64
}

func (a *answer) into() []any {
	return []any{&a.state, &a.contended, &a.revoked, &a.ticket, &a.permits, &a.lim, &a.ttl, &a.pollAfter}
}

func (c *client) claim(name string, id engine.ID, a *answer) engine.Claim {
	is := engine.Claim{
		Name: name, ID: id, Ticket: uint64(a.ticket), Permits: a.permits, Limit: a.lim,
		State: engine.State(a.state), Contended: a.contended, Revoked: a.revoked,
		TTL: sqllock.Micros(a.ttl), PollAfter: sqllock.Micros(a.pollAfter),
	}
	if c.poll > 0 && is.State == engine.Waiting {
		if is.PollAfter > 0 { // the first who waits
			is.PollAfter = min(is.PollAfter, c.poll)
		} else {
			is.PollAfter = pollOthers * c.poll
		}
	}
	return is
}

// Batch implements [sqllock.Database].
func (c *client) Batch(ctx context.Context, rs []engine.Renewal) (out []engine.Claim, err error) {
	var names, ids [][]byte
	var lives []int64
	for i := range rs {
		names, ids = append(names, []byte(rs[i].Name)), append(ids, rs[i].ID[:])
		if want := rs[i].Want; want > 0 {
			lives = append(lives, want.Microseconds())
		}
	}
	call, args, k := c.calls.leave, []any{names, ids}, sqllock.Other
	if lives != nil {
		call, args, k = c.calls.renew, append(args, lives), sqllock.Renewing
	}
	sql := call.all
	if len(rs) == 1 {
		sql = call.one
	}
	err = c.several(ctx, k, sql, len(rs), func() { out = nil }, func(i int, a *answer) {
		out = append(out, c.claim(rs[i].Name, rs[i].ID, a))
	}, args...)
	return out, err
}

// several makes a call that answers for several claims of n. An answer has its claim's place.
func (c *client) several(ctx context.Context, k sqllock.Kind, sql string, n int, begin func(), each func(int, *answer), args ...any) error {
	return c.query(ctx, k, sql, func(r pgx.Rows) error {
		var i int32
		var a answer
		if err := r.Scan(append([]any{&i}, a.into()...)...); err != nil {
			return err
		}
		if i < 1 || int(i) > n {
			return fmt.Errorf("unexpected answer of leasehold's functions in the database (did somebody change them?): claim %d of %d", i, n)
		}
		each(int(i-1), &a)
		return nil
	}, begin, args...)
}

// Revoke implements [sqllock.Database].
func (c *client) Revoke(ctx context.Context, name string, ticket uint64, now bool) (found bool, err error) {
	err = c.row(ctx, c.calls.revoke, []any{&found}, []byte(name), int64(ticket), now)
	return found, err
}

// Queue implements [sqllock.Database].
func (c *client) Queue(ctx context.Context, name string) (sqllock.Queues, error) {
	return c.read(ctx, c.calls.line, []byte(name))
}

// Queues implements [sqllock.Database]. It reads some two hundred names.
func (c *client) Queues(ctx context.Context, after, from, end []byte) (sqllock.Queues, error) {
	return c.read(ctx, c.calls.lines, after, from, end)
}

// read makes a call that answers with rows of place.
func (c *client) read(ctx context.Context, sql string, args ...any) (lines sqllock.Queues, err error) {
	err = c.query(ctx, sqllock.Other, sql, func(r pgx.Rows) error { return lines.Add(r.Scan) }, func() { lines = nil }, args...)
	return lines, err
}
