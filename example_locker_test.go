package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"leasehold"
	"leasehold/engine/memlock"
)

// locker is a name as a sync.Locker, for code that takes one. A sync.Locker returns
// no error, so this one panics with it: in Lock when the name was not obtained, in
// Unlock when the lease was lost before, since then exclusion was not kept. Prefer
// Lock and Do wherever you can.
type locker struct {
	client *leasehold.Client
	name   string

	turn  sync.Mutex // each Unlock ends the lease of its own Lock, also after a loss
	lease *leasehold.Lease
}

func (l *locker) Lock() {
	lease, err := l.client.Lock(context.Background(), l.name)
	if err != nil {
		panic(err)
	}
	l.turn.Lock()
	l.lease = lease
}

func (l *locker) Unlock() {
	err := l.lease.Unlock()
	l.turn.Unlock()
	if err != nil && !errors.Is(err, leasehold.ErrUnknown) {
		panic(err)
	}
}

// A lock for code that takes a sync.Locker.
func Example_syncLocker() {
	client, err := leasehold.New(memlock.New(), nil)
	if err != nil {
		panic(err)
	}
	defer client.Close()

	n := 0
	var counter sync.Locker = &locker{client: client, name: "counter"}
	var workers sync.WaitGroup
	for range 10 {
		workers.Go(func() {
			for range 10 {
				counter.Lock()
				n++
				counter.Unlock()
			}
		})
	}
	workers.Wait()
	fmt.Println(n)
	// Output: 100
}
