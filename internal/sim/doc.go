// Package sim simulates many clients of one engine: in one goroutine, in virtual time,
// with every fault, from a seed.
//
// Each client is a machine of package claims, with the callers of one process and a clock
// of its own. The engine is a queue of package engine/queue for each name, under one of
// several policies. Both are the code that users run. This package simulates the parts
// between them, in files that are small enough to read:
//
//	user.go      callers: they ask, wait, hold, unlock, give up
//	client.go    one process: its machine, its clock, its callers
//	shell.go     outputs become calls, answers become inputs; keeper.go tells the machine
//	             that time passes (files of these names in package leasehold do so)
//	network.go   calls and notifications: late, lost, repeated, lost after the effect
//	store.go     the engine: policies, what they advise, what they forget (sessions.go)
//	clock.go     clocks: an offset, a rate, and standing still
//	faults.go    what strikes: cuts, stops, suspensions, deaths, restarts
//	world.go     virtual time: an agenda of events (agenda.go)
//
// # What is checked
//
// At every grant, loss and Unlock (check.go):
//
//  1. Exclusion: permits of leases that are trusted at this moment, each by the clock of
//     its own client, never exceed the limit. A caller goes on for 5 ms after it looked.
//  2. Tokens of exclusive leases of a name rise. Those of claims that are made after the
//     engine forgot are above all of before.
//  3. No lease outlives its proof. A machine reports a loss when the time of the lease is
//     up, not before, and only for a reason that there is.
//  6. Unlock says that all was well only of a hold that was proven to its end. Of two
//     holds that overlap, and whose Unlock asked the engine, one at most was well.
//  7. First come, first served, where the engine has order. Local handoff is bounded.
//  9. A caller gets nothing only for a reason that there is.
//
// Once a second, for every name with waiting callers (sweep.go):
//
//  4. No waiter is forgotten. A claim with room becomes a lease within its bound, counted
//     from the last thing that went wrong for its client. The client of each waiting
//     caller has a place in the queue.
//  5. A claim of nobody is never extended.
//
// In the end everything heals and nobody asks any more. Then every caller comes to an end,
// and nothing is left in any machine and in any queue (8).
//
// An engine that declares that it may grant twice (policies Forgets and FailsOver) may do
// so, for claims of before it forgot. Tests require that this is seen.
//
// # Seeds
//
// A [Setup] is all that a run depends on. Equal Setups have equal hashes of all that
// happened. Each client, and the engine, draws its chances from streams of its own, by its
// number, so the rest behaves alike when a part is left out. So [Shrink] makes a failing
// Setup small, and [Explain] prints what happens in it.
//
//	go test -run TestSeeds ./internal/sim -sim.seeds 10000
//	go test -run TestSeeds ./internal/sim -sim.seed 17
//	make simulate
//
// # What it takes
//
// Measured on a loaded machine of two cores, with go1.26; memory is what the process has from the
// system:
//
//	1,000 clients, 1,000 names, 24 virtual hours, all faults   101 million events, 228 s, 270 MiB
//	10,000 clients on one queue, one virtual hour              42 million events, 22 min, 53 MiB
//	100,000 leases of ten clients, one virtual hour            3.6 million renewals, 12 s of processor time, 349 MiB
//
// In the first run 2,000 callers were granted 4.1 million leases and lost 165,000 of them to
// 143,000 faults, without an overlap. In the second each of ten million requests cost the engine a look
// at 10,000 places, and no lease was lost. In the third no call renewed more than 2,000 leases.
//
// # What it is not
//
// The exploration of package claims takes every order of events in worlds of two clients
// that share one clock. It reads the fields of its machines and asks in every state what is
// wrong. Here time passes differently for each client, there are thousands of them, and
// only what callers and the engine can see counts. Of its world, the fates of calls are
// the same. It is no part of this package, because its steps have no duration: a schedule
// there says what comes first, and not when.
//
// Goroutines, mutexes and contexts of package leasehold are not simulated, nor are layouts
// of real stores, nested locks, MinHold, Detach and Adopt, and Close.
package sim
