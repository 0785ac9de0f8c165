package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// Open opens the engine of a URL. The program that uses this package gives it, and with it
// the engines that it has.
type Open func(ctx context.Context, url string) (engine.Engine, error)

// Options are the choices of a trial. Open and URL are needed; the zero value of all else
// is the default.
type Options struct {
	Open     Open
	URL      string
	Shown    string   // the URL without its secrets, for the history; default: its scheme
	Version  string   // of the program
	Settings []string // of the server, for the history

	For     time.Duration // how long clients lock, default 10 minutes
	Clients int           // processes at once, default 4
	Names   int           // names that clients lock, default 8
	TTL     time.Duration // of every lease, default 2 s or the engine's least
	Think   time.Duration // at most, between calls of a client to the engine itself, default 40 ms
	Seed    uint64        // of every choice; default: a random one
	Dir     string        // for the history, default leasehold-torture-DATE; must not have one yet

	// Nemeses are the faults that may come. With none the trial shows nothing about
	// faults.
	Nemeses []Nemesis

	// Status is called about once a second, unless it is nil, and once at the end.
	Status func(Status)

	// Judged is called with what a trial that runs has shown so far, unless it is nil: about
	// once a second at first, and less often the longer that takes. A caller that has seen
	// enough ends the context of Run.
	Judged func(*check.Result)
}

// Status is how far a trial has come.
type Status struct {
	Left    time.Duration // until no new call begins
	Holds   int           // leases that began
	Strikes int           // faults
	Bits    int           // of those, which were seen to have had an effect
	Lost    int           // leases that were lost
	Failed  int           // calls of which nothing is known
	Waited  time.Duration // the longest wait that was granted

	// Violations is how many were found so far. A trial looks from time to time; the
	// verdict at its end counts.
	Violations int
}

// Result is what a trial leaves behind.
type Result struct {
	Dir    string // with history.jsonl
	Seed   uint64
	Status Status
	Left   []string // claims that could not be ended; empty: nothing is left
	Notes  []string // what was left out, or was missing for a while, and why
}

// History is the name of the history in the directory of a trial.
const History = "history.jsonl"

const (
	leastClients, mostClients = 1, 256
	leastNames, mostNames     = 1, 1000
)

// ErrOptions is returned for options that make no trial.
var ErrOptions = errors.New("this is no trial")

// complete fills in the defaults and refuses what makes no trial.
func (o *Options) complete(g engine.Guarantees) error {
	shortest, longest := g.TTLs()
	if o.TTL == 0 {
		o.TTL = min(max(2*time.Second, shortest), longest)
	}
	if o.For == 0 {
		o.For = 10 * time.Minute
	}
	if o.Clients == 0 {
		o.Clients = 4
	}
	if o.Names == 0 {
		o.Names = 8
	}
	if o.Think == 0 {
		o.Think = 40 * time.Millisecond
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64()>>11 | 1 // readers of JSON keep 53 bits of it
	}
	if o.Dir == "" {
		o.Dir = "leasehold-torture-" + time.Now().Format("20060102-150405")
	}
	switch {
	case o.Clients < leastClients || o.Clients > mostClients:
		return fmt.Errorf("%w: %d clients are outside %d to %d", ErrOptions, o.Clients, leastClients, mostClients)
	case o.Names < leastNames || o.Names > mostNames:
		return fmt.Errorf("%w: %d names are outside %d to %d", ErrOptions, o.Names, leastNames, mostNames)
	case o.For < 5*o.TTL:
		return fmt.Errorf("%w: %v is less than five TTLs of %v: give it longer, or a shorter TTL", ErrOptions, o.For, o.TTL)
	case g.Scope == engine.ScopeProcess:
		return fmt.Errorf("%w: this engine excludes within one process only, and clients are processes: choose another", ErrOptions)
	}
	if err := g.CheckTTL(o.TTL); err != nil {
		return fmt.Errorf("%w: the TTL: %w", ErrOptions, err)
	}
	return nil
}

// create makes the directory and the history in it.
func create(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, History), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%w: %s has a history already: give another directory", ErrOptions, dir)
	}
	return f, err
}

// bound is within which a name is granted after everything is healed. A dead client's
// claim ends by its TTL, and a waiter polls every four seconds at the latest.
func bound(ttl time.Duration) time.Duration { return 2*ttl + 4*time.Second }

// assumes is what an engine rests on: one that may forget goes by its memory and its clock,
// and one server that ends claims by their TTL goes by its clock.
func assumes(g engine.Guarantees) []string {
	switch {
	case g.Fencing == engine.FencingMemory:
		return []string{history.Memory, history.Clock}
	case g.Scope == engine.ScopeCluster && g.CrashRelease == engine.CrashTTL && g.Failover != engine.FailoverConsensus:
		return []string{history.Clock}
	}
	return nil
}

// Declares puts what an engine declares into the words of a history.
func Declares(g engine.Guarantees, ttl time.Duration) history.Declares {
	d := history.Declares{
		Assumes: assumes(g),
		Order:   "none", Modes: strings.Split(g.Modes.String(), ", "), Fencing: "none", CrashRelease: "ttl", Detach: g.Detach,
		MayDouble: g.Failover == engine.FailoverMayDouble, Bound: bound(ttl), Longest: g.MaxTTL,
	}
	if g.Order == engine.FIFO {
		d.Order = "fifo"
	}
	switch g.Fencing {
	case engine.FencingMemory:
		d.Fencing = "memory"
	case engine.FencingAlways:
		d.Fencing = "always"
	}
	switch g.CrashRelease {
	case engine.CrashSession:
		d.CrashRelease = "session"
	case engine.CrashAtOnce:
		d.CrashRelease = "at once"
	}
	return d
}
