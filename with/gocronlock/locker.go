package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold"
	"leasehold/with/internal/tick"
)

// Options are the choices of a Locker.
type Options struct {
	// Every is the least time between two ticks of the jobs, 100 ms or more. There is no
	// default: jobs with other intervals need another Locker. For a crontab it is the
	// shortest interval in it.
	Every time.Duration

	// TTL is how long the name stays held after a process has died in the job. Default: that
	// of the Client.
	TTL time.Duration

	// Prefix begins every name: the locked name is Prefix and the name of the job.
	Prefix string

	// Label is shown to anybody who inspects the queue. Default: that of the Client.
	Label string
}

// Locker is a gocron.Locker. Make one for each scheduler and interval. It is safe for
// concurrent use.
type Locker struct {
	ticks  *tick.Ticks
	prefix string

	mu   sync.Mutex
	held map[string][]*hold // by the name of the job: what no task has begun under
}

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Lock    = (*hold)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// New returns an error for options out of their bounds.
func New(locks *leasehold.Client, o Options) (*Locker, error) {
	ticks, err := tick.New(locks, tick.Options{Every: o.Every, TTL: o.TTL, Label: o.Label})
	if err != nil {
		return nil, fmt.Errorf("gocronlock: %w", err)
	}
	return &Locker{ticks: ticks, prefix: o.Prefix, held: map[string][]*hold{}}, nil
}

// ErrNoLock is returned by a task of Job that gocron has called without this Locker: another
// Locker or an Elector replaced it, or the job has another name.
var ErrNoLock = errors.New("gocron called the task without its lock: give the options of Job to NewJob, and no elector to the scheduler")

// Job returns the task of a job and the options that it needs: its name and this Locker. fn
// runs under the lease. Its context ends with that of the job or with the lease, whichever
// ends first. After a loss the cause is leasehold.ErrLost.
//
// The task returns what fn returned, joined with leasehold.ErrLost if the lease was lost
// meanwhile. It returns ErrNoLock without calling fn if gocron did not lock.
func (l *Locker) Job(name string, fn func(ctx context.Context, token leasehold.Token) error) (gocron.Task, []gocron.JobOption) {
	task := gocron.NewTask(func(ctx context.Context) error {
		h := l.begin(name)
		if h == nil {
			return fmt.Errorf("gocronlock: %q: %w", name, ErrNoLock)
		}
		defer close(h.over)
		ctx, cancel := h.lease.Bind(ctx)
		defer cancel()
		err := fn(ctx, h.lease.Token())
		if cause := context.Cause(h.lease.Context()); cause != nil && !errors.Is(err, cause) {
			err = errors.Join(err, cause)
		}
		return err
	})
	return task, []gocron.JobOption{gocron.WithName(name), gocron.WithDistributedJobLocker(l)}
}

// Lock takes the name of a job for one tick. It returns leasehold.ErrHeld if another scheduler
// has taken it, engine.ErrName for a name that cannot be locked, and the other errors of
// leasehold.Client.Lock. gocron calls it.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.ticks.Take(ctx, l.prefix+key)
	if err != nil {
		return nil, fmt.Errorf("gocronlock: %q: %w", key, err)
	}
	h := &hold{locker: l, key: key, lease: lease}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[key] = append(l.held[key], h)
	return h, nil
}

// begin returns the oldest hold of a job that no task has begun under. There are two only if
// the lease of one was lost before its task began. That task then gets a context that has
// ended, whichever of the two it is.
func (l *Locker) begin(key string) *hold {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held[key]) == 0 {
		return nil
	}
	h := l.held[key][0]
	l.forget(h)
	h.over = make(chan struct{})
	return h
}

func (l *Locker) forget(h *hold) {
	rest := l.held[h.key]
	for i, other := range rest {
		if other == h {
			rest = append(rest[:i:i], rest[i+1:]...)
			break
		}
	}
	if l.held[h.key] = rest; len(rest) == 0 {
		delete(l.held, h.key)
	}
}

// hold is the lock of one tick.
type hold struct {
	locker *Locker
	key    string
	lease  *leasehold.Lease
	over   chan struct{} // closed when the task under it has ended; nil before it begins
}

// Unlock ends the hold, also with a context that has ended, and any number of times. It
// returns leasehold.ErrLost if the lease was lost, and leasehold.ErrUnknown: see
// leasehold.Lease.Unlock. gocron drops the error.
//
// It waits for the task that runs under this hold. That is the task of the very goroutine that
// calls Unlock, except after a loss (see begin): then the hold must not end before the other
// task has.
func (h *hold) Unlock(context.Context) error {
	h.locker.mu.Lock()
	over := h.over
	if over == nil {
		h.locker.forget(h)
	}
	h.locker.mu.Unlock()
	if over != nil {
		<-over
	}
	if err := h.lease.Unlock(); err != nil {
		return fmt.Errorf("gocronlock: %q: %w", h.key, err)
	}
	return nil
}
