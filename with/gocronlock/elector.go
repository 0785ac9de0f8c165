package gocronlock

import (
	"context"
	"fmt"
	"sync"

	"github.com/go-co-op/gocron/v2"

	"leasehold"
	"leasehold/elect"
)

// Elector is a gocron.Elector: of several schedulers that have one, the leader runs all jobs.
// Call Run beside the scheduler. It is safe for concurrent use.
type Elector struct {
	election *elect.Election

	mu   sync.Mutex
	term *term // nil while this scheduler does not lead
}

// term is the time for which this scheduler leads.
type term struct {
	ctx   context.Context
	token leasehold.Token
	tasks sync.WaitGroup // none is added once this is not Elector.term
}

// NewElector returns the candidate of one scheduler. Its errors are those of elect.New.
func NewElector(locks *leasehold.Client, name string, o elect.Options) (*Elector, error) {
	election, err := elect.New(locks, name, o)
	if err != nil {
		return nil, fmt.Errorf("gocronlock: %w", err)
	}
	return &Elector{election: election}, nil
}

// Run stands for election until ctx ends, again after a loss. It returns when the tasks that
// run have ended, and the next scheduler leads after that. Its errors are those of
// elect.Election.Run: the cause of ctx in the end.
func (e *Elector) Run(ctx context.Context) error {
	return e.election.Run(ctx, func(ctx context.Context, token leasehold.Token) error {
		t := &term{ctx: ctx, token: token}
		e.set(t)
		<-ctx.Done()
		e.set(nil)
		t.tasks.Wait()
		return nil
	})
}

func (e *Elector) set(t *term) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = t
}

// IsLeader returns nil if this scheduler leads, and elect.ErrNotLeader otherwise. gocron calls
// it before each job.
func (e *Elector) IsLeader(context.Context) error {
	_, err := e.leading()
	return err
}

// leading returns the present term, or an error. It does not hold mu over the call of the
// election, which may call the Observer of the Client: that may ask this Elector.
func (e *Elector) leading() (*term, error) {
	e.mu.Lock()
	t := e.term
	e.mu.Unlock()
	if t == nil {
		return nil, fmt.Errorf("gocronlock: %w", elect.ErrNotLeader)
	}
	return t, e.election.IsLeader()
}

// Resign has another scheduler lead: see elect.Election.Resign.
func (e *Elector) Resign() error { return e.election.Resign() }

// Task returns a task that runs fn while this scheduler leads. The context of fn ends with
// that of the job or with the lead, whichever ends first. The token is that of the lead. Run
// gives the lead back when fn has returned. Without the lead the task returns
// elect.ErrNotLeader and does not call fn.
func (e *Elector) Task(fn func(ctx context.Context, token leasehold.Token) error) gocron.Task {
	return gocron.NewTask(func(ctx context.Context) error {
		t := e.enter()
		if t == nil {
			return fmt.Errorf("gocronlock: %w", elect.ErrNotLeader)
		}
		defer t.tasks.Done()
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(t.ctx, func() { cancel(context.Cause(t.ctx)) })()
		return fn(ctx, t.token)
	})
}

// enter counts a task of the term, unless it has ended: Run waits for those that are counted.
func (e *Elector) enter() *term {
	t, err := e.leading()
	if err != nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term != t { // it ended meanwhile
		return nil
	}
	t.tasks.Add(1)
	return t
}
