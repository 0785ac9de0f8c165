package answers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
	"leasehold/torture"
	"leasehold/torture/history"
)

// Options are what is recorded.
type Options struct {
	Open    func(ctx context.Context) (engine.Engine, error) // one more client
	Clients int                                              // at once
	Calls   int
	Seed    uint64
}

const (
	callsOfName = 400 // about one name, before others are used
	callsOfLife = 300 // of a client, about; then its engine is closed and another takes its place
	callBound   = 10 * time.Second
)

// recorder writes down what its clients do.
type recorder struct {
	o        Options
	declares engine.Guarantees
	began    time.Time

	mu      sync.Mutex
	events  []history.Event
	ops     int64
	clients int
	tickets map[string]uint64 // of a name: the last that somebody was given
}

// Record makes the calls and returns their history.
func Record(ctx context.Context, o Options) ([]history.Event, error) {
	eng, err := o.Open(ctx)
	if err != nil {
		return nil, err
	}
	r := &recorder{o: o, declares: eng.Guarantees(), began: time.Now(), tickets: map[string]uint64{}}
	if err := eng.Close(); err != nil {
		return nil, err
	}
	r.add(history.Event{Kind: history.Begin, Run: &history.Run{Seed: o.Seed, Clients: o.Clients, Declares: torture.Declares(r.declares, r.ttl())}})
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var all sync.WaitGroup
	for n := range o.Clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(o.Seed, uint64(n)))
			for ctx.Err() == nil && r.round() >= 0 {
				if err := r.live(ctx, rng); err != nil {
					fail(err)
				}
			}
		})
	}
	all.Wait()
	r.add(history.Event{Kind: history.End})
	return r.events, context.Cause(ctx)
}

// ttl is short, so that claims end while a name is in use.
func (r *recorder) ttl() time.Duration {
	shortest, _ := r.declares.TTLs()
	return shortest
}

func (r *recorder) add(e history.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.At = time.Since(r.began)
	r.events = append(r.events, e)
}

// call stamps the beginning of a call.
func (r *recorder) call(e history.Event) (op int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops++
	e.At, e.Kind, e.What, e.Op = time.Since(r.began), history.Call, history.Raw, r.ops
	r.events = append(r.events, e)
	return e.Op
}

// round is which names are in use; -1 if all calls were made.
func (r *recorder) round() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if int(r.ops) >= r.o.Calls {
		return -1
	}
	return int(r.ops) / (2 * callsOfName)
}

// gave notes a ticket, which anybody may revoke.
func (r *recorder) gave(name string, ticket uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tickets[name] = max(r.tickets[name], ticket)
}

func (r *recorder) ticketOf(name string) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tickets[name]
}

// live is the life of one client, until its engine is closed.
func (r *recorder) live(ctx context.Context, rng *rand.Rand) error {
	eng, err := r.o.Open(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.clients++
	c := &client{r: r, rng: rng, eng: checked.New(eng), label: fmt.Sprintf("c%d", r.clients)}
	r.mu.Unlock()
	r.add(history.Event{Kind: history.Start, Client: c.label})
	for range callsOfLife/2 + rng.IntN(callsOfLife) {
		round := r.round()
		if ctx.Err() != nil || round < 0 {
			break
		}
		c.one(ctx, round)
	}
	if rng.IntN(2) == 0 {
		c.leaveAll(ctx)
	}
	err = eng.Close()
	r.add(history.Event{Kind: history.Exit, Client: c.label})
	return err
}
