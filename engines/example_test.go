package engines_test

import (
	"context"
	"errors"
	"fmt"

	"leasehold"
	"leasehold/engines"
)

// The user of a program chooses the engine by URL.
func ExampleOpen() {
	ctx := context.Background()
	eng, err := engines.Open(ctx, "mem:") // a program reads it from its settings
	if err != nil {
		panic(err)
	}
	locks, err := leasehold.New(eng, nil)
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	fmt.Println(locks.Guarantees().Order)

	_, err = engines.Open(ctx, "mongo://host")
	fmt.Println(errors.Is(err, engines.ErrURL))
	// Output:
	// first come, first served
	// true
}

// A URL in a log shows no password.
func ExampleRedact() {
	fmt.Println(engines.Redact("redis://user:secret@host:6379/0"))
	// Output: redis://user:xxxxx@host:6379/0
}
