package sim

import "time"

// Setup is everything that a run depends on. Two runs of equal Setups are the same, to
// the last event.
type Setup struct {
	Seed   uint64
	Policy Policy
	For    time.Duration // how long callers ask; then everything must come to rest

	// Clients has the number of each client. A client draws its chances by its number,
	// so it behaves alike whichever others there are: that is what lets a schedule shrink.
	Clients []int
	Callers int // of each client
	Names   int
	TTL     time.Duration
	Habits  Habits

	Network Network
	Drift   int64 // the rates of clients' clocks are within so many ppm
	Engine  int64 // the rate of the engine's clock, in ppm
	Faults  []Fault

	Broken Broken
	Only   Rule // unless empty, nothing else is checked
}

// NameCount is how many names there are.
func (s *Setup) NameCount() int {
	if s.Habits.Own {
		return len(s.Clients) * s.Callers
	}
	return s.Names
}

// Habits are what callers do.
type Habits struct {
	Think time.Duration // between two locks, twice as long at most
	Hold  time.Duration // a lock is held, twice as long at most; 0: to the end of the run
	Own   bool          // each caller has a name of its own; otherwise it draws one each time
	Mixed bool          // all kinds of locks, callers that give up, long holds, kinds of clients; otherwise exclusive locks only
}

// Network is what happens to messages. Chances are in 10,000.
type Network struct {
	Delay  time.Duration // half of it to one and a half, each way
	Lose   int           // a request, an answer, a notification
	Repeat int           // a request arrives a second time, seconds later
	Slow   int           // a message takes up to Slowest
}

// Slowest is how long a message may be on its way. It is longer than calls are waited for.
const Slowest = 8 * time.Second

// Policy is what kind of engine remembers the queues.
type Policy uint8

const (
	Notifies  Policy = iota // a server that tells clients what changed
	Polls                   // it tells nobody; who waits asks
	Sessions                // claims live by the session of their client
	NoOrder                 // it remembers nobody who waits
	Forgets                 // it has its queues in memory, and restarts with nothing
	FailsOver               // another server takes over, with the queues of a moment before
)

// Policies is all of them.
var Policies = []Policy{Notifies, Polls, Sessions, NoOrder, Forgets, FailsOver}

func (p Policy) String() string {
	return [...]string{"notifies", "polls", "sessions", "no order", "forgets", "fails over"}[p]
}

// mayDouble: the engine declares that it may grant what is still held.
func (p Policy) mayDouble() bool { return p == Forgets || p == FailsOver }

// Broken is what is wrong with the clients on purpose: the simulation must find it.
type Broken uint8

const (
	Nothing    Broken = iota
	NoMargin          // a lease is trusted for all of the TTL that was granted
	FromAnswer        // trust counts from the answer of a call, and not from its start
)

// Fault is something that goes wrong at a moment.
type Fault struct {
	At     time.Duration
	Kind   Kind
	Client int           // its number; of no meaning if the engine is struck
	Name   int           // Revoke
	For    time.Duration // FailOver: how old the state is that it goes back to; StepBack: how far
}

// Kind is what a Fault is.
type Kind uint8

const (
	Cut       Kind = iota // no message passes between a client and the engine
	CutThere              // no request arrives
	CutBack               // no answer and no notification arrives
	Interrupt             // a subscription breaks, and begins again
	Stop                  // a process stops; clocks and timers run on
	Suspend               // a machine is suspended: its timers stop too
	Freeze                // its clock too: nothing can be promised then
	Kill                  // a process dies, and another takes its place
	WallStep              // somebody steps the wall clock of a machine
	Revoke                // somebody revokes the first claim of a name
	Down                  // the engine answers nobody
	Forget                // the engine restarts with nothing
	FailOver              // the engine goes back to an earlier state
	StepBack              // the clock of the engine steps back
)

var kinds = [...]string{"cut", "cut there", "cut back", "interrupt", "stop", "suspend", "freeze", "kill", "wall step",
	"revoke", "down", "forget", "fail over", "step back"}

func (k Kind) String() string { return kinds[k] }

// lasts: the fault has a duration.
func (k Kind) lasts() bool {
	switch k {
	case Interrupt, WallStep, Revoke, Forget:
		return false
	}
	return true
}

// ofEngine: it strikes the engine and not one client.
func (k Kind) ofEngine() bool { return k == Revoke || k >= Down }
