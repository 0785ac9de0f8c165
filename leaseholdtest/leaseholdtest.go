// Package leaseholdtest is for the unit tests of programs that use leasehold: a Client on
// an engine in memory, which blocks, loses and fails on request.
//
//	locks := leaseholdtest.New(t)
//	job := NewJob(locks.Client)
//	release := locks.Block("report")   // somebody else holds it
//	...
//	locks.Lose("report")               // its holder has lost it
//
// It works inside a testing/synctest bubble: renewals and deadlines then run on the
// bubble's clock. Everything it started has ended when the test has.
package leaseholdtest

import (
	"context"
	"errors"
	"iter"
	"maps"
	"sync"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
)

// Locks is a Client of leasehold whose locks a test can take, lose and fail.
type Locks struct {
	*leasehold.Client

	t        testing.TB
	faulty   *faulty
	other    *leasehold.Client // somebody else
	notified *notified         // of both
	losing   chan struct{}     // capacity 1: one Lose at a time
}

// New returns a Client for the length of one test, with default options.
func New(t testing.TB) *Locks { return NewOptions(t, nil) }

// NewOptions is New with options.
func NewOptions(t testing.TB, o *leasehold.Options) *Locks {
	t.Helper()
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + time.Hour }
	store := memlock.NewStore(&memlock.Options{Clock: clock})
	notified := &notified{watching: map[*watched]func(engine.Claim){}, began: make(chan struct{}, 2)}
	l := &Locks{t: t, notified: notified, losing: make(chan struct{}, 1)}
	l.faulty = &faulty{Engine: &watched{store.Engine(), notified}}
	var opts leasehold.Options
	if o != nil {
		opts = *o
	}
	timed := func(e engine.Engine) engine.Engine { return &door.Engine{Engine: e, Clock: clock} }
	l.Client = l.client(timed(l.faulty), opts)
	l.other = l.client(timed(&watched{store.Engine(), notified}), leasehold.Options{Label: "leaseholdtest: somebody else"})
	for range 2 { // or Lose could be over before its holder can be told
		<-notified.began
	}
	return l
}

func (l *Locks) client(e engine.Engine, o leasehold.Options) *leasehold.Client {
	l.t.Helper()
	c, err := leasehold.New(e, &o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		err := c.Close()
		if injected := (*injectedError)(nil); errors.As(err, &injected) {
			return // a test may end, or close, while its engine fails
		}
		if err != nil {
			l.t.Errorf("leaseholdtest: close: %v", err)
		}
	})
	return c
}

// Other returns a Client of the same names that acts as another process.
func (l *Locks) Other() *leasehold.Client { return l.other }

// Block makes somebody else hold name exclusively, until release is called, Lose takes it
// away or the test ends. It waits for the present holder. It fails the test at once if it
// cannot lock: call it from the test's own goroutine. A second call of release, or one
// after Lose, does nothing.
func (l *Locks) Block(name string) (release func()) {
	l.t.Helper()
	lease, err := l.other.Lock(l.t.Context(), name)
	if err != nil {
		l.t.Fatalf("leaseholdtest: Block(%q): %v", name, err)
	}
	return func() {
		l.t.Helper()
		if err := lease.Unlock(); err != nil && !errors.Is(err, leasehold.ErrLost) {
			l.t.Errorf("leaseholdtest: release of %q: %v", name, err)
		}
	}
}

// Lose ends every lease of name as lost, of Client, of Other and of Block. When it
// returns, their contexts are cancelled with a cause that is leasehold.ErrLost, and the
// name is free or held by the next waiter. It fails the test if nobody held the name. Any
// goroutine may call it; several calls at once lose one name after the other.
func (l *Locks) Lose(name string) {
	l.t.Helper()
	l.losing <- struct{}{}
	defer func() { <-l.losing }()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), 10*time.Second)
	defer cancel()
	queue, err := l.other.Queue(ctx, name)
	if err != nil {
		l.t.Errorf("leaseholdtest: Lose(%q): %v", name, err)
		return
	}
	held := 0
	for _, c := range queue.Claims {
		if c.State != engine.Held {
			continue
		}
		gone := l.notified.expect(name, c.Ticket)
		err := l.other.RevokeNow(ctx, name, c.Ticket)
		if errors.Is(err, engine.ErrNoClaim) {
			continue // unlocked since
		}
		held++
		if err != nil {
			l.t.Errorf("leaseholdtest: Lose(%q): %v", name, err)
			continue
		}
		select {
		case <-gone:
		case <-ctx.Done():
			l.t.Errorf("leaseholdtest: Lose(%q): its holder was not notified within 10 s", name)
		}
	}
	if held == 0 {
		l.t.Errorf("leaseholdtest: Lose(%q): nobody holds it", name)
	}
}

// Held reports whether anybody holds name, through Client, Other or Block.
func (l *Locks) Held(name string) bool {
	l.t.Helper()
	queue, err := l.other.Queue(context.WithoutCancel(l.t.Context()), name)
	if err != nil {
		l.t.Fatalf("leaseholdtest: Held(%q): %v", name, err)
	}
	return len(queue.Claims) > 0 && queue.Claims[0].State == engine.Held
}

// FailEngine makes every call to the engine of Client fail with err, like an engine that
// cannot be reached, until it is called with nil. A test may end before that.
// Notifications of the engine still arrive, so Lose works meanwhile.
func (l *Locks) FailEngine(err error) {
	if err != nil {
		err = &injectedError{err}
	}
	l.faulty.mu.Lock()
	defer l.faulty.mu.Unlock()
	l.faulty.err = err
}

// injectedError is an error of FailEngine.
type injectedError struct{ err error }

func (e *injectedError) Error() string { return "leaseholdtest: " + e.err.Error() }
func (e *injectedError) Unwrap() error { return e.err }

// notified is what the engine has told the clients.
type notified struct {
	telling sync.Mutex // a client is told one thing at a time

	mu       sync.Mutex
	watching map[*watched]func(engine.Claim)
	began    chan struct{} // a client has begun to watch

	// The claim whose end Lose waits for, until it was told.
	name   string
	ticket uint64 // unique within its name only
	done   chan struct{}
}

// expect returns a channel that is closed when the claim's client was notified.
func (t *notified) expect(name string, ticket uint64) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.name, t.ticket, t.done = name, ticket, make(chan struct{})
	return t.done
}

// notify passes a notification to its client. Both clients learn that a claim is gone: one
// that was detached and adopted is the other's by now, which would otherwise learn of it
// only when it renews.
func (t *notified) notify(changed func(engine.Claim), c engine.Claim) {
	t.telling.Lock()
	defer t.telling.Unlock()
	if c.State != engine.Gone {
		changed(c)
		return
	}
	t.mu.Lock()
	watching := maps.Clone(t.watching)
	t.mu.Unlock()
	for _, changed := range watching {
		changed(c)
	}
	t.passed(c)
}

func (t *notified) passed(c engine.Claim) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done != nil && c.State == engine.Gone && c.Name == t.name && c.Ticket == t.ticket {
		close(t.done)
		t.done = nil
	}
}

// watched is an engine that reports the notifications of its client.
type watched struct {
	engine.Engine
	notified *notified
}

func (w *watched) Watch(ctx context.Context, changed func(engine.Claim)) error {
	w.notified.mu.Lock()
	w.notified.watching[w] = changed
	w.notified.mu.Unlock()
	select {
	case w.notified.began <- struct{}{}:
	default: // it begins again
	}
	defer func() {
		w.notified.mu.Lock()
		defer w.notified.mu.Unlock()
		delete(w.notified.watching, w)
	}()
	return w.Engine.Watch(ctx, func(c engine.Claim) { w.notified.notify(changed, c) })
}

// faulty is the engine of Client.
type faulty struct {
	engine.Engine

	mu  sync.Mutex
	err error
}

func (f *faulty) fail() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *faulty) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := f.fail(); err != nil {
		return engine.Claim{}, err
	}
	return f.Engine.Join(ctx, r)
}

func (f *faulty) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	return f.Engine.Renew(ctx, rs)
}

func (f *faulty) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	if err := f.fail(); err != nil {
		return nil, err
	}
	return f.Engine.Leave(ctx, cs)
}

func (f *faulty) Queue(ctx context.Context, name string) (engine.Queue, error) {
	if err := f.fail(); err != nil {
		return engine.Queue{}, err
	}
	return f.Engine.Queue(ctx, name)
}

func (f *faulty) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	if err := f.fail(); err != nil {
		return func(yield func(engine.Queue, error) bool) { yield(engine.Queue{}, err) }
	}
	return f.Engine.Queues(ctx, prefix)
}

func (f *faulty) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Engine.Revoke(ctx, name, ticket, now)
}
