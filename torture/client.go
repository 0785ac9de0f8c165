package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/torture/history"
)

// Client reports whether this process is one that torture has started. If so it has done
// its work when it returns, and the program must end. Call it first of all.
func Client(open Open) bool {
	switch os.Getenv(role) {
	case "":
		return false
	case roleHog:
		beHog()
	}
	if err := beClient(open); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// member is a client process from within.
type member struct {
	job    job
	locks  *leasehold.Client
	others Locker       // instead of locks, if it locks by another library; else nil
	calls  atomic.Int64 // the number of the last one
	asks   atomic.Int64
	work   sync.WaitGroup

	saying sync.Mutex // apart from mu: who listens must not wait for who speaks
	out    *json.Encoder

	mu       sync.Mutex
	awaiting map[int64]chan told
	places   map[int64]uint64 // of calls that wait: the ticket of the claim
}

// workers is how many goroutines of a client lock names.
const workers = 4

func beClient(open Open) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	var first told
	if !in.Scan() || json.Unmarshal(in.Bytes(), &first) != nil || first.Job == nil {
		return errors.New("no job was given: torture starts this process by itself")
	}
	if g := first.Job.Group; g != "" {
		if err := enter(g); err != nil {
			return err
		}
	}
	m := &member{job: *first.Job, out: json.NewEncoder(os.Stdout), awaiting: map[int64]chan told{}, places: map[int64]uint64{}}
	m.calls.Store(callsOf(m.job.Number))
	ctx, end := context.WithCancel(context.Background())
	defer end()
	eng, err := open(ctx, m.job.URL)
	if err != nil {
		return err
	}
	calls, closing, err := m.lockBy(ctx, open, eng)
	if err != nil {
		return err
	}
	m.say(said{Ready: true})
	for n := range workers {
		m.work.Go(func() { m.lockNames(ctx, m.chance(uint64(n))) })
	}
	if calls != nil {
		m.work.Go(func() { calls.run(ctx, m.chance(workers)) })
	}
	for in.Scan() {
		var t told
		if err := json.Unmarshal(in.Bytes(), &t); err != nil {
			return err
		}
		switch {
		case t.Answer != 0:
			m.answer(t)
		case t.Ping != 0:
			m.say(said{Pong: t.Ping})
		case t.Adopt != nil:
			if ctx.Err() == nil {
				m.work.Go(func() { m.adopt(ctx, *t.Adopt, m.chance(uint64(t.Adopt.Of))) })
			}
		case t.End:
			// The answers to the last questions still come by this loop.
			end()
			go func() {
				m.work.Wait()
				err := closing()
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				os.Exit(0)
			}()
		}
	}
	os.Exit(1) // the witness is gone, and with it whoever would learn of an error
	return nil
}

// lockBy has the member lock by an engine. calls, unless it is nil, calls the engine itself.
// close must follow, when m.work is done.
func (m *member) lockBy(ctx context.Context, open Open, eng engine.Engine) (calls *raw, close func() error, err error) {
	if others, ok := eng.(Locker); ok {
		if err := others.Begin(ctx); err != nil {
			return nil, nil, errors.Join(err, others.Close())
		}
		m.others = others
		return nil, others.Close, nil
	}
	m.locks, err = leasehold.New(m.watch(eng), m.options())
	if err != nil {
		return nil, nil, errors.Join(err, eng.Close())
	}
	calls, err = m.openRaw(ctx, open)
	if err != nil {
		return nil, nil, errors.Join(err, m.locks.Close())
	}
	return calls, func() error { return errors.Join(calls.close(), m.locks.Close()) }, nil
}

// options are those of a client of leasehold. Members differ: with and without local
// handoff, and with claims that are kept for a while.
func (m *member) options() *leasehold.Options {
	o := &leasehold.Options{TTL: m.job.TTL, Label: m.job.Client, NoLocalHandoff: m.job.Number%2 == 0, Observer: m.observe}
	if m.job.Number%3 == 0 {
		o.IdleTimeout = m.job.TTL / 2
	}
	return o
}

// observe tells the witness that the engine does not answer: a fault has had an effect.
func (m *member) observe(e leasehold.Event) {
	if e.Kind == leasehold.EventEngineDown {
		m.say(said{Down: e.Err.Error()})
	}
}

// watch is eng with a look at its answers: a claim has its place in the queue from the
// answer that says so. The label of a claim is the number of the call that made it. An
// engine without order may keep no queue of those who wait.
func (m *member) watch(eng engine.Engine) engine.Engine {
	if eng.Guarantees().Order == engine.OrderNone {
		return eng
	}
	w := watched{eng, m}
	if c, ok := eng.(engine.Checker); ok {
		return struct {
			watched
			engine.Checker
		}{w, c}
	}
	return w
}

type watched struct {
	engine.Engine
	m *member
}

func (w watched) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c, err := w.Engine.Join(ctx, r)
	if err == nil {
		if op, failed := strconv.ParseInt(r.Owner.Label, 10, 64); failed == nil && w.m.placed(op, c) {
			w.m.say(said{Event: &history.Event{Kind: history.Queued, Op: op, Token: c.Ticket << engine.HandoffBits}})
		}
	}
	return c, err
}

// placed is whether a Join has given a place to a call that waits. A claim that ended while it
// waited, because its client did not run, is made anew, and so is one that ended before its
// client knew that it held: its place is another one, even if it is held at once there.
func (m *member) placed(op int64, c engine.Claim) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	ticket, waits := m.places[op]
	if c.State != engine.Waiting && (c.State != engine.Held || !waits) {
		return false
	}
	m.places[op] = c.Ticket
	return !waits || c.Ticket != ticket
}

// answered forgets the place of a call.
func (m *member) answered(op int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.places, op)
}

// chance is the random choices of one goroutine.
func (m *member) chance(of uint64) *rand.Rand {
	h := fnv.New64()
	fmt.Fprint(h, m.job.Number, " ", of)
	return rand.New(rand.NewPCG(m.job.Seed, h.Sum64()))
}

// say writes to the witness.
func (m *member) say(s said) {
	m.saying.Lock()
	defer m.saying.Unlock()
	if m.out.Encode(s) != nil {
		os.Exit(1) // the witness is gone
	}
}

// ask is say, and waits for the answer.
func (m *member) ask(s said) told {
	s.Ask = m.asks.Add(1)
	c := make(chan told, 1)
	m.mu.Lock()
	m.awaiting[s.Ask] = c
	m.mu.Unlock()
	m.say(s)
	t := <-c
	t.Answer = s.Ask
	return t
}

func (m *member) answer(t told) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.awaiting[t.Answer]; c != nil {
		delete(m.awaiting, t.Answer)
		c <- t // capacity 1, answered once
	}
}

// begin announces a call. The call begins when this returns: the witness has its time.
func (m *member) begin(e history.Event) (op int64) {
	op, _ = m.begins(e)
	return op
}

// begins is begin, with what the witness answers.
func (m *member) begins(e history.Event) (op int64, answer told) {
	e.Kind, e.Op = history.Call, m.calls.Add(1)
	return e.Op, m.ask(said{Event: &e})
}

// sleep waits for a random time below most, or until ctx ends.
func sleep(ctx context.Context, rng *rand.Rand, most time.Duration) {
	if most > 0 {
		wait(ctx, time.Duration(rng.Int64N(int64(most))))
	}
}
