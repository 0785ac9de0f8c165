package filelock_test

import (
	"context"
	"fmt"
	"os"

	"leasehold"
	"leasehold/engine/filelock"
)

// Locks between the processes of one machine, in a directory, without a server.
func Example() {
	dir, err := os.MkdirTemp("", "locks")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	eng, err := filelock.New(dir, nil)
	if err != nil {
		panic(err)
	}
	locks, err := leasehold.New(eng, nil) // Close closes the engine too
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "stock:42", func(_ context.Context, l *leasehold.Lease) error {
		fmt.Println("this machine's only holder of", l.Name())
		return nil
	})
	fmt.Println(err)
	// Output:
	// this machine's only holder of stock:42
	// <nil>
}
