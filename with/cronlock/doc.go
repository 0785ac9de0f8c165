// Package cronlock has one of several processes run each tick of a job of robfig/cron.
//
//	jobs, err := cronlock.New(locks, cronlock.Options{Every: time.Minute})
//	_, err = scheduler.AddJob("* * * * *", jobs.Job(ctx, "report", func(ctx context.Context, token leasehold.Token) error {
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
// A cron.Job has no context and returns no error. So a job under [Locker.Wrapper] is not
// notified of a loss, and goes on beside the next one: use it only for jobs that end within
// the TTL, or that check their lock elsewhere. [Locker.Job] gives the job a context that ends
// with the lease, and the token. Both log errors, as cron takes none.
//
// A wrapper of your own that repeats a job that failed has no use outside of this one. The name
// stays held after the first attempt, and a late one runs in the place of the next tick. Repeat
// inside of the job.
//
// Cron.Stop does not end jobs that run. To have it do so, give Job a context that the
// program cancels.
package cronlock
