// Package netcronlock has one of several processes run each tick of a job of netresearch/go-cron,
// the fork of robfig/cron that is developed further.
//
//	jobs, err := netcronlock.New(locks, netcronlock.Options{Every: time.Minute})
//	_, err = scheduler.AddJob("* * * * *", jobs.Job("report", func(ctx context.Context, token leasehold.Token) error {
//		return report(ctx, token) // until ctx ends
//	}))
//
// # What it promises
//
//   - Two processes never run the job at once, as far as the engine's guarantees reach and as
//     each job returns when its context has ended. The context ends with the lease, at its
//     trusted-until at the latest.
//   - A tick runs once, however short the job is and however much clocks differ: the name
//     stays held for nine tenths of Options.Every after a process has begun the job.
//   - A tick never refuses the next one of the same process, unless it began late by
//     0.6 Every or more, or the job still runs.
//
// If a process dies in the job, its name is free after the TTL. The next tick, of any process,
// runs the job. The same tick is repeated only by a process that ran the one before and waits
// just then for the end of its own hold. After the job the hold outlives the process on an
// engine with detached claims (Guarantees.Detach).
//
// # What cron cannot know
//
// go-cron gives a job the context of the scheduler, which does not end at a loss. Jobs of
// [Locker.Job], and a cron.JobWithContext under [Locker.Wrapper], get one that ends with
// the scheduler's and with the lease. A plain cron.Job under Wrapper is not notified. cron
// takes no error from a job, so both log errors.
//
// A wrapper that does not pass the context on, such as cron.SkipIfStillRunning or cron.Recover,
// must stand outside of this one in the chain. The job's context then ends with the lease, but not
// with the scheduler: go-cron gives its context to the outermost wrapper alone.
//
// cron.RetryWithBackoff outside of this one does not repeat a job that failed, since the name stays
// held. An attempt in the first 0.4 of Every after the job began does not run, and cron takes that
// for a success. Options.Log gets a warning. A later one waits, and runs in the place of the next
// tick. Repeat inside of the job. cron.CircuitBreaker outside of this one
// counts the ticks of other processes as successes.
package netcronlock
