// Package gocronlock has one of several schedulers of gocron run each tick of a job, by a lock
// or by an election.
//
//	jobs, err := gocronlock.New(locks, gocronlock.Options{Every: time.Minute})
//	task, options := jobs.Job("report", func(ctx context.Context, token leasehold.Token) error {
//		return report(ctx, token) // until ctx ends
//	})
//	_, err = scheduler.NewJob(gocron.DurationJob(time.Minute), task, options...)
//
// # What it promises
//
//   - Two schedulers never run the job at once, as far as the engine's guarantees reach and as
//     each job returns when its context has ended. The context ends with the lease, at its
//     trusted-until at the latest.
//   - A tick runs once, however short the job is and however the schedulers are shifted: the
//     name stays held for nine tenths of Options.Every after a scheduler has begun the job.
//   - A tick never refuses the next one of the same scheduler, unless it began late by
//     0.6 Every or more, or the job still runs.
//
// If a process dies in the job, its name is free after the TTL. The next tick, of any process,
// runs the job. The same tick is repeated only by a process that ran the one before and waits
// just then for the end of its own hold. After the job the hold outlives the process on an
// engine with detached claims (Guarantees.Detach).
//
// # What gocron cannot know
//
// gocron is not notified of a loss: it calls Locker.Lock before the job and Unlock after it,
// and drops the error of Unlock. A plain function with [Locker] as gocron.WithDistributedLocker
// is therefore as well off as with other lockers: it goes on after a loss. [Locker.Job] and
// [Elector.Task] give the job a context that ends with the lease, and the token.
//
// gocron counts a tick that another scheduler runs as skipped, and calls
// gocron.AfterLockError with leasehold.ErrHeld.
package gocronlock
