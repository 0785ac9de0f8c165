package torture

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/torture/history"
)

// trial is one run.
type trial struct {
	o       Options
	ground  *Ground
	witness *witness
	grants  engine.Guarantees
	names   []name
	raw     []string
	prefix  string

	mu     sync.Mutex
	failed error
	notes  []string
	number int64 // of the last client
}

// semaphoreLimit is that of the names that clients lock by permits.
const semaphoreLimit = 3

// Run makes a trial. When ctx ends early, the trial ends as it would have ended later, and
// its result is of what was seen; the error is nil. After an error the result says what is
// known, and a history that was begun is kept.
func Run(ctx context.Context, o Options) (*Result, error) {
	eng, err := o.Open(ctx, o.URL)
	if err != nil {
		return nil, err
	}
	grants := eng.Guarantees()
	closed := eng.Close() // the witness needs no engine until the end
	if err := errors.Join(closed, o.complete(grants)); err != nil {
		return nil, err
	}
	file, err := create(o.Dir)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriter(file)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &trial{
		o: o, grants: grants, prefix: "torture-" + strings.ToLower(rand.Text()[:10]) + "-",
		ground: &Ground{Open: o.Open, URL: o.URL, TTL: o.TTL},
	}
	t.witness = newWitness(buffered, func(err error) { t.fail(err); cancel() })
	t.choose()
	t.play(ctx)
	early := ctx.Err() != nil
	left := t.clean(context.WithoutCancel(ctx))
	if !early {
		t.witness.record(history.Event{Kind: history.End})
	}
	if err := t.ground.end(); err != nil {
		t.note(fmt.Sprintf("not everything was put back: %v", err))
	}
	r := t.result()
	r.Left = left
	return r, errors.Join(t.failed, buffered.Flush(), file.Close())
}

// fail remembers why the trial could not go on. The first reason counts.
func (t *trial) fail(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = err
	}
}

// choose makes the names.
func (t *trial) choose() {
	modes := t.grants.Modes
	for i := range t.o.Names {
		n := name{Name: fmt.Sprintf("%s%d", t.prefix, i), Limit: engine.Max, Share: modes&engine.Shared != 0}
		if i%4 == 3 && modes&engine.Permits != 0 {
			n.Limit, n.Share = semaphoreLimit, false
		}
		t.names = append(t.names, n)
	}
	// As many as clients, for calls of the engine itself: few enough that claims meet, and
	// no more claims on one than a checker can follow.
	for i := range max(2, t.o.Clients) {
		t.raw = append(t.raw, t.prefix+rawName(i))
	}
	t.witness.rawNames = len(t.raw)
}

// rawName is the name i. The names of two pairs differ in case only, and an engine must tell
// them apart.
func rawName(i int) string {
	return fmt.Sprintf("%s-%d", []string{"raw", "Raw"}[i/2%2], i/4*2+i%2)
}

func (t *trial) note(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.notes = append(t.notes, text)
}

// play runs the clients, the faults, and a calm at the end, in which what was waited for
// must be granted.
func (t *trial) play(ctx context.Context) {
	nemeses := t.prepare(ctx)
	t.witness.groups = t.ground.groups
	t.begin(nemeses)
	clients, endClients := context.WithCancel(context.WithoutCancel(ctx))
	defer endClients()
	faults, endFaults := context.WithCancel(ctx)
	defer endFaults()
	var locking, begun sync.WaitGroup
	begun.Add(t.o.Clients)
	ready := make(chan struct{})
	go func() {
		begun.Wait()
		close(ready)
	}()
	for range t.o.Clients {
		locking.Go(func() {
			// It has what it holds to end, and a call that is not answered.
			if err := t.witness.keep(clients, t.next, begun.Done, 3*t.o.TTL+15*time.Second); err != nil {
				t.witness.fail(err)
			}
		})
	}
	until := time.Now().Add(t.o.For)
	calm := min(bound(t.o.TTL), t.o.For/2)
	var faulty sync.WaitGroup
	faulty.Go(func() {
		within, cancel := context.WithDeadline(faults, until.Add(-calm))
		defer cancel()
		select {
		case <-ready: // a client that a fault keeps from its first opening of the engine ends the trial
		case <-within.Done():
		}
		t.witness.torment(within, nemeses, mathrand.New(mathrand.NewPCG(t.o.Seed, math.MaxUint64)), t.o.TTL, t.note)
	})
	t.watch(ctx, until)
	endFaults()
	faulty.Wait()
	t.noteMissing()
	endClients()
	locking.Wait()
	if t.o.Status != nil {
		t.o.Status(t.status(until))
	}
}

// prepare gets the nemeses ready, and returns those that can strike.
func (t *trial) prepare(ctx context.Context) (ready []Nemesis) {
	for _, n := range t.o.Nemeses {
		if p, ok := n.(Preparer); ok {
			if err := p.Prepare(ctx, t.ground); err != nil {
				t.note(fmt.Sprintf("%s was left out: %v", n.Name(), err))
				continue
			}
		}
		ready = append(ready, n)
	}
	return ready
}

// begin writes the first event.
func (t *trial) begin(nemeses []Nemesis) {
	run := &history.Run{
		Version: t.o.Version, Engine: t.o.Shown, Seed: t.o.Seed, TTL: t.o.TTL, For: t.o.For, Clients: t.o.Clients,
		Settings: t.o.Settings, Declares: Declares(t.grants, t.o.TTL),
	}
	if run.Engine == "" {
		run.Engine, _, _ = strings.Cut(t.o.URL, ":")
	}
	for _, n := range t.names {
		run.Names = append(run.Names, n.Name)
	}
	for _, n := range nemeses {
		run.Nemeses = append(run.Nemeses, n.Name())
	}
	t.witness.record(history.Event{Kind: history.Begin, Run: run})
}

// next is the job of one more client.
func (t *trial) next() job {
	round := t.witness.round() // before t.mu: the witness locks its own first, too
	t.mu.Lock()
	defer t.mu.Unlock()
	t.number++
	return job{
		Client: fmt.Sprintf("c%d", t.number), Number: t.number, URL: t.ground.URL, TTL: t.o.TTL, Think: t.o.Think, Seed: t.o.Seed,
		Names: t.names, Raw: t.raw, Round: round, Fencing: t.grants.Fencing != engine.FencingNone, Detach: t.grants.Detach,
	}
}

// watch reports the status until the trial is to end.
func (t *trial) watch(ctx context.Context, until time.Time) {
	over := time.NewTimer(time.Until(until))
	defer over.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	j := newJudging(t)
	defer j.end()
	for {
		select {
		case <-over.C:
			return
		case <-ctx.Done():
			return
		case <-tick.C:
			t.miss()
			if t.o.Status != nil || t.o.Judged != nil {
				j.look()
			}
			if t.o.Status != nil {
				t.o.Status(t.status(until))
			}
		}
	}
}

func (t *trial) status(until time.Time) Status {
	t.witness.mu.Lock()
	defer t.witness.mu.Unlock()
	s := t.witness.status
	s.Left = max(0, time.Until(until))
	return s
}

func (t *trial) result() *Result {
	s := t.status(time.Now())
	t.mu.Lock()
	defer t.mu.Unlock()
	return &Result{Dir: t.o.Dir, Seed: t.o.Seed, Status: s, Notes: t.notes}
}
