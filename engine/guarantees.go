package engine

import (
	"strings"
	"time"
)

// Guarantees is what an engine promises. What it does not declare it refuses.
type Guarantees struct {
	Order        Order
	Modes        Modes
	Fencing      Fencing
	Failover     Failover
	Scope        Scope
	CrashRelease CrashRelease
	Detach       bool // detached claims
	SeesWaiters  bool // Line shows who waits, not only who holds

	// MinTTL and MaxTTL bound what is granted; the package's own bounds where
	// zero. Less than MinTTL may be asked for and is raised.
	MinTTL, MaxTTL time.Duration
}

// Order says who is next.
type Order uint8

const (
	OrderNone Order = iota // whoever tries at a good moment
	FIFO                   // first come, first served, between processes too
)

func (o Order) String() string { return pick(o, "none", "first come, first served") }

// Modes is the set of kinds of claim.
type Modes uint8

const (
	Exclusive Modes = 1 << iota // all units of the limit
	Shared                      // 1 of Max
	Units                       // n of N
)

func (m Modes) String() string {
	var s []string
	for i, name := range []string{"exclusive", "shared", "units"} {
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

// Failover says what survives the loss of a server.
type Failover uint8

const (
	FailoverNone      Failover = iota // one place: while it is away, nothing is granted
	FailoverMayDouble                 // another takes over, and may grant what is still held
	FailoverConsensus                 // another takes over with everything that was granted
)

func (f Failover) String() string { return pick(f, "none", "may grant twice", "consensus") }

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
	CrashSession                     // when its session has timed out
	CrashAtOnce                      // when its operating system closes its files
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
