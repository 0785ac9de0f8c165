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

// Client obtains leases from one engine. It is safe for concurrent use; one
// per process and engine is the rule, since callers of one Client share claims
// and renewals.
type Client struct {
	core *core
	lock LockOptions
}

// New makes a Client and takes the engine over: Close closes it. Errors:
// ErrRequire if the engine does not promise what o.Require asks for; TTLs out
// of bounds.
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
		return nil, fmt.Errorf("leasehold: Options.IdleTimeout %v is negative", k.opts.IdleTimeout)
	}
	config := claims.Config{
		IdleTimeout: k.opts.IdleTimeout, NoLocalHandoff: k.opts.NoLocalHandoff, FailFast: k.opts.FailFast,
		Detached: k.grants.Detach, Unordered: k.grants.Order == engine.OrderNone, Observed: k.opts.Observer != nil,
		NewID: engine.NewID, Jitter: jitter,
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

// defaultTTL: whoever says nothing takes what the engine has.
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

// With is this Client with o as the choices of the calls made through it, in place of
// those that the receiver has: what o leaves out is not chosen. To change one choice
// and keep the others, begin with [Client.LockOptions].
func (c *Client) With(o LockOptions) *Client { return &Client{core: c.core, lock: o} }

// LockOptions is what With was given.
func (c *Client) LockOptions() LockOptions { return c.lock }

// Lock obtains name exclusively. ctx bounds the waiting only: the lease goes
// on after ctx ended, until Unlock, Close or loss; its life is
// Lease.Context.
//
// A caller whose context holds the name already (Lease.Context) gets ErrReentry
// at once, or counts up with LockOptions.Reentrant. One whose context holds
// another name queues for itself; everybody else in this process shares claims,
// first come, first served. To wait whatever happens to ctx, and keep what it
// holds, pass context.WithoutCancel(ctx).
//
// Errors: ErrHeld when LockOptions.Wait or ctx's deadline has passed; ctx's cause,
// also with that; ErrReentry, ErrUpgrade; ErrDeadlock (see Options.DeadlockAfter); ErrUnavailable when the engine could
// not be reached by then; ErrRevoked if somebody revoked the waiting claim; ErrClosed; engine.ErrName,
// engine.ErrLimit, errors.ErrUnsupported.
func (c *Client) Lock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, lock(name))
}

// TryLock is Lock that never waits: ErrHeld if somebody else holds the name, or
// keeps it for a moment (Options.IdleTimeout), or is in the queue for it. LockOptions.Wait
// does not matter.
func (c *Client) TryLock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, lock(name).once())
}

// RLock obtains name shared: together with other shared leases, never with an
// exclusive one. Where the engine has an order (Guarantees), a waiting Lock lets no
// later RLock of another process pass, and one of this process that shares a claim
// at most for a moment (see Options.NoLocalHandoff). Under one's own Lock
// it is ErrReentry; with LockOptions.Reentrant it is one more handle of that
// Lock and keeps readers out as that does: nothing is downgraded, others get in
// when the last handle has ended.
func (c *Client) RLock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, rlock(name))
}

// TryRLock is to RLock what TryLock is to Lock.
func (c *Client) TryRLock(ctx context.Context, name string) (*Lease, error) {
	return c.obtain(ctx, rlock(name).once())
}

// Acquire obtains permits of limit: a semaphore. Every user of a name must give
// the same limit, 1 to engine.Max - 1: engine.Max is that of Lock and RLock. A
// caller whose context holds permits of the name gets ErrReentry at once; with
// LockOptions.Reentrant it gets further permits, each call its own, unless it
// holds so many already that it would wait for itself.
//
// Errors: those of Lock; engine.ErrLimit for the limit engine.Max.
func (c *Client) Acquire(ctx context.Context, name string, permits, limit int32) (*Lease, error) {
	return c.acquire(ctx, ask{op: "acquire", name: name, permits: permits, limit: limit})
}

// TryAcquire is to Acquire what TryLock is to Lock.
func (c *Client) TryAcquire(ctx context.Context, name string, permits, limit int32) (*Lease, error) {
	return c.acquire(ctx, ask{op: "acquire", name: name, permits: permits, limit: limit, try: true})
}

func (c *Client) acquire(ctx context.Context, a ask) (*Lease, error) {
	if a.limit == engine.Max {
		return nil, wrap(a.op, a.name, fmt.Errorf("%w: %d is that of Lock and RLock, call those or give less", engine.ErrLimit, a.limit))
	}
	return c.obtain(ctx, a)
}

// Do runs fn under an exclusive lease of name. The context of fn ends with
// ctx and with the lease, whichever ends first. The error joins fn's and
// Unlock's: nil means that fn returned nil and the hold was proven to the end.
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

// Queue shows who holds name and who waits, in order. It is for people: by the
// time it is read it may be wrong.
func (c *Client) Queue(ctx context.Context, name string) (engine.Queue, error) {
	l, err := c.core.eng.Queue(ctx, name)
	return l, wrap("queue", name, err)
}

// Queues shows every queue whose name begins with prefix, in no order.
func (c *Client) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return c.core.eng.Queues(ctx, prefix)
}

// Revoke ends the claim with that ticket (as Queue shows it). One that waits is
// removed. A holder is told and has lost its lease; the name is free when it
// unlocks or its TTL has passed. Errors: engine.ErrNoClaim, and
// errors.ErrUnsupported where the engine has no way to tell a holder.
func (c *Client) Revoke(ctx context.Context, name string, ticket uint64) error {
	return c.revoke(ctx, name, ticket, false)
}

// RevokeNow is Revoke that frees the name at once, also from a holder that has
// not noticed yet: until it does, two may hold the name. Errors:
// engine.ErrNoClaim.
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

// Guarantees says what the engine promises.
func (c *Client) Guarantees() engine.Guarantees { return c.core.grants }

// Close ends every lease (cause ErrClosed) and every waiting call (ErrClosed),
// gives every claim up and closes the engine. It waits at most a few seconds
// for an engine that does not answer: what it could not give up ends by its TTL.
// What LockOptions.MinHold still keeps is not given up, nor what Lease.Detach
// handed over. Closing a view closes them all; closing twice is allowed.
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
