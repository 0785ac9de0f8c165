// Package elect elects a leader among processes: of all candidates for a name one at a time
// leads, with a lease of package leasehold.
//
//	e, err := elect.New(locks, "mail", elect.Options{Value: "10.0.0.7:8080"})
//	err = e.Run(ctx, func(ctx context.Context, token leasehold.Token) error {
//		return sendMail(ctx, token) // until ctx ends
//	})
//
// # What it promises
//
//   - Two functions never lead at once, as far as the engine's guarantees reach and as each
//     returns when its context has ended. The context ends with the lease, at its
//     trusted-until at the latest.
//   - Run never returns while the function runs. It gives the lease back after the function
//     has returned, so at Resign and at an end of its own the next leader begins after that.
//     After a loss the next leader may begin once the lease has ended.
//   - After a loss Run stands for election again.
//
// A leader that paused does not know that it has lost until it goes on: let what it writes to
// refuse tokens below the highest it has seen, as with every lock.
//
// # What it costs
//
// A candidate that waits in the engine's queue renews its place three times in each TTL. So
// only Options.Standby candidates wait there. All others read the queue once in each
// Options.Look, at random moments. With the defaults (a TTL of 30 s) 100 candidates made 2.5
// requests a second of a Redis; the next in the queue makes one of them. If the leader and all
// candidates of the queue die within one Look, another candidate leads after the TTL and 1.25
// Look at most.
//
// A planned hand-over, from Resign to the next function, took 1.1 times as long as from Unlock to
// Lock on Redis and PostgreSQL, and 0.84 times on etcd. These are medians of three rounds of
// `go test -run - -bench HandOver ./engines`, on busy cores. On etcd it was 0.72 to 1.57 in five
// more rounds while a slow disk took 60 to 110 ms for each.
//
// On an engine that does not show who waits (Guarantees.SeesWaiters) every candidate waits, and
// none can publish a Value.
//
// # What it cannot do
//
// Engines notify only those in a queue. [Election.Observe] therefore reads the queue, once in
// each Options.Every. A leader may have changed by then. The value of a leader is untrusted text:
// every program that may write to the engine can write one.
package elect
