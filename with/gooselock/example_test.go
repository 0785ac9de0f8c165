package gooselock_test

import (
	"context"
	"fmt"

	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/with/gooselock"
)

func Example() {
	locks, err := leasehold.New(memlock.NewStore(nil).Engine(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	locker, err := gooselock.New(locks, "migrate:shop", gooselock.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	// A program calls locker.Up(ctx, provider). Run is the same for any function.
	err = locker.Run(context.Background(), func(ctx context.Context) error {
		fmt.Println("migrates")
		return ctx.Err()
	})
	fmt.Println(err)
	// Output:
	// migrates
	// <nil>
}
