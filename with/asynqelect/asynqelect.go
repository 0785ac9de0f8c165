// Package asynqelect has one of several processes run the Scheduler of hibiken/asynq, by an
// election.
//
//	election, err := elect.New(locks, "scheduler", elect.Options{})
//	err = asynqelect.Run(ctx, election, func() (*asynq.Scheduler, error) {
//		s := asynq.NewScheduler(redis, nil)
//		_, err := s.Register("@every 1m", asynq.NewTask("report", nil))
//		return s, err
//	})
//
// # What it promises
//
//   - Two processes never schedule at once, as far as the engine's guarantees reach. When the
//     lease is lost, the scheduler is shut down.
//   - At an end of Run the scheduler has been shut down before another process schedules.
//   - If the leader dies, another process schedules after the TTL: see package elect.
//
// # What asynq cannot know
//
// A Scheduler has no hook for a lock, no context, and no way to begin again after Shutdown. So
// each term of a leader has a Scheduler of its own, whose intervals ("@every") begin with the
// term. Ticks between two leaders are missed.
//
// A task that is being enqueued when the lease is lost may still arrive, beside that of the next
// leader. A process that was stopped, and goes on after its lease was lost, may enqueue what came
// due meanwhile before its Scheduler is shut down. Give tasks that must not run twice a TaskID or
// Unique: asynq then refuses the second.
package asynqelect

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"leasehold"
	"leasehold/elect"
)

// Run stands for election until ctx ends, and runs a Scheduler that build makes while this
// process leads. build is called at the beginning of each term. It returns the errors of
// elect.Election.Run, and those of build and of asynq.Scheduler.Start, which end it. A build that
// returns neither a Scheduler nor an error ends it with an error, too.
func Run(ctx context.Context, e *elect.Election, build func() (*asynq.Scheduler, error)) error {
	return e.Run(ctx, func(ctx context.Context, _ leasehold.Token) error {
		s, err := build()
		if err != nil {
			return fmt.Errorf("asynqelect: %w", err)
		}
		if s == nil {
			return errors.New("asynqelect: build returned no scheduler and no error: return one of them")
		}
		if err := s.Start(); err != nil {
			return fmt.Errorf("asynqelect: %w", err)
		}
		<-ctx.Done()
		s.Shutdown() // waits for a task that is being enqueued
		return nil
	})
}
