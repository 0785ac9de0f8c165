package engine

import (
	"fmt"
	"strings"
	"time"
)

// Guarantees is what an engine promises, or the least that a user needs (see
// [Guarantees.Missing]). The zero value of every part is the least. An engine refuses
// what it does not declare.
type Guarantees struct {
	Order        Order
	Modes        Modes
	Fencing      Fencing
	Failover     Failover
	Scope        Scope
	CrashRelease CrashRelease
	Detach       bool // detached claims
	SeesWaiters  bool // Queue shows who waits and, in their Owner, what they hold: deadlocks can be found

	// MinTTL and MaxTTL bound the TTLs that the engine grants as asked for. Zero means
	// the bounds of this package. Other TTLs are refused. Only the lifetime of a new or
	// waiting claim (Request.WaitTTL) may be less; it is raised.
	MinTTL, MaxTTL time.Duration
}

// Missing returns in words what need asks for and g does not promise; nothing if g
// promises all of it. Each part is compared separately, larger being stronger. A zero
// part of need does not matter. need.MinTTL and need.MaxTTL are a short and a long TTL
// that must both be granted as asked for.
func (g Guarantees) Missing(need Guarantees) []string {
	var missing []string
	ask := func(promised bool, format string, args ...any) {
		if !promised {
			missing = append(missing, fmt.Sprintf(format, args...))
		}
	}
	ask(g.Scope >= need.Scope, "scope %v (it has %v)", need.Scope, g.Scope)
	ask(g.Order >= need.Order, "order %v (it has %v)", need.Order, g.Order)
	ask(need.Modes&^g.Modes == 0, "modes %v (it has %v)", need.Modes&^g.Modes, g.Modes)
	ask(g.Fencing >= need.Fencing, "fencing %v (it has %v)", need.Fencing, g.Fencing)
	ask(g.Failover >= need.Failover, "failover %v (it has %v)", need.Failover, g.Failover)
	ask(g.CrashRelease >= need.CrashRelease, "crash release %v (it has %v)", need.CrashRelease, g.CrashRelease)
	ask(g.Detach || !need.Detach, "detached claims")
	ask(g.SeesWaiters || !need.SeesWaiters, "showing who waits")
	shortest, longest := g.TTLs()
	ask(need.MinTTL == 0 || need.MinTTL >= shortest, "a TTL as short as %v (it grants %v at least)", need.MinTTL, shortest)
	ask(need.MaxTTL <= longest, "a TTL as long as %v (it grants %v at most)", need.MaxTTL, longest)
	return missing
}

// TTLs returns the shortest and the longest lifetime that the engine grants as asked
// for.
func (g Guarantees) TTLs() (shortest, longest time.Duration) {
	longest = MaxTTL
	if g.MaxTTL > 0 {
		longest = g.MaxTTL
	}
	return max(g.MinTTL, MinTTL), longest
}

// Order says which waiter is next.
type Order uint8

const (
	OrderNone Order = iota // any waiter that tries at a good moment
	FIFO                   // first come, first served, between processes too
)

func (o Order) String() string { return pick(o, "none", "first come, first served") }

// Modes is the set of kinds of claim.
type Modes uint8

const (
	Exclusive Modes = 1 << iota // all permits of the limit
	Shared                      // 1 of Max
	Permits                     // n of N
)

// ModeOf returns the kind of a claim: Exclusive if it takes all of the limit.
func ModeOf(permits, limit int32) Modes {
	switch {
	case permits == limit:
		return Exclusive
	case permits == 1 && limit == Max:
		return Shared
	}
	return Permits
}

func (m Modes) String() string {
	var s []string
	for i, name := range []string{"exclusive", "shared", "permits"} {
		if m&(1<<i) != 0 {
			s = append(s, name)
		}
	}
	return strings.Join(s, ", ")
}

// Fencing says how long tickets keep rising.
type Fencing uint8

const (
	FencingNone   Fencing = iota
	FencingMemory         // until the engine forgets and its clock has stepped back
	FencingAlways         // over crash and restart
)

func (f Fencing) String() string { return pick(f, "none", "until it forgets", "always") }

// Failover says what the loss of a server can cause. The zero value is the weakest.
type Failover uint8

const (
	FailoverMayDouble Failover = iota // another server takes over, and may grant what is still held
	FailoverNone                      // one store: while it is away, nothing is granted
	FailoverConsensus                 // another server takes over with all that was granted
)

func (f Failover) String() string { return pick(f, "may grant twice", "none", "consensus") }

// Scope is how far exclusion reaches.
type Scope uint8

const (
	ScopeProcess Scope = iota
	ScopeMachine
	ScopeCluster
)

func (s Scope) String() string { return pick(s, "process", "machine", "cluster") }

// CrashRelease says when the claims of a killed process are free.
type CrashRelease uint8

const (
	CrashTTL     CrashRelease = iota // when their TTL has passed
	CrashSession                     // when the process's session has timed out
	CrashAtOnce                      // when the operating system closes the process's files
)

func (c CrashRelease) String() string {
	return pick(c, "after its TTL", "after its session", "at once")
}

func pick[T ~uint8](v T, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return "?"
}
