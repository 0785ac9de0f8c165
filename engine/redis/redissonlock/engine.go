package redissonlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/slots"
)

// Engine is one client of a Redis, in Redisson's layout.
type Engine struct {
	wire    *redisconn.Client
	revokes bool // Options.AllowEviction
	kind    Kind
	longest time.Duration // the longest TTL; 0: the package's
	scripts scripts
	claims  joined.Claims
	waiters waiters
	tries   joined.Tries

	closed atomic.Bool
	life   context.Context // ends when Close has left the claims
	end    context.CancelFunc
}

var (
	_ engine.Engine  = (*Engine)(nil)
	_ engine.Checker = (*Engine)(nil)
)

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	g := engine.Guarantees{
		Order:        engine.OrderNone,
		Modes:        engine.Exclusive,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeCluster,
		CrashRelease: engine.CrashTTL,
		Detach:       true,
		MaxTTL:       e.longest,
	}
	switch e.kind {
	case ReadWrite:
		g.Modes |= engine.Shared
	case Fenced:
		g.Fencing = engine.FencingMemory // elsewhere Redisson's holders have no token
	}
	if e.wire.FailsOver() {
		g.Failover = engine.FailoverMayDouble // a replica is behind its primary
	}
	return g
}

// Check implements [engine.Checker]: it looks again at what Open has looked at.
func (e *Engine) Check(ctx context.Context) error { return e.wire.CheckAgain(ctx, e.revokes) }

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := e.check(&r); err != nil {
		return engine.Claim{}, err
	}
	if !r.Detached {
		// Before it is sent: a Join whose answer is lost must be left too.
		e.claims.Add(r.ID, r.Name, r.WaitTTL)
	}
	if !r.NoWait {
		e.waiters.expect(r, e.channel(r.Name), r.WaitTTL)
	}
	call, err := e.trying(&r, r.WaitTTL)
	var c engine.Claim
	if err == nil {
		e.tries.Begin(r.ID, r.WaitTTL)
		c, err = e.tried(&r, r.WaitTTL, e.wire.Call(ctx, e.scripts.join, call))
	}
	if err != nil {
		if errors.Is(err, engine.ErrRefused) {
			e.claims.Drop(r.ID)
			e.waiters.forget(r.ID)
		}
		return engine.Claim{}, err
	}
	if r.Replaces != (engine.ID{}) {
		e.waiters.forget(r.Replaces)
		e.claims.Drop(r.Replaces)
		e.tries.Left(r.Replaces)
	}
	if c.State == engine.Waiting && r.NoWait {
		c = engine.Claim{Name: r.Name, ID: r.ID, Permits: r.Permits, Limit: r.Limit, State: engine.Gone}
	}
	if c.State == engine.Gone {
		e.claims.Drop(r.ID)
	}
	return c, nil
}

func (e *Engine) check(r *engine.Request) error {
	if err := r.Check(); err != nil {
		return err
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	if why, taken := besideAnother(r.Name); taken {
		return engine.Refuse("the key %q may be one beside another lock, since it has %q: choose another name", r.Name, why)
	}
	g := e.Guarantees()
	if err := g.Check(r); err != nil {
		return err
	}
	if r.Limit != engine.Max {
		// n of n excludes as well, but Redisson's locks cannot tell the two apart.
		return fmt.Errorf("%w: Redisson's locks have no permits: %w", engine.ErrRefused, errors.ErrUnsupported)
	}
	return nil
}

// trying is the call that takes the lock if it is free.
func (e *Engine) trying(r *engine.Request, ttl time.Duration) (redisconn.Call, error) {
	old, indeterminate := "", false
	if r.Replaces != (engine.ID{}) {
		old = holder(r.Replaces)
		_, waits := e.waiters.get(r.Replaces) // and may be tried for until this is answered
		indeterminate = waits || e.tries.Indeterminate(r.Replaces)
	}
	return e.joining(r.Name, holder(r.ID), millis(ttl), r.Owner.Text(), old, flag(r.Permits < r.Limit), flag(indeterminate))
}

// tried reads what became of a try, ends it, and notifications whether the claim waits.
func (e *Engine) tried(r *engine.Request, ttl time.Duration, a redisconn.Answer) (engine.Claim, error) {
	e.tries.End(r.ID, a.NonRedisError() == nil && a.Indeterminate == nil)
	c, err := e.answer(r.Name, r.ID, a.RedisResult)
	if err != nil {
		return c, e.explain(err, r.Name)
	}
	c.Permits = r.Permits
	if c.State != engine.Waiting {
		if left := e.waiters.forget(r.ID); left && c.State == engine.Held {
			// Its Leave came back with an error, and may never have been sent.
			e.wire.Later(func(ctx context.Context) { e.Leave(ctx, []engine.Claim{c}) })
		}
		return c, nil
	}
	switch left := c.TTL; {
	case left >= 0:
		// Releases are told: to look is for a holder that has died. A little later
		// than its deadline, and not all at once.
		c.PollAfter = left + time.Millisecond + rand.N(10*time.Millisecond)
	case left == free:
		// It gave up its turn for somebody else, who may have gone meanwhile.
		c.PollAfter = 30*time.Millisecond + rand.N(60*time.Millisecond)
	}
	c.TTL = ttl
	e.waiters.waits(r.ID)
	return c, nil
}

// free is what is left of a lock that nobody holds.
const free = -2 * time.Millisecond

// answer reads what the scripts return: state, ticket, a number, and of who holds
// whether somebody else waits and whether it reads. Its errors are to be explained.
func (e *Engine) answer(name string, id engine.ID, r rueidis.RedisResult) (c engine.Claim, err error) {
	list, err := r.ToArray()
	if err != nil {
		return c, err
	}
	if len(list) < 3 {
		return c, fmt.Errorf("not an answer of ours: %d values", len(list))
	}
	state, err1 := list[0].AsInt64()
	text, err2 := list[1].ToString()
	number, err3 := list[2].AsInt64()
	ticket, err4 := strconv.ParseUint(text, 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return c, fmt.Errorf("not an answer of ours: %w", err)
	}
	switch {
	case state == 0 && ticket == 0:
		return c, e.foreign(name)
	case state == 0 && ticket == 1:
		return c, engine.Refuse("the clock of this Redis is absurd: there is no ticket above %d", uint64(engine.MaxTicket))
	case state == 0 && ticket == 4:
		return c, errJunk
	case state == 0 && ticket == 3:
		tag, _ := slots.Tagged(name)
		return c, engine.Refuse("Redisson's counter of tokens %q holds no whole number below %d, so no Java program can take the lock %q either: "+
			"set it to the highest token that was given, or delete it where tokens may begin anew", counter+tag, uint64(engine.MaxTicket), name)
	case state == 0:
		return c, engine.Refuse("%d claims hold already, which is the most", engine.MaxQueue)
	}
	c = engine.Claim{Name: name, ID: id, Ticket: ticket, Permits: engine.Max, Limit: engine.Max, State: engine.State(state)}
	if c.State == engine.Gone {
		c.Revoked = number == 8
		return c, nil
	}
	c.TTL = duration(number)
	more := [2]int64{}
	for i := range list[3:min(5, len(list))] {
		if more[i], err = list[3+i].AsInt64(); err != nil {
			return c, fmt.Errorf("not an answer of ours: %w", err)
		}
	}
	c.Contended = more[0] == 1
	if more[1] == 1 {
		c.Permits = 1
	}
	return c, nil
}

// found is answer for a claim that was there: where its key is somebody's data by
// now it is gone.
func (e *Engine) found(name string, id engine.ID, a redisconn.Answer) (engine.Claim, error) {
	c, err := e.answer(name, id, a.RedisResult)
	if junkBeside(err) {
		return c, err // Redisson's lock may well stand
	}
	if errors.Is(e.explain(err, name), redisconn.ErrForeign) {
		return engine.Claim{Name: name, ID: id, State: engine.Gone}, nil
	}
	return c, err
}

// errJunk is the answer that the key beside a lock is somebody's data.
var errJunk = errors.New("BESIDE what is there is not ours")

// junkBeside: the key beside a lock is somebody's data.
func junkBeside(err error) bool { return err == errJunk || redisconn.Beside(err, "", "") != nil }

// explain is wire.Explain for the keys of a name.
func (e *Engine) explain(err error, name string) error {
	if junkBeside(err) {
		return redisconn.RefuseBeside(name, slots.Beside(beside, name))
	}
	if err = redisconn.Explain(err, name); errors.Is(err, redisconn.ErrForeign) {
		return e.foreign(name)
	}
	return err
}

// foreign refuses a key that is no lock of this kind. Nothing of it is touched.
func (e *Engine) foreign(name string) error {
	return engine.Refuse("the key %q %w, and not Redisson's %s: choose another name, or the kind that the Java programs use (?kind=)", name, redisconn.ErrForeign, e.kind.class())
}

// duration is so many milliseconds, or thirty years.
func duration(ms int64) time.Duration { return time.Duration(min(ms, 1e12)) * time.Millisecond }

// millis rounds up: less than was asked for must not be granted.
func millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// Close implements [engine.Engine]: it leaves every claim that is not detached,
// for at most two seconds, and then waits for at most two more for connections
// that are being made or do not answer.
func (e *Engine) Close() error {
	if e.closed.Swap(true) {
		return nil
	}
	err := e.claims.LeaveAll(e.Leave)
	e.end()
	e.wire.Close()
	return err
}
