package gocronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/with/gocronlock"
)

func Example() {
	store := memlock.NewStore(nil) // redis.Open(ctx, url) in production
	ran := make(chan string, 10)
	for range 3 { // machines
		locks, err := leasehold.New(store.Engine(), nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer locks.Close()
		jobs, err := gocronlock.New(locks, gocronlock.Options{Every: time.Minute})
		if err != nil {
			fmt.Println(err)
			return
		}
		task, options := jobs.Job("report", func(ctx context.Context, token leasehold.Token) error {
			ran <- "the report was sent"
			return nil
		})
		scheduler, err := gocron.NewScheduler()
		if err != nil {
			fmt.Println(err)
			return
		}
		defer scheduler.Shutdown()
		options = append(options, gocron.WithStartAt(gocron.WithStartImmediately()))
		if _, err := scheduler.NewJob(gocron.DurationJob(time.Minute), task, options...); err != nil {
			fmt.Println(err)
			return
		}
		scheduler.Start()
	}
	fmt.Println(<-ran)
	select {
	case <-ran:
		fmt.Println("it was sent twice")
	case <-time.After(100 * time.Millisecond):
	}
	// Output: the report was sent
}
