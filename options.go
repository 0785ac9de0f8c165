package leasehold

import (
	"fmt"
	"strings"
	"time"

	"leasehold/engine"
)

// NoWait as LockOptions.Wait asks once and never waits.
const NoWait time.Duration = -1

// Defaults and bounds of the core. Those of names, TTLs and units are the
// contract's (package engine).
const (
	DefaultTTL        = 30 * time.Second
	DefaultLendBudget = 32                    // leases lent while others wait
	DefaultLendTime   = 10 * time.Millisecond // or this long, whichever ends first

	// firstTTL is what a claim is born with (rule 3 of package engine): what a
	// cancelled or crashed caller can leave behind.
	firstTTL = 3 * time.Second

	// raiseAfter bounds when a held claim is raised to its full TTL.
	raiseAfter = 200 * time.Millisecond

	// believe is how long "nobody waits behind you" is believed without being
	// heard again, and listen how often it is asked while that matters.
	believe = time.Second
	listen  = 500 * time.Millisecond

	// releaseBound is the longest that Unlock and Close wait for an engine.
	releaseBound = 5 * time.Second
)

// Options are the choices of a Client. Nil means the defaults.
type Options struct {
	// TTL is how long a lease outlives the last sign of life of its holder.
	// Default DefaultTTL; 100 ms to 24 h, and within the engine's own bounds.
	TTL time.Duration

	// Require refuses at New an engine that cannot promise all of it.
	Require Requirement

	// Label is shown to whoever inspects the line.
	Label string

	// FailFast: an engine that cannot be reached fails a call at once. By
	// default Lock asks again until its context or its Wait ends.
	FailFast bool

	// NoLend turns lending off: every lease is a claim of its own.
	NoLend bool

	// LendBudget and LendTime bound lending inside this process while another
	// process waits. Defaults DefaultLendBudget and DefaultLendTime.
	LendBudget int
	LendTime   time.Duration

	// Keep ("sticky") keeps a claim this long after its last lease ended,
	// unless another process wants it. Locking it again then costs no round
	// trip. A TryLock of this client in the other mode (shared, exclusive) is
	// refused once by what it keeps. Default 0: given back at once.
	Keep time.Duration

	// Observer hears what happens. Default: nobody.
	Observer Observer

	// Clock is the time elapsed since a fixed moment; it must count the time a
	// machine is suspended. Default: the machine's. Tests in a synctest bubble
	// give one of their own.
	Clock func() time.Duration
}

// LockOptions are the choices of single calls, set through [Client.With]. The
// zero value changes nothing.
type LockOptions struct {
	// TTL replaces Options.TTL.
	TTL time.Duration

	// Wait bounds the waiting. 0: until the context ends. NoWait: ask once.
	// At its end the call fails with ErrHeld.
	Wait time.Duration

	// MinHold keeps the name taken at least this long after it was obtained,
	// even if Unlock comes earlier and even if the process exits then (where
	// the engine has detached claims). For jobs that must not run twice
	// because one machine was fast. Such leases are not lent.
	MinHold time.Duration

	// MaxHold ends the lease this long after it was obtained, with the cause
	// ErrMaxHold, although renewals succeed. Such leases are not lent.
	MaxHold time.Duration

	// NoRenew: the lease is granted for one TTL and never renewed.
	NoRenew bool

	// Detached: the claim outlives this process and ends by its TTL alone, so
	// that Lease.Detach can hand it to another. Refused with ErrUnsupported
	// where the engine cannot.
	Detached bool

	// Label replaces Options.Label.
	Label string
}

// Requirement is what a caller needs of an engine.
type Requirement uint

// Requirements, to be combined with |.
const (
	Fencing       Requirement = 1 << iota // tokens that rise, at least until the engine forgets
	Cluster                               // excludes across machines
	Machine                               // excludes across processes
	FIFO                                  // first come, first served
	SharedMode                            // RLock
	Semaphore                             // Acquire of n of N
	Detach                                // claims that outlive their process
	NoDoubleGrant                         // no failover that may grant twice
	CrashRelease                          // a killed process frees its claims before their TTL
)

var requirements = []struct {
	need Requirement
	name string
	met  func(engine.Guarantees) bool
}{
	{Fencing, "fencing", func(g engine.Guarantees) bool { return g.Fencing != engine.FencingNone }},
	{Cluster, "cluster", func(g engine.Guarantees) bool { return g.Scope == engine.ScopeCluster }},
	{Machine, "machine", func(g engine.Guarantees) bool { return g.Scope >= engine.ScopeMachine }},
	{FIFO, "fifo", func(g engine.Guarantees) bool { return g.Order == engine.FIFO }},
	{SharedMode, "shared", func(g engine.Guarantees) bool { return g.Modes&engine.Shared != 0 }},
	{Semaphore, "semaphore", func(g engine.Guarantees) bool { return g.Modes&engine.Units != 0 }},
	{Detach, "detach", func(g engine.Guarantees) bool { return g.Detach }},
	{NoDoubleGrant, "no-double-grant", func(g engine.Guarantees) bool { return g.Failover != engine.FailoverMayDouble }},
	{CrashRelease, "crash-release", func(g engine.Guarantees) bool { return g.CrashRelease != engine.CrashTTL }},
}

// ParseRequirement reads requirements as the command line writes them:
// "cluster,fencing".
func ParseRequirement(text string) (Requirement, error) {
	var need Requirement
words:
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		if word == "" {
			continue
		}
		for _, r := range requirements {
			if word == r.name {
				need |= r.need
				continue words
			}
		}
		var known []string
		for _, r := range requirements {
			known = append(known, r.name)
		}
		return 0, fmt.Errorf("unknown requirement %q: known are %s", word, strings.Join(known, ", "))
	}
	return need, nil
}

// String is the requirement as ParseRequirement reads it.
func (need Requirement) String() string {
	return strings.Join(need.unmet(engine.Guarantees{}, true), ",")
}

func (need Requirement) unmet(g engine.Guarantees, all bool) (names []string) {
	for _, r := range requirements {
		if need&r.need != 0 && (all || !r.met(g)) {
			names = append(names, r.name)
		}
	}
	return names
}
