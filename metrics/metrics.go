package metrics

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"leasehold"
	"leasehold/engine"
)

// Options are the choices of Metrics. The zero value has no label for names.
type Options struct {
	// NameOf makes the value of the label LabelName from the name of a lock: "order/17"
	// could become "order". It is called for every event, so it should be quick, and by
	// several goroutines at a time. Default: names are not labels.
	NameOf func(name string) string

	// MaxNames is how many values of NameOf each engine has. A value that comes when
	// there are as many is OtherName. Default 50.
	MaxNames int

	// Bounds are the upper bounds of the histograms' buckets, rising. Default:
	// DefaultBounds.
	Bounds []time.Duration

	// Record, if it is set, receives each duration that waitDuration ("leasehold.wait.duration",
	// with the outcome) or holdDuration (without) counts, besides the histogram of this
	// package: for a library that has histograms of its own. It must not block.
	Record func(Record)
}

// Record is one duration.
type Record struct {
	Event   leasehold.Event // EventHeld, EventHandoff, EventGaveUp: Waited; EventReleased, EventLost: Held
	Engine  string
	Name    string // the folded name; "" without NameOf
	Outcome string // of waiting: OutcomeHeld, OutcomeGaveUp; "" for the time that a lease was held
}

// The outcomes of waiting.
const (
	OutcomeHeld   = "held"
	OutcomeGaveUp = "gave_up"
)

// OtherName is the value of LabelName for names beyond Options.MaxNames.
const OtherName = "other"

// DefaultBounds returns the decades from 1 ms to 100 s.
func DefaultBounds() []time.Duration {
	return []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond, time.Second, 10 * time.Second, 100 * time.Second}
}

// Metrics are the numbers of some Clients. Its methods are safe for concurrent use.
type Metrics struct {
	opts    Options
	mu      sync.Mutex
	engines map[string]*numbers
}

// numbers are those of one engine.
type numbers struct {
	engine string
	opts   *Options
	alone  *series                            // of everything, without NameOf
	byName atomic.Pointer[map[string]*series] // with NameOf; replaced by a larger one under mu
	mu     sync.Mutex                         // of what follows, and of who replaces byName

	outages atomic.Uint64

	clients []*watched
	failed  uint64 // of clients that are closed, as they were when last seen
}

// watched is one Client of an engine.
type watched struct {
	*numbers
	client *leasehold.Client
	failed uint64      // when last seen
	wrong  atomic.Bool // its server is not configured as declared, as it learned last
}

// New returns Metrics without a Client. It refuses bounds that do not rise.
func New(o Options) (*Metrics, error) {
	if o.Bounds == nil {
		o.Bounds = DefaultBounds()
	}
	o.Bounds = slices.Clone(o.Bounds)
	for i, b := range o.Bounds {
		if b <= 0 || i > 0 && b <= o.Bounds[i-1] {
			return nil, fmt.Errorf("metrics: Bounds %v do not rise from above 0: give upper bounds, the smallest first", o.Bounds)
		}
	}
	if o.MaxNames < 0 {
		return nil, errors.New("metrics: MaxNames is negative: leave it out for 50")
	}
	if o.MaxNames == 0 {
		o.MaxNames = 50
	}
	return &Metrics{opts: o, engines: map[string]*numbers{}}, nil
}

// Names reports whether there is a NameOf, and so a label LabelName.
func (m *Metrics) Names() bool { return m.opts.NameOf != nil }

// Client is leasehold.New with a Client that is counted. name is the value of
// LabelEngine, in UTF-8: "redis", or what tells two servers apart. Several Clients may
// have the same: their numbers are added. Options.Observer goes on receiving all events. A
// closed Client holds nothing and waits for nothing, but its counts stay.
func (m *Metrics) Client(eng engine.Engine, name string, o *leasehold.Options) (*leasehold.Client, error) {
	if name == "" {
		return nil, errors.New("metrics: the name of the engine is empty: give what its label should say, such as redis")
	}
	if !utf8.ValidString(name) {
		return nil, fmt.Errorf("metrics: the name of the engine, %q, is not valid UTF-8, as labels must be: give other text, such as redis", name)
	}
	var opts leasehold.Options
	if o != nil {
		opts = *o
	}
	n := m.numbers(name)
	w := &watched{numbers: n}
	if next := opts.Observer; next == nil {
		opts.Observer = w.observe // an Event is large: it is copied once less
	} else {
		opts.Observer = func(e leasehold.Event) {
			w.observe(e)
			next(e)
		}
	}
	c, err := leasehold.New(eng, &opts)
	if err != nil {
		return nil, err
	}
	n.stats() // whoever makes many Clients, and never reads, keeps no closed ones
	n.mu.Lock()
	w.client = c
	n.clients = append(n.clients, w)
	n.mu.Unlock()
	return c, nil
}

func (m *Metrics) numbers(name string) *numbers {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.engines[name]
	if n == nil {
		n = &numbers{engine: name, opts: &m.opts}
		if m.opts.NameOf == nil {
			n.alone = newSeries(m.opts.Bounds)
		}
		n.byName.Store(&map[string]*series{})
		m.engines[name] = n
	}
	return n
}

func (w *watched) observe(e leasehold.Event) {
	n := w.numbers
	switch e.Kind {
	case leasehold.EventEngineDown:
		n.outages.Add(1)
		return
	case leasehold.EventSettings:
		w.wrong.Store(e.Err != nil)
		return
	case leasehold.EventEngineUp, leasehold.EventWaiting, leasehold.EventRenewed:
		return
	}
	s, name := n.series(e.Name)
	s.count(&e)
	if n.opts.Record == nil {
		return
	}
	r := Record{Event: e, Engine: n.engine, Name: name}
	switch e.Kind {
	case leasehold.EventHeld, leasehold.EventHandoff:
		r.Outcome = OutcomeHeld
	case leasehold.EventGaveUp:
		r.Outcome = OutcomeGaveUp
	case leasehold.EventReleased, leasehold.EventLost:
	default:
		return
	}
	n.opts.Record(r)
}

// series returns the numbers of a name, and what the name was folded into.
func (n *numbers) series(name string) (*series, string) {
	if n.alone != nil {
		return n.alone, ""
	}
	name = n.opts.NameOf(name)
	if s := (*n.byName.Load())[name]; s != nil {
		return s, name
	}
	name = strings.ToValidUTF8(name, "\uFFFD") // NameOf may have cut a character in two, and labels must be UTF-8
	n.mu.Lock()
	defer n.mu.Unlock()
	have := *n.byName.Load()
	if have[name] == nil && name != OtherName && len(have) >= n.opts.MaxNames {
		name = OtherName
	}
	s := have[name]
	if s == nil {
		// Readers have no lock: they see the old map or the new one, and both are
		// right. It is copied MaxNames times at most.
		have = maps.Clone(have)
		s = newSeries(n.opts.Bounds)
		have[name] = s
		n.byName.Store(&have)
	}
	return s, name
}

// Value is one value of a Metric.
type Value struct {
	Metric       *Metric       // of List
	Labels       []string      // the values of Metric.Labels
	Number       float64       // of a Counter or a Gauge
	Distribution *Distribution // of a Histogram
}

// All returns every value as it is now, ordered by engine and name. It asks no engine.
func (m *Metrics) All() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		list := List(m.Names())
		m.mu.Lock()
		engines := slices.SortedFunc(maps.Values(m.engines), func(a, b *numbers) int {
			if a.engine < b.engine {
				return -1
			}
			return 1
		})
		m.mu.Unlock()
		for _, n := range engines {
			if !n.all(list, yield) {
				return
			}
		}
	}
}

func (n *numbers) all(list []Metric, yield func(Value) bool) bool {
	byName := *n.byName.Load()
	if n.alone != nil {
		byName = map[string]*series{"": n.alone}
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if !n.ofName(list, name, byName[name], yield) {
			return false
		}
	}
	now := list[len(list)-8:]
	st, open, wrong := n.stats()
	for i, v := range []float64{float64(n.outages.Load()), float64(st.Failed), float64(st.Held), float64(st.Waiting), one(st.DownFor == 0), one(wrong),
		st.Trust.Seconds(), st.TrustPart} {
		switch now[i].Name {
		case trustRemaining.Name, trust.Name:
			if st.Trust == 0 {
				continue
			}
		case up.Name, misconfigured.Name:
			if open == 0 {
				continue // nobody asks the engine any more
			}
		}
		if !yield(Value{Metric: &now[i], Labels: []string{n.engine}, Number: v}) {
			return false
		}
	}
	return true
}

func (n *numbers) ofName(list []Metric, name string, s *series, yield func(Value) bool) bool {
	labels := func(also ...string) []string {
		all := append([]string{n.engine}, also...)
		if n.alone == nil {
			all = append(all, name)
		}
		return all
	}
	ok := true
	put := func(metric int, number float64, d *Distribution, also ...string) {
		ok = ok && yield(Value{Metric: &list[metric], Labels: labels(also...), Number: number, Distribution: d})
	}
	for i, outcome := range []string{OutcomeHeld, OutcomeGaveUp} {
		put(0, 0, s.wait[i].distribution(), outcome)
	}
	put(1, 0, s.hold.distribution())
	for i, by := range []string{"claim", "handoff"} {
		put(2, float64(s.granted[i].Load()), nil, by)
	}
	for i, reason := range gaveUpReasons {
		put(3, float64(s.gaveUp[i].Load()), nil, reason)
	}
	for i, reason := range lostReasons {
		put(4, float64(s.lost[i].Load()), nil, reason)
	}
	put(5, float64(s.revoked.Load()), nil)
	put(6, float64(s.victims.Load()), nil)
	return ok
}

// stats adds what the open Clients do, says how many there are, and whether the server of
// one is not configured as declared. Closed ones leave.
func (n *numbers) stats() (sum leasehold.Stats, open int, wrong bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.clients = slices.DeleteFunc(n.clients, func(w *watched) bool {
		st := w.client.Stats()
		if st.Closed {
			// A counter must not fall: what a Client that is gone had counted stays, as
			// it was seen last.
			n.failed += w.failed
			return true
		}
		w.failed = st.Failed
		wrong = wrong || w.wrong.Load()
		open++
		sum.Held += st.Held
		sum.Waiting += st.Waiting
		sum.Failed += st.Failed
		sum.DownFor = max(sum.DownFor, st.DownFor)
		if st.Trust > 0 && (sum.Trust == 0 || st.Trust < sum.Trust) {
			sum.Trust = st.Trust
		}
		if st.Trust > 0 && (sum.TrustPart == 0 || st.TrustPart < sum.TrustPart) {
			sum.TrustPart = st.TrustPart
		}
		return false
	})
	sum.Failed += n.failed
	return sum, open, wrong
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
