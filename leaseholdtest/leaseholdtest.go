// Package leaseholdtest is for the unit tests of programs that use leasehold:
// a Client on an engine in memory, and the ugly hours on request.
//
//	locks := leaseholdtest.New(t)
//	job := NewJob(locks.Client)
//	release := locks.Block("report")   // somebody else holds it
//	...
//	locks.Lose("report")               // whoever holds it has lost it
//
// It works inside a testing/synctest bubble: renewals and deadlines then run
// on the bubble's clock. Everything it started has ended when the test has.
package leaseholdtest

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
)

// Locks is a Client of leasehold and the strings to pull on it.
type Locks struct {
	*leasehold.Client

	t      testing.TB
	store  *memlock.Store
	faulty *faulty
	other  *leasehold.Client // somebody else
}

// New makes a Client for the length of one test, with default options.
func New(t testing.TB) *Locks { return NewOptions(t, nil) }

// NewOptions is New with options; their Clock is replaced by one that works
// inside a synctest bubble and outside.
func NewOptions(t testing.TB, o *leasehold.Options) *Locks {
	t.Helper()
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) + time.Hour }
	l := &Locks{t: t, store: memlock.NewStore(&memlock.Options{Clock: clock})}
	l.faulty = &faulty{Engine: l.store.Engine(), told: make(chan struct{})}
	var opts leasehold.Options
	if o != nil {
		opts = *o
	}
	opts.Clock = clock
	l.Client = l.client(l.faulty, opts)
	l.other = l.client(l.store.Engine(), leasehold.Options{Clock: clock, Label: "leaseholdtest: somebody else"})
	return l
}

func (l *Locks) client(e engine.Engine, o leasehold.Options) *leasehold.Client {
	l.t.Helper()
	c, err := leasehold.New(e, &o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := c.Close(); err != nil {
			l.t.Errorf("leaseholdtest: close: %v", err)
		}
	})
	return c
}

// Other is a Client of the same names in another process, so to speak.
func (l *Locks) Other() *leasehold.Client { return l.other }

// Block makes somebody else hold name exclusively, waiting for whoever holds
// it now, until release is called or the test ends.
func (l *Locks) Block(name string) (release func()) {
	l.t.Helper()
	lease, err := l.other.Lock(l.t.Context(), name)
	if err != nil {
		l.t.Fatalf("leaseholdtest: Block(%q): %v", name, err)
	}
	return func() {
		l.t.Helper()
		if err := lease.Unlock(); err != nil {
			l.t.Errorf("leaseholdtest: release of %q: %v", name, err)
		}
	}
}

// Lose makes every lease of name, of Client and of Block, a lost one. When it
// returns their contexts are cancelled with a cause that is
// leasehold.ErrLost, and the name is free. It fails the test if nobody held it.
func (l *Locks) Lose(name string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.t.Context()), 10*time.Second)
	defer cancel()
	line, err := l.other.Line(ctx, name)
	if err != nil {
		l.t.Fatalf("leaseholdtest: Lose(%q): %v", name, err)
	}
	held := 0
	for _, c := range line.Claims {
		if c.State != engine.Held {
			continue
		}
		held++
		told := l.faulty.waitFor(c.Ticket)
		if err := l.other.EvictNow(ctx, name, c.Ticket); err != nil {
			l.t.Errorf("leaseholdtest: Lose(%q): %v", name, err)
			continue
		}
		if c.Owner.Label == "leaseholdtest: somebody else" {
			continue // its holder is not under test
		}
		select {
		case <-told:
		case <-ctx.Done():
			l.t.Errorf("leaseholdtest: Lose(%q): the client was not told in 10 s", name)
		}
	}
	if held == 0 {
		l.t.Errorf("leaseholdtest: Lose(%q): nobody holds it", name)
	}
}

// Held reports whether anybody, of Client or of Block, holds name.
func (l *Locks) Held(name string) bool {
	l.t.Helper()
	line, err := l.other.Line(context.WithoutCancel(l.t.Context()), name)
	if err != nil {
		l.t.Fatalf("leaseholdtest: Held(%q): %v", name, err)
	}
	return len(line.Claims) > 0 && line.Claims[0].State == engine.Held
}

// FailEngine makes every call to the engine of Client fail with err, as an
// engine does that cannot be reached, until it is called with nil.
func (l *Locks) FailEngine(err error) {
	if err != nil {
		err = fmt.Errorf("leaseholdtest: %w", err)
	}
	l.faulty.mu.Lock()
	defer l.faulty.mu.Unlock()
	l.faulty.err = err
}

// faulty is the engine of Client.
type faulty struct {
	engine.Engine

	mu      sync.Mutex
	err     error
	ticket  uint64        // whose end Lose waits for
	told    chan struct{} // closed when it was passed on
	waiting bool
}

func (f *faulty) fail() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *faulty) waitFor(ticket uint64) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticket, f.waiting, f.told = ticket, true, make(chan struct{})
	return f.told
}

func (f *faulty) Watch(ctx context.Context, changed func(engine.Claim)) error {
	return f.Engine.Watch(ctx, func(c engine.Claim) {
		changed(c)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.waiting && c.State == engine.Gone && c.Ticket == f.ticket {
			f.waiting = false
			close(f.told)
		}
	})
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

func (f *faulty) Line(ctx context.Context, name string) (engine.Line, error) {
	if err := f.fail(); err != nil {
		return engine.Line{}, err
	}
	return f.Engine.Line(ctx, name)
}

func (f *faulty) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	if err := f.fail(); err != nil {
		return func(yield func(engine.Line, error) bool) { yield(engine.Line{}, err) }
	}
	return f.Engine.Lines(ctx, prefix)
}

func (f *faulty) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := f.fail(); err != nil {
		return err
	}
	return f.Engine.Evict(ctx, name, ticket, now)
}
