package mysqllock

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/room"
)

// Engine is one client of a database.
type Engine struct {
	db         *sql.DB
	own        bool      // the pool is ours to close
	room       room.Room // for calls that are not renewals
	opts       Options
	calls      calls
	id         [12]byte  // of this client; secret, since by it all its claims can be given up
	began      time.Time // what its looks are aligned to
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
	n, err := e.call(ctx, e.calls.join, 2+answerLen,
		[]byte(r.Name), r.ID[:], e.id[:], r.Owner.AppendText([]byte{}), r.Units, r.Limit, r.WaitTTL.Microseconds(), r.NoWait, r.Detached, replaces)
	if err != nil {
		return engine.Claim{}, err
	}
	switch refusal, have := n[0], int32(n[1]); refusal {
	case 0:
	case 1:
		return engine.Claim{}, &engine.LimitError{Name: r.Name, Have: have, Want: r.Limit}
	case 2:
		return engine.Claim{}, engine.Refuse("%d claims are in line already, which is the most", have)
	default:
		return engine.Claim{}, engine.Refuse("the next ticket is above %d: the clock of this server is wrong", uint64(engine.MaxTicket))
	}
	c := e.claim(r.Name, r.ID, n[2:])
	if c.State == engine.Gone && !c.Evicted {
		c.Units, c.Limit = r.Units, r.Limit
	}
	return c, nil
}

// answerLen is how many numbers say what a claim is: see say in schema.sql.
const answerLen = 9

func (e *Engine) claim(name string, id engine.ID, a []int64) engine.Claim {
	c := engine.Claim{
		Name: name, ID: id, State: engine.State(a[0]), Contended: a[1] == 1, Evicted: a[2] == 1,
		Ticket: uint64(a[3]), Units: int32(a[4]), Limit: int32(a[5]), TTL: micros(a[6]),
	}
	if c.State == engine.Waiting {
		c.Look = look(int(a[7]), micros(a[8]), time.Since(e.began))
	}
	return c
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	items := make([]item, len(rs))
	for i, r := range rs {
		if err := engine.CheckTTL(r.Want); err != nil {
			return nil, err
		}
		items[i] = item{r.Name, r.ID, r.Want}
	}
	return e.batch(ctx, items)
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if err := e.room.Enter(ctx); err != nil {
		return nil, err
	}
	defer e.room.Leave()
	items := make([]item, len(cs))
	for i, c := range cs {
		items[i] = item{name: c.Name, id: c.ID}
	}
	return e.batch(ctx, items)
}

// item is one claim of a batch: renewed for so long, or left if that is 0.
type item struct {
	name string
	id   engine.ID
	life time.Duration
}

// chunk is how many claims one call renews or leaves: their names stay locked until
// its commit.
const chunk = 100

// batch makes one call for each chunk of items, in the order of their names. It
// answers for those of which it learned something, and the first error.
func (e *Engine) batch(ctx context.Context, items []item) ([]engine.Claim, error) {
	if len(items) > engine.MaxBatch {
		return nil, engine.Refuse("%d claims are more than %d in one call", len(items), engine.MaxBatch)
	}
	for i := range items {
		if err := engine.CheckName(items[i].name); err != nil {
			return nil, err
		}
	}
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	out := make([]engine.Claim, len(items))
	var first error
	for from := 0; from < len(items); from += chunk {
		to := min(from+chunk, len(items))
		order := make([]int, 0, to-from)
		for i := from; i < to; i++ {
			order = append(order, i)
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(items[a].name, items[b].name) })
		var packed []byte
		for _, i := range order {
			it := &items[i]
			packed = append(binary.BigEndian.AppendUint16(packed, uint16(len(it.name))), it.name...)
			packed = binary.BigEndian.AppendUint64(append(packed, it.id[:]...), uint64(it.life.Microseconds()))
		}
		n, err := e.call(ctx, e.calls.batch, answerLen*len(order), packed)
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		for k, i := range order {
			out[i] = e.claim(items[i].name, items[i].id, n[k*answerLen:])
		}
	}
	return slices.DeleteFunc(out, func(c engine.Claim) bool { return c.State == engine.Unknown }), first
}

// Watch implements [engine.Engine]. Nothing is ever told: Look of a claim that waits
// says when to ask.
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	if e.closed.Load() {
		return engine.ErrClosed
	}
	changed(engine.Claim{})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.life.Done():
		return engine.ErrClosed
	}
}

// closeBound is how long Close gives claims up.
const closeBound = 2 * time.Second

// Close implements [engine.Engine]: it gives up every claim that is not detached, for
// at most two seconds. What it could not give up ends by its TTL, and the error says
// so.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	err := e.depart()
	e.end()
	if e.own {
		_ = e.db.Close() // nothing is owed on its connections
	}
	return err
}

func (e *Engine) depart() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeBound)
	defer cancel()
	for more := e.joined.Load(); more; {
		n, err := e.call(ctx, e.calls.depart, 1, e.id[:])
		if err != nil {
			return fmt.Errorf("mysqllock: what was not left ends by its TTL: %w", err)
		}
		more = n[0] > 0
	}
	return nil
}
