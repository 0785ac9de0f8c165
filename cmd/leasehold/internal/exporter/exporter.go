// Package exporter serves what the queues of one engine look like to Prometheus: who
// holds, who waits and since when, by prefix of names. It reads the engine as
// "leasehold ls" does.
//
// # What it promises
//
//   - The engine is read when somebody scrapes. One reading serves all scrapes until
//     Options.Every has passed since its end, and there is never more than one at a time.
//   - A scrape is answered within Options.Within, even if the engine hangs.
//   - A reading that failed has no figures: those of before are not shown again.
//   - The number of time series does not depend on the names in the engine. It is bounded
//     by Options.Prefixes and Options.ByName.
//   - A reading looks at Options.MaxNames names of each prefix at most, and says when
//     there were more.
//
// # What it cannot promise
//
// The queues are read one after the other, so the figures may not have been true at any
// one moment. Ages come from the clocks of those who asked.
package exporter

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"leasehold/engine"
)

// Engine is what an exporter reads; *leasehold.Client is one.
type Engine interface {
	Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error]
	Guarantees() engine.Guarantees
	Close() error
}

// Bounds of Options.
const (
	MaxPrefixes = 100
	MaxByName   = 100
	MinEvery    = 100 * time.Millisecond
	MaxEvery    = time.Hour
	MinWithin   = 100 * time.Millisecond
	MaxWithin   = time.Minute
)

// Options say what is read and shown. Every field but Prefixes, ByName, Show and Failed is
// needed.
type Options struct {
	// Open opens the engine. A reading calls it if no call has succeeded yet.
	Open func(context.Context) (Engine, error)

	// Prefixes choose the names that are read. Each is a value of the label "prefix".
	// None is the one prefix "", which all names have. A name counts under each prefix
	// that it begins with.
	Prefixes []string

	// MaxNames bounds the names of a reading, for each prefix that no other covers.
	MaxNames int

	// ByName is for how many names there are time series: those whose waiters have
	// waited longest. 0 is none.
	ByName int

	// Every is how long a reading serves scrapes.
	Every time.Duration

	// Within is how long a reading may take, and so the longest that a scrape takes.
	Within time.Duration

	// Show is a name as a value of a label: UTF-8, and different for different names. nil
	// is strconv.Quote.
	Show func(name string) string

	// Failed is told when a reading fails and the one before did not, and of nil when one
	// is good again. It is not told of the first reading, whose error Read returns. No two
	// calls of it overlap, and scrapes do not wait for it. nil is nobody.
	Failed func(error)
}

// Check says what is wrong with options, if anything is.
func (o *Options) Check() error {
	switch {
	case o.MaxNames < 1:
		return fmt.Errorf("%d names are too few: read 1 at least", o.MaxNames)
	case o.ByName < 0 || o.ByName > MaxByName:
		return fmt.Errorf("%d names with time series of their own are outside 0 to %d", o.ByName, MaxByName)
	case o.Every < MinEvery || o.Every > MaxEvery:
		return fmt.Errorf("a reading every %v is outside %v to %v: give a time in between", o.Every, MinEvery, MaxEvery)
	case o.Within < MinWithin || o.Within > MaxWithin:
		return fmt.Errorf("a reading within %v is outside %v to %v: give a time in between", o.Within, MinWithin, MaxWithin)
	case len(o.Prefixes) > MaxPrefixes:
		return fmt.Errorf("%d prefixes are more than %d: leave some out", len(o.Prefixes), MaxPrefixes)
	}
	for i, p := range o.Prefixes {
		if slices.Contains(o.Prefixes[:i], p) {
			return fmt.Errorf("the prefix %q is given twice", p)
		}
		if p == "" {
			continue // all names
		}
		if err := engine.CheckName(p); err != nil {
			return fmt.Errorf("no name begins with the prefix %q: %w", p, err)
		}
	}
	return nil
}

// Exporter answers scrapes.
type Exporter struct {
	readings *readings
	handler  http.Handler
	engine   *source
}

// New returns an Exporter of checked options. Nothing is opened or read yet.
func New(o Options) (*Exporter, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if len(o.Prefixes) == 0 {
		o.Prefixes = []string{""}
	}
	if o.Show == nil {
		o.Show = strconv.Quote
	}
	src := &source{open: o.Open}
	x := &Exporter{engine: src, readings: &readings{every: o.Every, within: o.Within, failed: o.Failed, read: func(ctx context.Context) (*figures, error) {
		eng, err := src.engine(ctx)
		if err != nil {
			return nil, err
		}
		return read(ctx, eng, &o)
	}}}
	registry := prometheus.NewRegistry()
	if err := registry.Register(&collector{readings: x.readings, show: o.Show}); err != nil {
		return nil, err
	}
	x.handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
	return x, nil
}

// maxScrapes bounds the scrapes that are answered at once. More are refused with 503.
const maxScrapes = 256

// Read is one reading, or what the last one said. It returns what that failed for.
func (x *Exporter) Read() error { return x.readings.get().err }

// Close ends a reading that goes on and closes the engine.
func (x *Exporter) Close() error {
	x.readings.close()
	return x.engine.close()
}

// source is an engine that is opened when it is needed. One reading at a time calls it.
type source struct {
	open   func(context.Context) (Engine, error)
	opened Engine
}

func (s *source) engine(ctx context.Context) (Engine, error) {
	if s.opened != nil {
		return s.opened, nil
	}
	eng, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	s.opened = eng
	return eng, nil
}

// close is called once no reading goes on any more.
func (s *source) close() error {
	if s.opened == nil {
		return nil
	}
	return s.opened.Close()
}

// errLate is what a reading failed for that did not end in time.
var errLate = errors.New("the engine did not answer in time")
