package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"leasehold/engine"
	"leasehold/fence"
	"leasehold/lab/bench/harness"
)

const (
	// ttl is that of every lease, and of the engine where it has one of its own.
	ttl = 2 * time.Second
	// outage is how long a fault that heals lasts.
	outage = 3 * ttl
	// bound is how long a trial waits for the next holders.
	bound = 60 * time.Second
	// samples is how many names one holder has, and the next one waits for.
	samples = 5
)

// world is one engine with two ways in, and what the fault does to it.
type world struct {
	holder, next string // URLs
	do           func() error
	heal         func() error           // after outage; nil: there is nothing to heal
	hit          func(name string) bool // which names the fault is about; nil: all
	names        int                    // how many to lock so that some are hit; 0: samples
}

// row is one line of the document: an engine, a fault and what came of it.
type row struct {
	engine, fault string
	why           string // not empty: the engine cannot have the fault, and why
	void          string // not empty: it should have been run and could not be, and why
	start         func(s *stage, f string) world
	allowed       time.Duration // two may hold for so long, by the engine's guarantee
	fencing       bool          // tokens must rise
	falls         bool          // but for this fault, after which the resource refuses who holds next
	shows         bool          // two must hold, or the trial is too weak
	lease         time.Duration // the TTL of both holders' leases; zero: ttl
	away          time.Duration // how long a fault that heals lasts; zero: outage

	next     []time.Duration // from the fault to the next holder, sorted
	notified []time.Duration // from the fault to the old one being told
	kept     int             // leases that the fault did not end
	untold   int             // leases whose holder had not been told when the next one held
	idle     int             // next holders who wrote nothing
	stuck    string          // not empty: after the fault somebody never held, and who
	hit      int
	overlap  time.Duration // the longest
	fell     int           // next holders whose token did not rise
	lost     int           // updates that vanished from the unfenced resource
	refused  int           // reads and writes that the fenced one refused
	lostSafe int           // updates that vanished from the fenced one
}

// resource is what holders of one name write to: two numbers, each read, added to
// and written back. The second is fenced.
type resource struct {
	unfenced, fenced       int
	written, writtenFenced int // how many writes each let in
}

// history is what one trial has heard of one name.
type history struct {
	resource
	first, second said // "holds" of the two
	lost          said // of the first
	until         int64
	kept          bool // the fault did not end it
	later         int  // writes of the second that the fenced resource let in
	thinks        bool // the first has read and not yet written
}

// measure runs the trial.
func (r *row) measure(ctx context.Context) {
	err := play(func(s *stage) { r.on(ctx, s) })
	var not unable
	if errors.As(err, &not) {
		r.void = "could not be run: " + strings.TrimSpace(not.why)
	}
}

// observer hears both workers and is the resources.
type observer struct {
	mu      sync.Mutex
	changed chan struct{}
	names   map[string]*history
	marks   fence.Memory
	asks    int
	fails   string
	refused int
}

func (o *observer) receive(p *process, first bool) {
	for s := range p.said {
		o.mu.Lock()
		h := o.names[s.Name]
		switch s.Kind {
		case "asks":
			o.asks++
		case "holds":
			if first {
				h.first = s
			} else {
				h.second = s
			}
		case "lost":
			if first {
				h.lost = s
			}
		case "fails":
			o.fails = s.Why
		case "reads":
			// Whoever reads what they will write back shows the token at once: else the
			// old one's write could come between the new one's read and write.
			o.fence(s, func() {})
			p.notify(answer{s.Name, [2]int{h.unfenced, h.fenced}})
			h.thinks = h.thinks || first
		case "writes":
			h.thinks = h.thinks && !first
			h.unfenced = s.Sum[0]
			h.written++
			o.fence(s, func() {
				h.fenced = s.Sum[1]
				h.writtenFenced++
				if !first {
					h.later++
				}
			})
			p.notify(answer{s.Name, [2]int{h.unfenced, h.fenced}})
		}
		if first && s.Until > h.until {
			h.until = s.Until
		}
		close(o.changed)
		o.changed = make(chan struct{})
		o.mu.Unlock()
	}
}

// fence shows the fenced resource a token.
func (o *observer) fence(s said, do func()) {
	err := o.marks.Do(context.Background(), fence.Pass{Name: s.Name, Token: s.Token, Mode: engine.Exclusive}, func() error {
		do()
		return nil
	})
	if errors.Is(err, fence.ErrStale) {
		o.refused++
	}
}

// await waits until ok, which is called with the lock held.
func (o *observer) await(ctx context.Context, most time.Duration, ok func() bool) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	for {
		o.mu.Lock()
		done, changed := ok(), o.changed
		o.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-late.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

func (o *observer) all(of []string, ok func(*history) bool) func() bool {
	return func() bool {
		return !slices.ContainsFunc(of, func(name string) bool { return !ok(o.names[name]) })
	}
}

// on makes one trial: a holder, one who waits behind it, the fault.
func (r *row) on(ctx context.Context, s *stage) {
	w := r.start(s, r.fault)
	clock := harness.NewClock()
	o := &observer{changed: make(chan struct{}), names: map[string]*history{}}
	var names []string
	for i := range max(w.names, samples) {
		names = append(names, fmt.Sprintf("failures-%d", i))
		o.names[names[i]] = &history{}
	}
	first := launch(s, job{URL: w.holder, TTL: cmp.Or(r.lease, ttl), Names: names})
	go o.receive(first, true)
	if !o.await(ctx, bound, o.all(names, func(h *history) bool { return h.first.At != 0 })) {
		s.Fatalf("nobody held before the fault: %s %s", o.fails, first.errs)
	}
	second := launch(s, job{URL: w.next, TTL: cmp.Or(r.lease, ttl), Names: names})
	go o.receive(second, false)
	if !o.await(ctx, bound, func() bool { return o.asks == 2*len(names) }) {
		s.Fatalf("nobody waited before the fault: %s %s", o.fails, second.errs)
	}
	time.Sleep(time.Second + rand.N(ttl/3)) // they stand in the queue; the fault falls anywhere in a beat

	hit := names
	if w.hit != nil {
		if hit = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !w.hit(name) }); len(hit) == 0 {
			s.Fatalf("the fault was about no name")
		}
	}
	r.hit = len(hit)
	if r.fault == holderStopped && !o.await(ctx, bound, o.all(hit, func(h *history) bool { return h.thinks })) {
		s.Fatalf("the holder did not work before the fault: %s", first.errs)
	}
	at := clock.Now()
	stops := r.fault == holderStopped
	switch r.fault {
	case holderKilled:
		s.must(first.cmd.Process.Kill())
	case holderStopped:
		s.must(first.cmd.Process.Signal(syscall.SIGSTOP))
	default:
		s.must(w.do())
	}
	away := cmp.Or(r.away, outage)
	healed := time.AfterFunc(away, func() {
		var err error
		switch {
		case stops:
			err = first.cmd.Process.Signal(syscall.SIGCONT)
		case w.heal != nil:
			err = w.heal()
		}
		if err != nil { // then somebody never holds, and this says why
			o.mu.Lock()
			defer o.mu.Unlock()
			o.fails = "the fault was not healed: " + err.Error()
		}
	})
	defer healed.Stop()
	over := func(h *history) bool { return h.second.At != 0 && (h.lost.At != 0 || r.fault == holderKilled) }
	kept := away + 2*cmp.Or(r.lease, ttl) // how long a lease that no fault ended is watched
	if !o.await(ctx, kept, o.all(hit, over)) {
		// What no fault ended ends now, so that the next is seen to hold. Who was never
		// told by then has not lost.
		o.mu.Lock()
		for _, name := range hit {
			h := o.names[name]
			if h.kept = h.lost.At == 0 && h.second.At == 0; h.kept {
				r.kept++
			}
		}
		o.mu.Unlock()
		if r.kept > 0 {
			first.end()
		}
		o.await(ctx, bound, o.all(hit, func(h *history) bool { return h.second.At != 0 }))
	}
	time.Sleep(time.Second) // both go on: a write that comes late comes now

	o.mu.Lock()
	defer o.mu.Unlock()
	r.refused = o.refused
	for _, name := range hit {
		h := o.names[name]
		if h.second.At == 0 && ctx.Err() == nil {
			r.stuck = fmt.Sprintf("%s: nobody held within %v after the fault: %s %s", name, bound, o.fails, second.errs)
			continue
		}
		r.count(h, at, clock.Now())
	}
	slices.Sort(r.next)
	slices.Sort(r.notified)
}

// count takes in what was heard of a name that the fault was about.
func (r *row) count(h *history, at, now int64) {
	r.lost += h.written - h.unfenced
	r.lostSafe += h.writtenFenced - h.fenced
	if h.later == 0 {
		r.idle++
	}
	if h.second.Token <= h.first.Token {
		r.fell++
	}
	if h.kept {
		return // the next held when it was given back
	}
	r.next = append(r.next, time.Duration(h.second.At-at))
	switch {
	case r.fault == holderKilled:
		return
	case h.lost.At == 0:
		r.untold++
		h.lost.At = now // it holds to this moment
	default:
		r.notified = append(r.notified, time.Duration(h.lost.At-at))
	}
	ended := h.lost.At
	if r.fault == holderStopped {
		// A process that is stopped is not told, but its lease ends when it is no
		// longer to be trusted.
		ended = h.until
	}
	r.overlap = max(r.overlap, time.Duration(ended-h.second.At))
}

// ends are the faults after which no lease can go on: one that does shows that the
// fault never came.
var ends = []string{holderKilled, holderStopped, holderCut}

// wrong is what the engine's guarantee rules out, and why the trial shows nothing.
func (r *row) wrong() (wrong []string) {
	if r.why != "" {
		return nil
	}
	if r.void != "" {
		return []string{r.void}
	}
	if r.stuck != "" {
		wrong = append(wrong, r.stuck)
	}
	if r.untold > 0 {
		wrong = append(wrong, fmt.Sprintf("%d holders were not told, and others held", r.untold))
	}
	if r.idle > 0 && !r.falls {
		wrong = append(wrong, fmt.Sprintf("%d of those who held next wrote nothing to the fenced resource: the trial shows nothing of it", r.idle))
	}
	if r.fault == holderStopped && r.refused == 0 {
		wrong = append(wrong, "the stopped holder wrote nothing when it went on: the trial shows nothing")
	}
	if r.kept > 0 && slices.Contains(ends, r.fault) {
		wrong = append(wrong, fmt.Sprintf("%d leases went on: the fault did not come", r.kept))
	}
	if r.shows && r.overlap <= 0 {
		wrong = append(wrong, "two never held, though nothing kept them from it: the trial is too weak")
	}
	if r.overlap > r.allowed {
		wrong = append(wrong, fmt.Sprintf("two held for %v, and %v is the bound", r.overlap, r.allowed))
	}
	if r.fencing && r.fell > 0 && !r.falls {
		wrong = append(wrong, fmt.Sprintf("%d tokens did not rise", r.fell))
	}
	if r.fencing && r.lostSafe != 0 {
		wrong = append(wrong, fmt.Sprintf("%d updates vanished from the fenced resource", r.lostSafe))
	}
	return wrong
}
