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
//     has returned, and so the next leader begins after the end of the one before.
//   - After a loss Run stands for election again.
//
// A leader that paused does not know that it has lost until it goes on: let what it writes to
// refuse tokens below the highest it has seen, as with every lock.
//
// # What it costs
//
// A candidate that waits in the engine's queue renews its place three times in each TTL. So
// only Options.Standby candidates wait there. All others read the queue once in each
// Options.Look, at random moments. With the defaults (a TTL of 30 s) 100 candidates make about
// two requests a second. If the leader and all candidates of the queue end within one Look,
// the next leader is found when another one looks, 1.25 Look after it looked last at most.
//
// On an engine that does not show who waits (Guarantees.SeesWaiters) every candidate waits, and
// none can publish a Value.
//
// # What it cannot do
//
// Engines notify only those in a queue. [Election.Observe] therefore reads the queue, once in
// each Options.Every. What it yields may be over by then: it is for people, and for clients
// that can be sent on by whom they reach. A leader's value is untrusted text: whoever may write
// to the engine may write one.
package elect
