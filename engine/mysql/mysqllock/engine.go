package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
	"leasehold/internal/mailbox"
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
	var reads, forgets bool
	var packet int
	err := e.client.conns.Do(ctx, sqllock.Other, func(c *sql.Conn) error {
		return c.QueryRowContext(ctx, `SELECT `+settings).Scan(&reads, &forgets, &packet)
	})
	switch {
	case err != nil:
		return named(explain(err))
	case reads:
		return named(engine.Refuse("%w", errReads))
	case forgets && e.Guarantees().Fencing == engine.FencingAlways:
		return named(engine.Refuse("innodb_flush_log_at_trx_commit or sync_binlog is not 1 by now, so a crash of the machine may forget holds, and tokens may fall: set both to 1, or open this engine again"))
	case packet < e.client.packet:
		return named(engine.Refuse("max_allowed_packet is %d by now, and was %d, so calls for many leases may not fit: raise it, or open this engine again", packet, e.client.packet))
	}
	return nil
}

// Watch implements [engine.Engine]. It notifies waiting claims that came to hold, where
// there is a doorbell. A subscription begins again with each new connection of Open's pool,
// which may lead to a server with other settings.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	var tasks sync.WaitGroup
	defer tasks.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	tasks.Go(func() {
		for ctx.Err() == nil {
			e.client.mail.PostAll()
			select {
			case <-e.client.made:
			case <-ctx.Done():
			}
		}
	})
	if b := e.client.bell; b != nil {
		tasks.Go(func() { b.run(ctx) })
	}
	return e.client.mail.Deliver(ctx, nil, changed)
}

// Close implements [engine.Engine].
func (e *Engine) Close() error {
	e.client.conns.Close()
	if e.own {
		_ = e.client.db.Close() // nothing is owed on its connections
		_ = e.client.bell.close()
	}
	return nil
}

// client makes the calls of one client.
type client struct {
	db    *sql.DB
	conns *sqllock.Pool[*sql.Conn] // how calls come to its connections
	opts  Options
	calls calls
	id    [12]byte  // secret, since by it all its claims can be given up
	began time.Time // what its looks are aligned to

	guarantees engine.Guarantees // what meet found
	packet     int               // and how many bytes a statement may have
	skips      bool              // and whether it knows SKIP LOCKED

	made <-chan struct{} // tells of new connections; nil: the pool is the caller's
	mail *mailbox.Box    // for Watch
	bell *bell           // nil: it has none
}

var _ sqllock.Database = (*client)(nil)

// Join implements [sqllock.Database].
func (c *client) Join(ctx context.Context, r *engine.Request) (sqllock.Joined, error) {
	var replaces []byte
	if r.Replaces != (engine.ID{}) {
		replaces = r.Replaces[:]
	}
	k := sqllock.Joining
	if r.Detached { // and never renewed
		k = sqllock.Other
	}
	looks := c.bell.begun()
	n, err := c.call(ctx, k, c.calls.join, 2+answerLen,
		[]byte(r.Name), r.ID[:], c.id[:], r.Owner.AppendText([]byte{}), r.Permits, r.Limit, r.WaitTTL.Microseconds(), r.NoWait, r.Detached, replaces)
	if err != nil {
		return sqllock.Joined{}, err
	}
	return sqllock.Joined{Refusal: sqllock.Refusal(n[0]), Have: int32(n[1]), Claim: c.claim(r.Name, r.ID, n[2:], looks)}, nil
}

// answerLen is how many numbers say what a claim is: see say in schema.sql.
const answerLen = 9

// claim is what an answer says, to a call that began after so many looks of the bell.
func (c *client) claim(name string, id engine.ID, a []int64, looks int) engine.Claim {
	is := engine.Claim{
		Name: name, ID: id, State: engine.State(a[0]), Contended: a[1] == 1, Revoked: a[2] == 1,
		Ticket: uint64(a[3]), Permits: int32(a[4]), Limit: int32(a[5]), TTL: sqllock.Micros(a[6]),
	}
	if is.State == engine.Waiting {
		still := sqllock.Micros(a[8])
		if c.bell.relies() {
			still = max(still, stillRelied)
		}
		is.PollAfter = pollAfter(int(a[7]), still, time.Since(c.began))
	}
	c.bell.learned(is, int(a[7]), looks)
	return is
}

// Batch implements [sqllock.Database]. It locks names in their order.
func (c *client) Batch(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	order := make([]int, len(rs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rs[a].Name, rs[b].Name) })
	var packed []byte
	for _, i := range order {
		r := &rs[i]
		packed = append(binary.BigEndian.AppendUint16(packed, uint16(len(r.Name))), r.Name...)
		packed = binary.BigEndian.AppendUint64(append(packed, r.ID[:]...), uint64(r.Want.Microseconds()))
	}
	k := sqllock.Other
	if len(rs) > 0 && rs[0].Want > 0 {
		k = sqllock.Renewing
	}
	looks := c.bell.begun()
	n, err := c.call(ctx, k, c.calls.batch, answerLen*len(rs), packed)
	if err != nil {
		return nil, err
	}
	out := make([]engine.Claim, len(rs))
	for k, i := range order {
		out[i] = c.claim(rs[i].Name, rs[i].ID, n[k*answerLen:], looks)
		if rs[i].Want == 0 {
			c.bell.left(rs[i].ID)
		}
	}
	return out, nil
}

// Revoke implements [sqllock.Database].
func (c *client) Revoke(ctx context.Context, name string, ticket uint64, now bool) (bool, error) {
	n, err := c.one(ctx, c.calls.revoke, []byte(name), ticket, now)
	return n > 0, err
}

// Queue implements [sqllock.Database].
func (c *client) Queue(ctx context.Context, name string) (sqllock.Queues, error) {
	return c.read(ctx, c.calls.line, []byte(name))
}

// Queues implements [sqllock.Database]. It reads some two hundred names.
func (c *client) Queues(ctx context.Context, after, from, end []byte) (sqllock.Queues, error) {
	return c.read(ctx, c.calls.lines, after, from, end, end)
}

// read makes a call that answers with rows of place.
func (c *client) read(ctx context.Context, statement string, args ...any) (lines sqllock.Queues, err error) {
	err = c.conns.Do(ctx, sqllock.Other, func(conn *sql.Conn) error {
		rows, err := conn.QueryContext(ctx, literal(statement, args...))
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := lines.Add(rows.Scan); err != nil {
				return err
			}
		}
		return rows.Err()
	})
	if err != nil {
		return nil, explain(err)
	}
	return lines, nil
}
