package torture

import (
	"errors"
	"fmt"
	"time"
)

// place is where one client after the other runs.
type place struct {
	filled bool
	since  time.Duration // of calm: a client is missing since then
	why    error         // of the last one that could not begin; nil: it still tries
}

// mostMissing is how long a client may be missing without a fault, besides a TTL, which what a
// dead one left may last. A process on a busy machine takes seconds to begin.
const mostMissing = time.Minute

// worthNoting is from when on the result says that a client was missing.
const worthNoting = mostMissing / 2

// stirs says that a fault may be under way, until calms is called as often.
func (w *witness) stirs() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calm = w.calmLocked()
	w.stirred++
}

func (w *witness) calms() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stirred--; w.stirred == 0 {
		w.calmed = time.Now()
	}
}

// calmLocked is for how long no fault was under way, all in all.
func (w *witness) calmLocked() time.Duration {
	if w.stirred > 0 {
		return w.calm
	}
	return w.calm + time.Since(w.calmed)
}

// place makes a place whose client is to begin now.
func (w *witness) place() *place {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := &place{since: w.calmLocked()}
	w.places = append(w.places, p)
	return p
}

// fill says whether a client runs in a place, and if not why the last one could not begin.
func (w *witness) fill(p *place, filled bool, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if filled {
		w.longestLocked(p)
	}
	if p.filled {
		p.since = w.calmLocked()
	}
	p.filled, p.why = filled, why
}

// longestLocked notes for how long the client of a place is missing, if no other was for longer.
func (w *witness) longestLocked(p *place) {
	if long := w.calmLocked() - p.since; !p.filled && long > w.missed {
		w.missed, w.missedFor = long, p.why
	}
}

// missing is the longest time without a fault for which a client was missing, and why.
func (w *witness) missing() (long time.Duration, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.places {
		w.longestLocked(p)
	}
	if w.missedFor == nil {
		return w.missed, errors.New("it did not open the engine")
	}
	return w.missed, w.missedFor
}

// miss ends a trial that goes on without one of its clients: it would show less and less.
func (t *trial) miss() {
	if long, why := t.witness.missing(); long > mostMissing+t.o.TTL {
		t.witness.fail(fmt.Errorf("a client was missing for %v without a fault: %w; find out what keeps a new process from the engine", long.Round(time.Second), why))
	}
}

// noteMissing notes that a client was missing for a while.
func (t *trial) noteMissing() {
	if long, why := t.witness.missing(); long > worthNoting {
		t.note(fmt.Sprintf("a client was missing for %v without a fault: %v", long.Round(time.Second), why))
	}
}
