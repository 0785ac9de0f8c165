package harness

import "time"

// Load is what workers do. Each process opens Clients clients, and each client
// is used by Goroutines goroutines.
type Load struct {
	Kind       Kind
	Clients    int // per process; 0 means 1
	Goroutines int // per client; 0 means 1

	// Names is how many names are shared by all. 0: every goroutine has one
	// of its own.
	Names int
	Zipf  float64 // above 1: how the shared names are drawn; else the first

	HoldMin, HoldMax time.Duration // how long a lock is held: 0, or at random between

	// Settle is how long a client takes until its lock costs what it will cost;
	// 0: what is usual.
	Settle time.Duration

	// Relay: who released asks again only when the next one holds, so that
	// the lock is only ever taken by somebody who was blocked already.
	Relay bool

	ReadShare float64 // of a read-write lock
	Permits   int32   // above 0: a semaphore of that many

	// Pairs ends a goroutine after that many locks and unlocks, whatever the
	// clock says, so that requests can be counted exactly.
	Pairs int

	// Light leaves out every reading of the clock, for locks that take less
	// time than noting when. The counter is still kept.
	Light bool
}

// Kind is the sort of a load.
type Kind string

// Kinds of load.
const (
	Cycle       Kind = "cycle" // lock and unlock, again and again
	IdleTimeout Kind = "keep"  // lock Pairs names each and hold them to the end
	Once        Kind = "once"  // lock the name once, record when, hold it to the end
)

func (l Load) clients() int    { return max(l.Clients, 1) }
func (l Load) goroutines() int { return max(l.Goroutines, 1) }

// slots is how many names need a cell.
func (l Load) slots(procs int) int {
	if l.Names > 0 {
		return l.Names
	}
	return procs * l.clients() * l.goroutines()
}

// limit of the units that may be held at once.
func (l Load) limit() int64 {
	switch {
	case l.Permits > 0:
		return int64(l.Permits)
	case l.ReadShare > 0:
		return shareLimit
	}
	return 1
}

// shareLimit stands for "exclusive" in a read-write load: a writer's units. It
// is above any number of readers here.
const shareLimit = 1 << 20

// Bounds on every wait.
const (
	// Silence is how long nobody must be granted anything, while somebody
	// waits, for those who wait to count as stuck. It is four times the
	// longest pause of any competitor that polls.
	Silence = time.Second

	drainBound  = 4 * time.Second  // for a load to drain while it makes progress
	deafBound   = 6 * time.Second  // for a cancelled Lock to return, or an Unlock: ours takes 5 s at most
	startBound  = 60 * time.Second // for workers to be ready
	answerBound = 20 * time.Second // for workers to answer after the drain

	maxNotifications = 1 << 20 // holds and latencies a worker keeps
)

// Job is what a worker is told.
type Job struct {
	Suite, Competitor string
	Process           int // 0 to Processes-1
	Processes         int
	Arena             string // path
	At                Endpoint
	Load              Load
	Names             []string
}

// Result is what a worker answers.
type Result struct {
	Served  []int64 // locks obtained inside the window, by actor
	Pairs   int64   // locks obtained and given back, inside or outside of it
	Changes int64   // locks that had another owner before, inside the window
	Latency []int64 // nanoseconds: of the pair (own names), else of the hand-over
	Holds   []Hold
	Wrote   []int64 // increments of each name's counter

	GaveUp  int64 // Lock returned without the lock although it was not told to stop
	Errors  int64 // Unlock failed, or Open did
	Stuck   int64 // still waited when nobody had been granted anything for Silence
	Stalled int64 // relay: released, others blocked, and nobody took it for Silence
	Lost    int64 // Keep: no longer held, says the engine
	Deaf    int64 // Lock did not return after its context ended, or Unlock did not return
	Cut     int64 // the drain took too long
	Cause   string

	CPU    time.Duration // user and system, inside the window
	Bytes  float64       // Keep: memory per lock held
	Failed int64         // Keep: locks that could not be obtained
	Grants []int64       // Once: when
	Calls  map[string]int64
}
