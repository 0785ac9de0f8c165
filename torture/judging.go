package torture

import (
	"time"

	"leasehold/torture/check"
)

// judging counts violations while a trial runs, at a twentieth of a processor at most.
type judging struct {
	t    *trial
	busy chan struct{} // of capacity 1: a judgement is under way
	next time.Time     // of whoever has busy
}

// least is the shortest pause between two judgements.
const least = time.Second

func newJudging(t *trial) *judging {
	return &judging{t: t, next: time.Now().Add(least), busy: make(chan struct{}, 1)}
}

// look begins a judgement if it is time for one, and none is under way.
func (j *judging) look() {
	select {
	case j.busy <- struct{}{}:
	default:
		return
	}
	if time.Now().Before(j.next) {
		<-j.busy
		return
	}
	go func() {
		defer func() { <-j.busy }()
		began := time.Now()
		j.count()
		j.next = time.Now().Add(max(least, 20*time.Since(began)))
	}()
}

// end waits for the judgement that is under way.
func (j *judging) end() { j.busy <- struct{}{} }

// count judges what was written so far. What fails here fails at the end, which says so.
func (j *judging) count() {
	w := j.t.witness
	w.mu.Lock()
	err := w.flush()
	w.mu.Unlock()
	if err != nil {
		return
	}
	events, err := read(j.t.o.Dir)
	if err != nil {
		return
	}
	result, err := check.History(events, check.Options{})
	if err != nil {
		return
	}
	if j.t.o.Judged != nil {
		j.t.o.Judged(result)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Violations = Violations(result)
}
