package redissonlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Engine is one client of a Redis, in Redisson's layout.
type Engine struct {
	wire    *redisconn.Client
	revokes bool // Options.AllowEviction
	kind    Kind
	longest time.Duration // the longest TTL; 0: the package's
	scripts scripts
	tries   parts.Tries
	ears    *parts.Ears
	shards  counts // on a Cluster
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

// Check implements [engine.Checker]: it checks the settings that Open checked.
func (e *Engine) Check(ctx context.Context) error { return e.wire.CheckAgain(ctx, e.revokes) }

// Join implements [engine.Engine]. Redis knows nothing of claims that wait, and neither
// does this: to try again is to join again.
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	call, err := e.joining(&r)
	if err != nil {
		return engine.Claim{}, err
	}
	if !r.NoWait {
		e.ears.Expect(r.ID, r.Name, r.WaitTTL)
	}
	e.tries.Begin(r.ID, r.WaitTTL)
	a := e.wire.Call(ctx, e.scripts.join, call)
	if a.NonRedisError() == nil && a.Indeterminate == nil {
		e.tries.Answered(r.ID)
	}
	c, err := e.answer(r.Name, r.ID, a.RedisResult)
	if err != nil {
		if err = e.explain(err, r.Name); errors.Is(err, engine.ErrRefused) {
			e.ears.Forget(r.ID)
		}
		return engine.Claim{}, err
	}
	if r.Replaces != (engine.ID{}) {
		e.ears.Forget(r.Replaces)
		e.tries.Left(r.Replaces)
	}
	c.Permits = r.Permits
	switch {
	case c.State != engine.Waiting:
		e.ears.Forget(r.ID)
	case r.NoWait:
		c.State, c.TTL = engine.Gone, 0
	default:
		e.ears.Waits(r.ID)
		c.PollAfter, c.TTL = look(c.TTL), r.WaitTTL
	}
	return c, nil
}

// look is when a claim that waits should try again if it hears nothing. left: what the
// lock has left.
func look(left time.Duration) time.Duration {
	switch {
	case left >= 0:
		// Releases are told: to look is for a holder that has died. A little later
		// than its deadline, and not all at once.
		return left + time.Millisecond + rand.N(10*time.Millisecond)
	case left == free:
		// It gave up its turn for somebody else, who may have gone meanwhile.
		return 30*time.Millisecond + rand.N(60*time.Millisecond)
	}
	return 0
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	calls := make([]redisconn.Call, len(rs))
	for i, r := range rs {
		calls[i] = e.call(r.Name, holder(r.ID), parts.Millis(r.Want))
	}
	return parts.Each(e.wire.CallMany(ctx, e.scripts.renew, calls), func(i int, a redisconn.Answer) (engine.Claim, error) {
		return e.found(rs[i].Name, rs[i].ID, a)
	})
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	calls := make([]redisconn.Call, len(cs))
	for i, c := range cs {
		calls[i] = e.call(c.Name, holder(c.ID), parts.Flag(e.tries.Indeterminate(c.ID)))
	}
	return parts.Left(cs, e.wire.CallMany(ctx, e.scripts.leave, calls), func(i int, a redisconn.Answer) (engine.Claim, error) {
		c, err := e.found(cs[i].Name, cs[i].ID, a)
		if err == nil {
			e.ears.Forget(cs[i].ID)
			e.tries.Left(cs[i].ID)
		}
		return c, err
	})
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
		return c, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %d values", len(list))
	}
	state, err1 := list[0].AsInt64()
	text, err2 := list[1].ToString()
	number, err3 := list[2].AsInt64()
	ticket, err4 := strconv.ParseUint(text, 10, 64)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return c, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %w", err)
	}
	switch {
	case state == 0 && ticket == 0:
		return c, e.foreign(name)
	case state == 0 && ticket == 1:
		return c, engine.Refuse("the next ticket would be above %d: the clock of this Redis is wrong; set it", uint64(engine.MaxTicket))
	case state == 0 && ticket == 4:
		return c, errJunk
	case state == 0 && ticket == 3:
		tag, _ := redisconn.Tagged(name)
		return c, engine.Refuse("Redisson's counter %q of tokens has no whole number below %d: Java programs cannot take the lock %q either; "+
			"set it to the highest token so far, or delete it if tokens may begin anew", counter+tag, uint64(engine.MaxTicket), name)
	case state == 0:
		return c, engine.Refuse("%d claims hold already, the most: let fewer callers share one name", engine.MaxQueue)
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
			return c, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %w", err)
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
	explained := e.explain(err, name)
	if errors.Is(explained, redisconn.ErrForeign) && !junkBeside(err) { // beside junk, Redisson's lock may well stand
		return engine.Claim{Name: name, ID: id, State: engine.Gone}, nil
	}
	return c, explained
}

// errJunk is the answer that the key beside a lock has another program's data.
var errJunk = errors.New("BESIDE the key has another program's data")

// junkBeside reports whether the key beside a lock has another program's data.
func junkBeside(err error) bool { return err == errJunk || redisconn.Beside(err, "", "") != nil }

// explain is wire.Explain for the keys of a name.
func (e *Engine) explain(err error, name string) error {
	if junkBeside(err) {
		return redisconn.RefuseBeside(name, redisconn.KeyBeside(beside, name))
	}
	if err = redisconn.Explain(err, name); errors.Is(err, redisconn.ErrForeign) {
		return e.foreign(name)
	}
	return err
}

// foreign refuses a key that is no lock of this kind. The engine does not touch it.
func (e *Engine) foreign(name string) error {
	return engine.Refuse("the key %q %w, and not Redisson's %s: choose another name, or the kind that the Java programs use (?kind=)", name, redisconn.ErrForeign, e.kind.class())
}

// duration is so many milliseconds, or thirty years.
func duration(ms int64) time.Duration { return time.Duration(min(ms, 1e12)) * time.Millisecond }

// Close implements [engine.Engine]. It waits for at most two seconds for connections
// that are being made or do not answer.
func (e *Engine) Close() error {
	e.wire.Close()
	return nil
}
