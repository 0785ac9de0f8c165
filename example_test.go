package leasehold_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
)

// client is a client for the examples: in memory, so that they need no server.
func client(o *leasehold.Options) *leasehold.Client {
	locks, err := leasehold.New(memlock.New(), o)
	if err != nil {
		panic(err)
	}
	return locks
}

// check stops an example that fails.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// Run a function under a lock. Its context ends with the lease.
func ExampleClient_Do() {
	locks := client(nil)
	defer locks.Close()

	err := locks.Do(context.Background(), "stock:42", func(ctx context.Context, l *leasehold.Lease) error {
		fmt.Println("holding", l.Name(), "and its context ended:", ctx.Err() != nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// holding stock:42 and its context ended: false
	// <nil>
}

// Lock where the begin and the end are in different functions.
func ExampleClient_Lock() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()

	lease, err := locks.Lock(ctx, "import")
	check(err)
	fmt.Println("valid:", lease.Valid())
	fmt.Println("held to the end:", lease.Unlock() == nil)
	fmt.Println("valid:", lease.Valid())
	// Output:
	// valid: true
	// held to the end: true
	// valid: false
}

// Wait for a name, but not for longer than 10 ms.
func ExampleClient_Lock_wait() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()
	lease, err := locks.Lock(ctx, "import")
	check(err)
	defer lease.Unlock()

	_, err = locks.With(leasehold.LockOptions{Wait: 10 * time.Millisecond}).Lock(ctx, "import")
	fmt.Println(errors.Is(err, leasehold.ErrHeld))
	// Output: true
}

// Do not wait, and learn who holds the name.
func ExampleClient_TryLock() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()
	lease, err := locks.Lock(ctx, "import")
	check(err)
	defer lease.Unlock()

	_, err = locks.TryLock(ctx, "import")
	if held, ok := errors.AsType[*leasehold.HeldError](err); ok {
		fmt.Println(held.Name, "is held by", len(held.By), "claim, of this process:", held.Own)
	}
	// Output: import is held by 1 claim, of this process: true
}

// Readers share a name; a writer waits for all of them.
func ExampleClient_RLock() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()

	one, err := locks.RLock(ctx, "catalogue")
	check(err)
	two, err := locks.RLock(ctx, "catalogue")
	check(err)
	_, err = locks.TryLock(ctx, "catalogue")
	fmt.Println("a writer gets in:", err == nil)
	check(errors.Join(one.Unlock(), two.Unlock()))
	_, err = locks.TryLock(ctx, "catalogue")
	fmt.Println("a writer gets in:", err == nil)
	// Output:
	// a writer gets in: false
	// a writer gets in: true
}

// A semaphore: at most two holders at once, everywhere.
func ExampleClient_Acquire() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()

	for range 2 {
		_, err := locks.Acquire(ctx, "mail-gateway", 1, 2)
		check(err)
	}
	_, err := locks.TryAcquire(ctx, "mail-gateway", 1, 2)
	fmt.Println("a third gets in:", err == nil)
	// Output: a third gets in: false
}

// Every user of a name gives the same limit.
func ExampleClient_Acquire_limit() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()

	_, err := locks.Acquire(ctx, "mail-gateway", 1, 2)
	check(err)
	_, err = locks.TryAcquire(ctx, "mail-gateway", 1, 3)
	fmt.Println(errors.Is(err, engine.ErrLimit))
	// Output: true
}

// Several names, in one order whatever order the caller gives.
func ExampleClient_LockAll() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()

	both, err := locks.LockAll(ctx, "account:7", "account:3")
	check(err)
	for _, l := range both.Leases() {
		fmt.Println(l.Name())
	}
	check(both.Unlock())
	// Output:
	// account:3
	// account:7
}

// Options for some calls: a job that takes its name once a minute at most.
func ExampleClient_With() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()
	nightly := locks.With(leasehold.LockOptions{MinHold: time.Minute, Label: "report"})

	for range 2 {
		lease, err := nightly.TryLock(ctx, "report@2026-08-01")
		if errors.Is(err, leasehold.ErrHeld) {
			fmt.Println("somebody did it")
			continue
		}
		check(err)
		fmt.Println("this process does it")
		check(lease.Unlock()) // the name stays taken for the rest of the minute
	}
	// Output:
	// this process does it
	// somebody did it
}

// Change one option and keep the others.
func ExampleClient_LockOptions() {
	locks := client(nil)
	defer locks.Close()

	brief := locks.With(leasehold.LockOptions{TTL: 5 * time.Second, Label: "import"})
	o := brief.LockOptions()
	o.Wait = time.Second
	patient := brief.With(o)
	fmt.Println(patient.LockOptions().TTL, patient.LockOptions().Wait, patient.LockOptions().Label)
	// Output: 5s 1s import
}

// A call that asks for what its own context holds would wait for itself: it fails at once.
func ExampleClient_Lock_reentry() {
	locks := client(nil)
	defer locks.Close()

	lease, err := locks.Lock(context.Background(), "stock:42")
	check(err)
	_, err = locks.Lock(lease.Context(), "stock:42")
	fmt.Println(errors.Is(err, leasehold.ErrReentry))

	inner, err := locks.With(leasehold.LockOptions{Reentrant: true}).Lock(lease.Context(), "stock:42")
	check(err)
	check(inner.Unlock())
	fmt.Println("still held:", lease.Valid())
	// Output:
	// true
	// still held: true
}

// A nested lock asks with a context that ends with the request and with the lease.
func ExampleLease_Bind() {
	locks := client(nil)
	defer locks.Close()
	request, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()

	order, err := locks.Lock(request, "order:7")
	check(err)
	defer order.Unlock()
	ctx, cancel := order.Bind(request)
	defer cancel()
	stock, err := locks.Lock(ctx, "stock:4") // waits no longer than the request
	check(err)
	defer stock.Unlock()

	_, bounded := ctx.Deadline()
	fmt.Println("has the deadline of the request:", bounded)
	check(order.Unlock())
	fmt.Println("ended with the lease:", ctx.Err() != nil)
	// Output:
	// has the deadline of the request: true
	// ended with the lease: true
}

// The context of a lease ends when somebody revokes it, and says why.
func ExampleLease_Context() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()
	lease, err := locks.Lock(ctx, "import")
	check(err)

	queue, err := locks.Queue(ctx, "import")
	check(err)
	check(locks.Revoke(ctx, "import", queue.Claims[0].Ticket))
	<-lease.Context().Done()
	fmt.Println(errors.Is(context.Cause(lease.Context()), leasehold.ErrRevoked))
	fmt.Println(errors.Is(lease.Unlock(), leasehold.ErrLost))
	// Output:
	// true
	// true
}

// A long job stops at a good moment when another caller waits.
func ExampleLease_Contended() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()
	lease, err := locks.Lock(ctx, "reindex")
	check(err)

	next := make(chan struct{})
	go func() {
		defer close(next)
		check(locks.Do(ctx, "reindex", func(context.Context, *leasehold.Lease) error { return nil }))
	}()
	<-lease.Contended()
	check(lease.Unlock())
	<-next
	fmt.Println("the waiter was here")
	// Output: the waiter was here
}

// Tokens of exclusive leases of one name rise: a resource refuses lower ones.
func ExampleLease_Token() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()

	var last leasehold.Token
	for range 3 {
		check(locks.Do(ctx, "stock:42", func(_ context.Context, l *leasehold.Lease) error {
			fmt.Println("rises:", l.Token() > last)
			last = l.Token()
			return nil
		}))
	}
	// Output:
	// rises: true
	// rises: true
	// rises: true
}

// A lease leaves its process as a handle, and another one takes it over.
func ExampleLease_Detach() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()

	here, err := locks.With(leasehold.LockOptions{Detached: true}).Lock(ctx, "upload:99")
	check(err)
	handle, err := here.Detach() // a secret: string(handle) has it, printing it does not
	check(err)

	there, err := locks.Adopt(ctx, handle)
	check(err)
	fmt.Println("the same token:", there.Token() == here.Token())
	check(there.Unlock())
	// Output: the same token: true
}

// The queue of a name: who holds it and who waits.
func ExampleClient_Queue() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()
	lease, err := locks.With(leasehold.LockOptions{Label: "nightly"}).Lock(ctx, "reindex")
	check(err)
	defer lease.Unlock()

	queue, err := locks.Queue(ctx, "reindex")
	check(err)
	for _, c := range queue.Claims {
		fmt.Println(c.State, c.Owner.Label)
	}
	// Output: held nightly
}

// All queues of a prefix.
func ExampleClient_Queues() {
	ctx := context.Background()
	locks := client(nil)
	defer locks.Close()
	all, err := locks.LockAll(ctx, "account:3", "account:7", "stock:1")
	check(err)
	defer all.Unlock()

	n := 0
	for queue, err := range locks.Queues(ctx, "account:") {
		check(err)
		n += len(queue.Claims)
	}
	fmt.Println(n, "claims on accounts")
	// Output: 2 claims on accounts
}

// A program refuses an engine that does not promise what it needs.
func ExampleNew_require() {
	_, err := leasehold.New(memlock.New(), &leasehold.Options{
		Require: engine.Guarantees{Scope: engine.ScopeCluster},
	})
	fmt.Println(errors.Is(err, leasehold.ErrRequire))
	// Output: true
}

// An observer is notified of what happens to leases.
func ExampleOptions_observer() {
	ctx := context.Background()
	locks := client(&leasehold.Options{Observer: func(e leasehold.Event) {
		if e.Kind == leasehold.EventLost {
			fmt.Println("lost", e.Name+":", e.Reason)
		}
	}})
	lease, err := locks.With(leasehold.LockOptions{MaxHold: 10 * time.Millisecond}).Lock(ctx, "import")
	check(err)
	<-lease.Context().Done()
	fmt.Println(errors.Is(lease.Unlock(), leasehold.ErrMaxHold))
	check(locks.Close())
	// Unordered output:
	// lost import: max hold
	// true
}
