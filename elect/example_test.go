package elect_test

import (
	"context"
	"fmt"

	"leasehold"
	"leasehold/elect"
	"leasehold/engine/memlock"
)

func Example() {
	locks, err := leasehold.New(memlock.NewStore(nil).Engine(), nil)
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	e, err := elect.New(locks, "mail", elect.Options{Value: "10.0.0.7:8080"})
	if err != nil {
		panic(err)
	}
	err = e.Run(context.Background(), func(ctx context.Context, token leasehold.Token) error {
		leader, err := e.Leader(ctx)
		fmt.Println(leader.Value, "leads")
		return err // a program would work until ctx ends
	})
	fmt.Println(err)
	// Output:
	// 10.0.0.7:8080 leads
	// <nil>
}
