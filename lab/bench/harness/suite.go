package harness

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// Us is what our own competitor is called in every suite; further forms of it (on
// another engine of the same suite) begin so too.
const Us = "leasehold"

// Suite is one engine's competitors, baselines, workloads and bars. One file of package
// main makes one.
type Suite struct {
	Name        string
	Title       string
	Competitors []Competitor // in the order of the tables
	Workloads   []Workload
	Targets     []Target
	Start       func(ctx context.Context) (*Stage, error)
}

// Competitor finds a competitor by name.
func (f *Suite) Competitor(name string) (Competitor, error) {
	for _, p := range f.Competitors {
		if p.Name == name {
			return p, nil
		}
	}
	return Competitor{}, fmt.Errorf("suite %s has no competitor %q", f.Name, name)
}

// Stage is a suite's servers.
type Stage struct {
	Suite   string
	At      Endpoint
	Servers []string // what runs, with versions, for the report
	Scale   Scale

	// Reset brings the servers back to empty, before every measurement.
	Reset func(ctx context.Context) error

	// ServerCPU, if the suite can tell, is the CPU time its servers took so far.
	ServerCPU func() (time.Duration, error)

	// Keepalive is the command with which idle connections are kept open. It
	// belongs to no lock and is left out of what a lock costs, unless the competitor
	// is called like it; what waiting and holding cost includes it.
	Keepalive string

	// Counted begins to count requests on the wire: at leads to the same
	// servers through proxies.
	Counted func() (*Traffic, error)

	Close func()
}

// Wire counts the requests that pass it.
type Traffic struct {
	At       Endpoint
	Requests func() map[string]int // by command, without what sets connections up
	Forget   func()
	Close    func()
}

// Scale is how long things take.
type Scale struct {
	Quick  bool
	Rounds int
}

// Window is the time a measurement takes: a quarter of it for a quick look.
func (s Scale) Window(full time.Duration) time.Duration {
	if s.Quick {
		return full / 4
	}
	return full
}

// Workload is one thing that all competitors are made to do.
type Workload struct {
	ID    string
	Title string
	How   string // one or two sentences for the report

	Competitors []string // who takes part, by name
	Columns     []Column

	// Main is the column that ratios compare; Lower says that less is better.
	Main  string
	Lower bool

	Once      bool // one round is enough: nothing here depends on the machine's mood
	SkipQuick bool // too long for a quick look

	Measure func(ctx context.Context, s *Stage, p Competitor) (Sample, error)

	// Count, if there is one, measures once more after the rounds what must
	// not disturb the clock: requests on the wire.
	Count func(ctx context.Context, s *Stage, p Competitor) (Sample, error)
}

// Column is one figure of a workload's table.
type Column struct {
	Key  string
	Head string
	Unit Unit
}

// Unit says how a figure is printed.
type Unit int

// Units.
const (
	Plain Unit = iota
	Nanoseconds
	Percent
)

// Format prints a figure.
func (u Unit) Format(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case u == Percent:
		return short(100*v) + " %"
	case u != Nanoseconds:
		return short(v)
	}
	for _, x := range []struct {
		below float64
		unit  string
	}{{1e3, "ns"}, {1e6, "µs"}, {1e9, "ms"}} {
		if math.Abs(v) < x.below {
			return short(v/x.below*1e3) + " " + x.unit
		}
	}
	return short(v/1e9) + " s"
}

// Sample is what one round measured.
type Sample struct {
	Figures map[string]float64
	Faults  map[string]int64
	Cause   string
	Traffic map[string]float64 // requests by command, in the unit of the figure
}

// Keys of figures that several workloads have.
const (
	Rate     = "rate"     // pairs or owner changes per second
	P50      = "p50"      // nanoseconds
	P99      = "p99"      // nanoseconds
	Longest  = "max"      // nanoseconds
	CPU      = "cpu"      // of the clients, nanoseconds per pair
	Server   = "server"   // CPU of the servers, nanoseconds per pair
	Fair     = "jain"     // Jain's index of what each actor got
	Never    = "unserved" // actors that got nothing
	Spread   = "maxmin"   // most served by least served actor
	Requests = "requests" // on the wire, per pair
	Renews   = "renews"   // of these, engine calls that renew
)

// Columns that several workloads have.
var (
	ColPairs    = Column{Rate, "pairs/s", Plain}
	ColChanges  = Column{Rate, "owner changes/s", Plain}
	ColP50      = Column{P50, "p50", Nanoseconds}
	ColP99      = Column{P99, "p99", Nanoseconds}
	ColMax      = Column{Longest, "longest", Nanoseconds}
	ColCPU      = Column{CPU, "client CPU/pair", Nanoseconds}
	ColServer   = Column{Server, "server CPU/pair", Nanoseconds}
	ColFair     = Column{Fair, "Jain", Plain}
	ColNever    = Column{Never, "never served", Plain}
	ColRequests = Column{Requests, "requests/pair", Plain}
)

// Faults that break a lock rather than slow it down.
const (
	FaultOverlap = "holds overlapped"
	FaultLost    = "updates lost"
	FaultStuck   = "hung on a free lock"
	FaultDeaf    = "hung after the end"
)

// Sample turns an outcome into figures. Rate counts owner changes where a name
// is shared and pairs where it is not.
func (o *Outcome) Sample(l Load) Sample {
	seconds := o.Window.Seconds()
	var served int64
	for _, n := range o.Served {
		served += n
	}
	s := Sample{Cause: o.Cause, Faults: o.Faults(), Figures: map[string]float64{
		Rate:    float64(served) / seconds,
		P50:     Percentile(o.Latency, 0.5),
		P99:     Percentile(o.Latency, 0.99),
		Longest: Percentile(o.Latency, 1),
		CPU:     float64(o.CPU) / float64(served),
	}}
	if l.Names == 1 {
		s.Figures[Fair] = Jain(o.Served)
		s.Figures[Never] = float64(Unserved(o.Served))
		if len(o.Served) > 0 {
			s.Figures[Spread] = float64(slices.Max(o.Served)) / float64(slices.Min(o.Served))
		}
	}
	return s
}

// Faults is what went wrong, without what did not.
func (o *Outcome) Faults() map[string]int64 {
	f := map[string]int64{}
	for name, n := range map[string]int64{
		FaultOverlap:                  int64(o.Overlaps),
		FaultLost:                     o.LostUpd,
		"Lock gave up":                o.GaveUp,
		"Unlock failed":               o.Errors,
		FaultStuck:                    o.Stuck,
		"relays stalled for a second": o.Stalled,
		FaultDeaf:                     o.Deaf,
		"still waiting when cut off":  o.Cut,
		"lost while held":             o.Lost,
		"never obtained":              o.Failed,
		"workers that never answered": int64(o.Silent),
	} {
		if n != 0 {
			f[name] = n
		}
	}
	return f
}
