package asynqelect_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/hibiken/asynq"

	"leasehold"
	"leasehold/elect"
	"leasehold/engine/memlock"
	"leasehold/with/asynqelect"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	locks, err := leasehold.New(memlock.NewStore(nil).Engine(), nil) // redis.Open(ctx, url) in production
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	election, err := elect.New(locks, "scheduler", elect.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = asynqelect.Run(ctx, election, func() (*asynq.Scheduler, error) {
		fmt.Println("this process leads")
		stop() // the program ends; here, at once
		s := asynq.NewScheduler(asynq.RedisClientOpt{Addr: "127.0.0.1:1"}, &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel})
		_, err := s.Register("@every 1h", asynq.NewTask("report", nil))
		return s, err
	})
	if !errors.Is(err, context.Canceled) {
		fmt.Println(err)
	}
	// Output: this process leads
}
