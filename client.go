package leasehold

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
	"leasehold/internal/checked"
	"leasehold/internal/claims"
	"leasehold/internal/door"
)

// Client obtains leases from one engine. It is safe for concurrent use. Make one Client
// per process and engine: callers of one Client share claims and renewals.
type Client struct {
	core *core
	lock LockOptions
}

// New returns a Client of the engine, which Close of the Client closes. It returns
// ErrRequire if the engine does not promise what o.Require asks for, and an error if a
// TTL is out of bounds or o.IdleTimeout is negative.
func New(eng engine.Engine, o *Options) (*Client, error) {
	k := &core{
		now:   boottime.Now,
		kick:  make(chan struct{}, 1),
		ended: make(chan struct{}),
		pid:   os.Getpid(),
	}
	if outer, ok := eng.(*door.Engine); ok {
		eng, k.trace = outer.Engine, outer.Trace
		if outer.Clock != nil {
			k.now = outer.Clock
		}
	}
	k.eng, k.grants = checked.New(eng), eng.Guarantees()
	if o != nil {
		k.opts = *o
	}
	k.opts.TTL = orDefault(k.opts.TTL, defaultTTL(k.grants))
	if k.opts.DeadlockAfter = orDefault(k.opts.DeadlockAfter, deadlockAfter); k.opts.DeadlockAfter > 0 {
		k.opts.DeadlockAfter = max(k.opts.DeadlockAfter, minDeadlockAfter)
	}
	if missing := k.grants.Missing(k.opts.Require); len(missing) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrRequire, strings.Join(missing, ", "))
	}
	if err := k.checkTTL(k.opts.TTL); err != nil {
		return nil, fmt.Errorf("leasehold: Options.TTL: %w", err)
	}
	if k.opts.IdleTimeout < 0 {
		return nil, fmt.Errorf("leasehold: Options.IdleTimeout %v is negative: leave it out to give names back at once", k.opts.IdleTimeout)
	}
	_, longest := k.grants.TTLs()
	config := claims.Config{
		IdleTimeout: k.opts.IdleTimeout, NoLocalHandoff: k.opts.NoLocalHandoff, FailFast: k.opts.FailFast,
		Detached: k.grants.Detach, Unordered: k.grants.Order == engine.OrderNone, Observed: k.opts.Observer != nil,
		Longest: longest, NewID: engine.NewID, Jitter: jitter,
	}
	if k.trace != nil {
		config.Trace = k.stepLocked
	}
	k.machine = claims.New(config)
	k.host, _ = os.Hostname() // only shown to people; unknown is fine
	k.life, k.end = context.WithCancel(context.Background())
	k.joining, k.endJoins = context.WithCancel(k.life)
	k.wg.Go(k.keep)
	k.wg.Go(k.watch)
	return &Client{core: k}, nil
}

// defaultTTL returns DefaultTTL within the engine's bounds.
func defaultTTL(g engine.Guarantees) time.Duration {
	shortest, longest := g.TTLs()
	return min(max(DefaultTTL, shortest), longest)
}

func orDefault[T int | time.Duration](v, d T) T {
	if v == 0 {
		return d
	}
	return v
}

func (k *core) checkTTL(ttl time.Duration) error { return k.grants.CheckTTL(ttl) }

// With returns this Client with o as the choices of its calls. They replace the
// receiver's: a field that o leaves out has its zero value. To change one choice and
// keep the others, begin with [Client.LockOptions].
func (c *Client) With(o LockOptions) *Client { return &Client{core: c.core, lock: o} }

// LockOptions returns the choices that With was given.
func (c *Client) LockOptions() LockOptions { return c.lock }

// Lock obtains name exclusively. ctx bounds only the waiting: the lease goes on after
// ctx has ended, until Unlock, Close or loss. Lease.Context lives as long as the lease.
//
// A caller whose context holds the name already (Lease.Context) gets ErrReentry at
// once, or one more handle with LockOptions.Reentrant. A caller whose context holds
// another name has a claim of its own in the queue. All other callers of this process
// share claims, first come, first served. To wait even if ctx ends, and keep the names
// that it carries, pass context.WithoutCancel(ctx).
//
// Errors:
//
//   - ErrHeld when LockOptions.Wait or the deadline of ctx has passed;
//   - the cause of ctx when ctx has ended, together with ErrHeld after a deadline;
//   - ErrReentry and ErrUpgrade when the context holds the name already;
//   - ErrDeadlock (see Options.DeadlockAfter);
//   - ErrUnavailable when the engine could not be reached in that time;
//   - ErrRevoked when somebody revoked the waiting claim;
//   - ErrClosed, engine.ErrName, engine.ErrLimit and errors.ErrUnsupported.
func (c *Client) Lock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, lock(name))
}

// TryLock is Lock that never waits. It returns ErrHeld if somebody else holds the name,
// if an idle claim keeps it (Options.IdleTimeout), or if somebody waits for it.
// LockOptions.Wait does not matter.
func (c *Client) TryLock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, lock(name).once())
}

// RLock obtains name shared: together with other shared leases, never with an exclusive
// one. If the engine has an order (Guarantees), no later RLock of another process
// overtakes a waiting Lock. A later RLock of this process that shares a claim can do so
// for a moment at most (see Options.NoLocalHandoff).
//
// RLock under the caller's own Lock fails with ErrReentry. With LockOptions.Reentrant
// it returns one more handle of that Lock, which stays exclusive: others get in when
// the last handle has ended.
func (c *Client) RLock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, rlock(name))
}

// TryRLock is to RLock what TryLock is to Lock.
func (c *Client) TryRLock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, rlock(name).once())
}

// Acquire obtains permits of limit: a semaphore. Every user of a name must give the
// same limit, from 1 to engine.Max - 1. The limit engine.Max is that of Lock and RLock.
//
// A caller whose context holds permits of the name gets ErrReentry at once. With
// LockOptions.Reentrant it obtains further permits, each call its own. ErrReentry
// remains when it holds so many already that it would wait for itself.
//
// Errors: those of Lock, and engine.ErrLimit for the limit engine.Max.
func (c *Client) Acquire(ctx context.Context, name string, permits, limit int32) (*Lease, error) {
	return c.acquire(ctx, ask{op: "acquire", name: name, permits: permits, limit: limit})
}

// TryAcquire is to Acquire what TryLock is to Lock.
func (c *Client) TryAcquire(ctx context.Context, name string, permits, limit int32) (*Lease, error) {
	return c.acquire(ctx, ask{op: "acquire", name: name, permits: permits, limit: limit, try: true})
}

func (c *Client) acquire(ctx context.Context, a ask) (*Lease, error) {
	if a.limit == engine.Max {
		return nil, wrap(a.op, a.name, fmt.Errorf("%w: %d is the limit of Lock and RLock; call those or pass a smaller limit", engine.ErrLimit, a.limit))
	}
	return c.obtain(ctx, a)
}

// Do runs fn under an exclusive lease of name. The context of fn ends with ctx or with
// the lease, whichever ends first. The error joins the errors of fn and Unlock: nil
// means that fn returned nil and the hold was proven to the end.
func (c *Client) Do(ctx context.Context, name string, fn func(context.Context, *Lease) error) (err error) {
	l, err := c.Lock(ctx, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Unlock()) }() // also when fn panics
	inner, cancel := l.Bind(ctx)
	defer cancel()
	return fn(inner, l)
}

// Queue returns who holds name and who waits, in order. It is for people: it may be
// wrong by the time it is read.
func (c *Client) Queue(ctx context.Context, name string) (engine.Queue, error) {
	l, err := c.core.eng.Queue(ctx, name)
	return l, wrap("queue", name, err)
}

// Queues returns every queue whose name begins with prefix, in no order.
func (c *Client) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		for queue, err := range c.core.eng.Queues(ctx, prefix) {
			if !yield(queue, wrap("queues", prefix, err)) {
				return
			}
		}
	}
}

// Revoke ends the claim with that ticket (as Queue shows it). A waiting claim is
// removed at once. A holder is notified and loses its lease; the name is free when it
// unlocks or when its TTL has passed. On an engine with sessions (Guarantees.CrashRelease
// is engine.CrashSession) the TTL ends no claim of a process that lives: the name is free
// when the holder unlocks. Revoke returns engine.ErrNoClaim if there is no such claim, and
// errors.ErrUnsupported if the engine cannot notify a holder.
func (c *Client) Revoke(ctx context.Context, name string, ticket uint64) error {
	return c.revoke(ctx, name, ticket, false)
}

// RevokeNow is Revoke that frees the name at once. A holder that has not noticed yet
// still uses the name: until it notices, two may hold it. It returns engine.ErrNoClaim
// if there is no such claim.
func (c *Client) RevokeNow(ctx context.Context, name string, ticket uint64) error {
	return c.revoke(ctx, name, ticket, true)
}

func (c *Client) revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	err := c.core.eng.Revoke(ctx, name, ticket, now)
	if err == nil && c.core.opts.Observer != nil {
		c.core.opts.Observer(Event{Kind: EventRevoke, Name: name, Token: Token(ticket << engine.HandoffBits)})
	}
	return wrap("revoke", name, err)
}

// Guarantees returns what the engine promises.
func (c *Client) Guarantees() engine.Guarantees { return c.core.grants }

// Close ends every lease and every waiting call with ErrClosed, gives every claim back
// and closes the engine. It keeps claims that LockOptions.MinHold still keeps (for the
// engine's longest TTL at most), and those that Lease.Detach handed over.
//
// It waits a few seconds at most for an engine that does not answer. A claim that it
// could not give back ends by its TTL. Close of a Client that With returned closes them
// all. A second Close returns the result of the first.
func (c *Client) Close() error { return c.core.close() }

func (k *core) close() error {
	k.mu.Lock()
	if k.closed {
		k.unlock()
		<-k.ended
		return k.result
	}
	k.machine.Close(k.now())
	k.closed = true // the keeper ends at its next look, and nothing new begins
	todo := k.outputsLocked(nil)
	k.unlock()

	// Joins first. They are cut short, and what they may have made is left when they
	// have returned: a Leave that overtook one would leave its claim to nobody. One
	// that arrives even later, on another connection, makes a claim that nobody
	// renews, and that its WaitTTL ends.
	k.endJoins()
	waitAtMost(closeBound, &k.joins)

	// Side by side: an engine that does not answer costs the time of one call.
	var calls sync.WaitGroup
	errs := make([]error, 2, 3)
	calls.Go(func() {
		errs[0] = eachBatch(todo.renews.asked, func(ctx context.Context, asked []engine.Renewal) error {
			if _, err := k.eng.Renew(ctx, asked); err != nil {
				return fmt.Errorf("MinHold may end early: %w", err)
			}
			return nil
		})
	})
	calls.Go(func() {
		errs[1] = eachBatch(todo.leaves, func(ctx context.Context, asked []engine.Claim) error {
			_, err := k.eng.Leave(ctx, asked)
			return err
		})
	})
	calls.Wait()
	k.unlocks.Wait() // bounded by their own releaseBound; they leave what Close did not
	k.end()
	errs = append(errs, k.eng.Close())
	k.wg.Wait()
	k.result = errors.Join(errs...)
	close(k.ended)
	return k.result
}

// waitAtMost waits for calls, which an engine may hold up whatever their context says.
func waitAtMost(d time.Duration, calls *sync.WaitGroup) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		calls.Wait()
	}()
	select {
	case <-over:
	case <-time.After(d):
	}
}

// eachBatch makes the calls of Close, and stops at the first that fails: the
// engine does not answer, and what is left ends by its TTL.
func eachBatch[T any](all []T, call func(context.Context, []T) error) error {
	for batch := range slices.Chunk(all, claims.MaxBatch) {
		ctx, cancel := context.WithTimeout(context.Background(), closeBound)
		err := call(ctx, batch)
		cancel()
		if err != nil {
			return fmt.Errorf("leasehold: close: %w: %w", ErrUnknown, err)
		}
	}
	return nil
}
