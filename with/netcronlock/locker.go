package netcronlock

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/netresearch/go-cron"

	"leasehold"
	"leasehold/with/internal/tick"
)

// Options are the choices of a Locker.
type Options struct {
	// Every is the least time between two ticks of the jobs, 100 ms or more: see Gap. There
	// is no default: jobs with other intervals need another Locker.
	Every time.Duration

	// TTL is how long the name stays held after a process has died in the job. Default: that
	// of the Client.
	TTL time.Duration

	// Label is shown to anybody who inspects the queue. Default: that of the Client.
	Label string

	// Log receives an error for each tick that failed, a warning for a job that is called again
	// within its tick, and at Debug a line for each tick that another process runs. By default
	// all are dropped.
	Log *slog.Logger
}

// Locker makes jobs that run in one process at each tick. Make one for each interval. It is
// safe for concurrent use.
type Locker struct{ ticks *tick.Ticks }

// New returns an error for options out of their bounds.
func New(locks *leasehold.Client, o Options) (*Locker, error) {
	ticks, err := tick.New(locks, tick.Options{Every: o.Every, TTL: o.TTL, Label: o.Label, Log: o.Log})
	if err != nil {
		return nil, fmt.Errorf("netcronlock: %w", err)
	}
	return &Locker{ticks}, nil
}

// Job returns a job that locks the name for each tick and runs fn if no other process has.
// The context of fn ends with that of the scheduler or with the lease, whichever ends first,
// and after a loss with the cause leasehold.ErrLost. Under a wrapper that does not pass the
// scheduler's context on, such as cron.Recover, it ends with the lease alone. An error of fn is
// logged, as is a lock that failed or was lost. A name that cannot be locked (engine.ErrName) is
// an error at each tick.
func (l *Locker) Job(name string, fn func(ctx context.Context, token leasehold.Token) error) cron.Job {
	return cron.FuncJobWithContext(func(ctx context.Context) { l.ticks.Run(ctx, name, fn) })
}

// Wrapper returns a wrapper for a chain of cron: it locks the name for each tick, and runs
// the job if no other process has. All jobs of the chain share the name. A
// cron.JobWithContext gets the context that Job gives; another job is not notified of a loss.
func (l *Locker) Wrapper(name string) cron.JobWrapper {
	return func(j cron.Job) cron.Job {
		return l.Job(name, func(ctx context.Context, _ leasehold.Token) error {
			if with, ok := j.(cron.JobWithContext); ok {
				with.RunWithContext(ctx)
			} else {
				j.Run()
			}
			return nil
		})
	}
}

// Gap returns the least time between two of the next hundred ticks of a schedule, for
// Options.Every. It returns 0 for a schedule that has fewer than two.
func Gap(s cron.Schedule) time.Duration { return tick.Gap(s.Next, time.Now()) }
