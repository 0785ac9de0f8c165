package netcronlock_test

import (
	"context"
	"fmt"
	"time"

	"github.com/netresearch/go-cron"

	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/with/netcronlock"
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
		jobs, err := netcronlock.New(locks, netcronlock.Options{Every: time.Second})
		if err != nil {
			fmt.Println(err)
			return
		}
		scheduler := cron.New()
		job := jobs.Job("report", func(ctx context.Context, token leasehold.Token) error {
			ran <- "the report was sent"
			return nil
		})
		if _, err := scheduler.AddJob("@every 1s", job); err != nil {
			fmt.Println(err)
			return
		}
		scheduler.Start()
		defer func() { <-scheduler.Stop().Done() }()
	}
	fmt.Println(<-ran)
	select {
	case <-ran:
		fmt.Println("it was sent twice")
	case <-time.After(100 * time.Millisecond):
	}
	// Output: the report was sent
}
