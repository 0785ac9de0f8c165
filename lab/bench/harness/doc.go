// Package harness drives locks side by side and measures what they do.
//
// A [Workload] is run for every [Competitor] in turn, round after round, so that the
// noise of a shared machine hits all alike; what is compared is the ratio of
// two competitors within one round, and a comparison whose spread crosses 1 is
// printed as "no difference".
//
//	bench (parent)                      worker processes (the same binary)
//	  starts the servers                  open the competitor once per client
//	  lays out the Arena  <--mmap-->      hold, count, record when they held
//	  starts the clock                    stop asking, drain, answer
//	  sweeps the holds
//
// Every contended load is checked twice: each hold increments a counter in
// shared memory without atomics (a lost update is a broken lock), and notifications
// when it began and ended on the machine's monotonic clock (an overlap is one
// too). Every wait is bounded: who gets nothing for [Silence] while nobody is
// granted anything is counted as stuck, and the run goes on without it.
//
// What it cannot do: see a lock that fails only across machines (everything
// here is one machine with one clock), or turn a noisy machine into a quiet
// one. Absolute times are for orientation; ratios are the result.
package harness
