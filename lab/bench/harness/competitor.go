package harness

import (
	"context"
	"time"
)

// Competitor is one way to lock, used as its own documentation says.
type Competitor struct {
	Name     string
	Baseline bool   // no lock that anybody could use, but the least the engine can do
	Waits    string // how a waiter waits, at the competitor's defaults
	About    string // what else the reader should know: version, options, what it does with its time
	Modes    Modes

	// Renews: held locks are renewed by the competitor itself.
	Renews bool

	// Prepare, if there is one, is called once before a load with the names
	// it uses (a relay needs its first token).
	Prepare func(ctx context.Context, at Endpoint, names []string) error

	// Open makes one client.
	Open func(ctx context.Context, at Endpoint) (Locker, error)
}

// Modes is what a competitor can do beyond exclusive locks.
type Modes uint8

// Modes beyond exclusive ones.
const (
	ReadWrite Modes = 1 << iota
	Semaphore
)

// Endpoint is where a competitor finds its engine, and the choices a load makes for
// it.
type Endpoint struct {
	Addrs          []string      // of servers, in the suite's order
	Dir            string        // of engines that live in a directory
	TTL            time.Duration // 0: the competitor's default
	NoLocalHandoff bool          // every client on its own, even inside one process
	IdleTimeout    time.Duration // keep a claim after its last use, where a competitor can
	Count          bool          // count the engine's calls, where a competitor can
	Actor          int           // number of the client that opens it
}

// Unlock releases what Lock obtained.
type Unlock func() error

// Locker is one client of a competitor. Lock waits until ctx ends at the latest.
type Locker interface {
	Lock(ctx context.Context, name string) (Unlock, error)
	Close() error
}

// Moded is a Locker with Modes.
type Moded interface {
	RLock(ctx context.Context, name string) (Unlock, error)
	Acquire(ctx context.Context, name string, units, limit int32) (Unlock, error)
}

// Remainer knows how long the present holder's lock still stands, as the
// engine sees it.
type Remainer interface {
	Remaining(ctx context.Context, name string) (time.Duration, error)
}

// Caller counts the calls its engine got, by name.
type Caller interface {
	Calls() map[string]int64
}
