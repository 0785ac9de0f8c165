package fence_test

import (
	"context"
	"errors"
	"fmt"

	"leasehold/engine"
	"leasehold/fence"
)

// pass is what the lease of a holder with that token shows; a program takes fence.Of(lease).
func pass(token uint64) fence.Pass {
	p, err := fence.Parse("stock:42", fmt.Sprint(token))
	if err != nil {
		panic(err)
	}
	return p
}

// A resource refuses a holder that comes after the next one was there.
func ExampleMemory() {
	ctx := context.Background()
	var marks fence.Memory
	write := func(token uint64) error {
		return marks.Do(ctx, pass(token), func() error {
			fmt.Println("written with token", token)
			return nil
		})
	}
	fmt.Println(write(101)) // the first holder, which is then paused
	fmt.Println(write(102)) // the next holder
	fmt.Println(errors.Is(write(101), fence.ErrStale))
	// Output:
	// written with token 101
	// <nil>
	// written with token 102
	// <nil>
	// true
}

// The rule by itself, for a resource that keeps its own marks.
func ExamplePass_Check() {
	fmt.Println(pass(101).Check(0) == nil)   // the name was never seen
	fmt.Println(pass(101).Check(101) == nil) // the same holder again
	fmt.Println(errors.Is(pass(101).Check(102), fence.ErrStale))
	// Output:
	// true
	// true
	// true
}

// Shared passes are refused below the mark, and never raise it.
func ExamplePass_Raises() {
	reader := fence.Pass{Name: "stock:42", Token: 103, Mode: engine.Shared}
	fmt.Println(reader.Raises(), pass(103).Raises())
	// Output: 0 103
}

// The pass travels in a context, from the lease to the place that writes.
func ExampleNewContext() {
	ctx := fence.NewContext(context.Background(), pass(101))
	p, ok := fence.FromContext(ctx)
	fmt.Println(p.Name, p, ok)
	// Output: stock:42 101 true
}
