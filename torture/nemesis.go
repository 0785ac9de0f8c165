package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"leasehold/torture/history"
)

// Nemesis is a kind of fault.
type Nemesis interface {
	Name() string

	// Strike does the fault once, lets it last, and heals it, even if ctx ends. Only one
	// Strike of a trial runs at a time. An error means that the fault cannot come: the
	// nemesis is left out from then on.
	Strike(ctx context.Context, s *Strike) error
}

// Preparer is a Nemesis that needs something before the clients begin. An error means that
// it cannot strike in this trial.
type Preparer interface {
	Prepare(ctx context.Context, g *Ground) error
}

// Ground is what a trial is made on.
type Ground struct {
	Open Open
	URL  string // a Preparer may put another way to the same engine here
	TTL  time.Duration

	groups   *groups // of the clients; nil: no nemesis needs them
	cleanups []func() error
}

// Cleanup has f called when the clients have ended, last first. An error is one of the notes
// of the trial.
func (g *Ground) Cleanup(f func() error) { g.cleanups = append(g.cleanups, f) }

func (g *Ground) end() (err error) {
	for _, f := range slices.Backward(g.cleanups) {
		err = errors.Join(err, f())
	}
	return err
}

// inGroups has each client run in a control group of its own.
func (g *Ground) inGroups() (_ *groups, err error) {
	if g.groups == nil {
		if g.groups, err = newGroups(); err != nil {
			return nil, err
		}
		g.Cleanup(g.groups.end)
	}
	return g.groups, nil
}

// Strike is one fault.
type Strike struct {
	Rand *rand.Rand
	TTL  time.Duration

	w      *witness
	fault  int
	named  string
	breaks []string
	begun  bool
	bit    bool
	over   bool
}

// Begin records that the fault begins: for one client, or for a target in words.
func (s *Strike) Begin(client, target string) {
	s.begun = true
	s.w.mu.Lock()
	s.w.status.Strikes++
	s.w.mu.Unlock()
	s.w.record(history.Event{Kind: history.Strike, Fault: s.fault, Named: s.named, Client: client, Target: target, Breaks: s.breaks})
}

// Breaks says what the fault breaks that an engine may rest on: history.Failover, Memory or
// Clock. Call it before Begin.
func (s *Strike) Breaks(what ...string) { s.breaks = what }

// Bit records an effect of the fault that was seen. The first counts.
func (s *Strike) Bit(format string, args ...any) {
	if s.bit {
		return
	}
	s.bit = true
	s.w.mu.Lock()
	s.w.status.Bits++
	s.w.mu.Unlock()
	s.w.record(history.Event{Kind: history.Bit, Fault: s.fault, Error: fmt.Sprintf(format, args...)})
}

// Heal records that the fault is over, if it began.
func (s *Strike) Heal() {
	if s.begun && !s.over {
		s.over = true
		s.w.record(history.Event{Kind: history.Heal, Fault: s.fault})
	}
}

// Last waits for 0.5 to 3 TTLs, or until ctx ends.
func (s *Strike) Last(ctx context.Context) {
	wait(ctx, s.TTL/2+time.Duration(s.Rand.Int64N(int64(5*s.TTL/2))))
}

// wait waits until ctx ends at most.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// victim is a random client. Those that hold something are preferred: a fault that hits
// nobody shows nothing. It is nil if no client runs.
func (s *Strike) victim() *client {
	all := s.w.running()
	s.Rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, c := range all {
		if holds, _ := c.busy(); holds > 0 {
			return c
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

// Trouble is how many calls have failed, leases were lost and clients found the engine
// away since the trial began.
func (s *Strike) Trouble() int {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	return s.w.trouble
}

// torment has faults strike until ctx ends. A strike comes at any moment of the interval
// at which leases are renewed, which is a third of the TTL: the pauses before it are
// random, and longer than that. Every fourth pause is long enough for every name to be
// granted again.
func (w *witness) torment(ctx context.Context, nemeses []Nemesis, rng *rand.Rand, ttl time.Duration, note func(string)) {
	for n := 1; ; n++ {
		pause := ttl/3 + time.Duration(rng.Int64N(int64(2*ttl)))
		if n%4 == 0 {
			pause += bound(ttl)
		}
		if wait(ctx, pause); ctx.Err() != nil || len(nemeses) == 0 {
			return
		}
		at := rng.IntN(len(nemeses))
		s := &Strike{Rand: rng, TTL: ttl, w: w, fault: n, named: nemeses[at].Name()}
		w.stirs()
		err := nemeses[at].Strike(ctx, s)
		s.Heal()
		if err == nil || !s.begun { // else what it broke may stay so
			w.calms()
		}
		if err != nil && ctx.Err() == nil {
			note(fmt.Sprintf("%s was left out: %v", s.named, err))
			nemeses = slices.Delete(slices.Clone(nemeses), at, at+1)
		}
	}
}
