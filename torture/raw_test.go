package torture

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/checked"
	"leasehold/torture/history"
)

// spoken is a member without a process: what it says to its witness, which answers at once.
func spoken(t *testing.T, rounds func() int) (m *member, events func() []history.Event) {
	t.Helper()
	m = &member{
		job:      job{Client: "c1", TTL: time.Second, Raw: []string{"raw-0", "raw-1"}, Round: 3},
		awaiting: map[int64]chan told{}, places: map[int64]uint64{},
	}
	var all []history.Event
	m.out = json.NewEncoder(writer(func(line []byte) (int, error) {
		var s said
		if err := json.Unmarshal(line, &s); err != nil {
			return 0, err
		}
		if s.Event != nil {
			all = append(all, *s.Event)
		}
		if c := m.awaiting[s.Ask]; c != nil { // under m.mu, as whoever writes
			delete(m.awaiting, s.Ask)
			c <- told{Answer: s.Ask, Round: rounds()}
		}
		return len(line), nil
	}))
	return m, func() []history.Event { return all }
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A checker of the engine's own answers needs to know of each call what it asks for, and a
// name that all clients leave after a while.
func TestCallsOfTheEngineItselfSayWhatTheyAskFor(t *testing.T) {
	round := 3
	m, events := spoken(t, func() int { return round })
	eng := memlock.New()
	defer eng.Close()
	r := &raw{m: m, eng: checked.New(eng), round: m.job.Round}
	rng := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		if len(events()) > 1000 {
			round = 4
		}
		r.one(t.Context(), rng)
	}
	calls, names, marked, refused := map[string]int{}, map[string]int{}, 0, 0
	tickets := map[string]uint64{}
	asked := map[int64]history.Event{}
	for i, e := range events() {
		if e.Kind == history.Answer {
			call := asked[e.Op]
			if got := e.Engine; got.Ticket != 0 {
				tickets[got.Claim] = got.Ticket
			}
			if e.Engine.Revoked {
				marked++
			}
			if e.Result == history.Refused {
				if refused++; e.Limit == 0 || e.Limit == call.Limit {
					t.Errorf("line %d: %+v does not say which limit the queue has", i, e)
				}
			}
			if call.Op == 0 {
				t.Fatalf("line %d: %+v answers nothing", i, e)
			}
			continue
		}
		asked[e.Op] = e
		calls[e.Engine.Method]++
		names[e.Name]++
		if e.Engine.Method == "revoke" && (e.Engine.Ticket == 0 || e.Engine.Ticket != tickets[e.Engine.Claim]) {
			t.Errorf("line %d: %+v, and the ticket is %d", i, e, tickets[e.Engine.Claim])
		}
	}
	for _, method := range []string{"join", "renew", "leave", "revoke"} {
		if calls[method] < 50 {
			t.Errorf("few calls of %s: %v", method, calls)
		}
	}
	if len(names) != 4 || names["raw-0.3"] == 0 || names["raw-1.4"] == 0 || marked == 0 {
		t.Errorf("the names are %v, and %d answers say that a claim was revoked", names, marked)
	}
	if refused == 0 {
		t.Error("no call was refused for its limit")
	}
	// What was revoked and not left yet would keep its room.
	for _, c := range slices.Clone(r.claims) {
		r.leave(t.Context(), c)
	}
	for q, err := range eng.Queues(t.Context(), "") {
		if err != nil || len(q.Claims) > 0 {
			t.Errorf("%v: %+v is left", err, q)
		}
	}
}

// told nothing of those who wait, a witness must not say that they have their place.
func TestOnlyAnEngineWithOrderHasAQueue(t *testing.T) {
	for order, want := range map[engine.Order]int{engine.FIFO: 1, engine.OrderNone: 0} {
		m, events := spoken(t, func() int { return 0 })
		eng := m.watch(waits{order: order})
		c, err := eng.Join(t.Context(), engine.Request{Owner: engine.Owner{Label: "7"}})
		if err != nil || c.State != engine.Waiting {
			t.Fatal(c, err)
		}
		if got := events(); len(got) != want || want > 0 && (got[0].Kind != history.Queued || got[0].Op != 7) {
			t.Errorf("order %v: %+v", order, got)
		}
	}
}

// waits is an engine on which every claim waits.
type waits struct {
	engine.Engine
	order engine.Order
}

func (w waits) Guarantees() engine.Guarantees { return engine.Guarantees{Order: w.order} }

func (w waits) Join(context.Context, engine.Request) (engine.Claim, error) {
	return engine.Claim{State: engine.Waiting}, nil
}

// An engine without order may still be giving up what a failed Join took. Only a Join asks for it
// again, and nobody renews a claim that was never answered held.
func TestWithoutOrderOnlyHeldClaimsAreRenewed(t *testing.T) {
	for order, want := range map[engine.Order]bool{engine.FIFO: true, engine.OrderNone: false} {
		m, events := spoken(t, func() int { return 0 })
		eng := memlock.New()
		defer eng.Close()
		r := &raw{m: m, eng: checked.New(&forgetful{Engine: eng, order: order}), round: m.job.Round}
		rng := rand.New(rand.NewPCG(1, 1))
		for range 1000 {
			r.one(t.Context(), rng)
		}
		held, renewed, early := map[string]bool{}, 0, 0
		for _, e := range events() {
			switch {
			case e.Kind == history.Answer && e.Engine.State == "held":
				held[e.Engine.Claim] = true
			case e.Kind == history.Call && e.Engine.Method == "renew":
				renewed++
				if !held[e.Engine.Claim] {
					early++
				}
			}
		}
		if renewed < 20 || early > 0 != want {
			t.Errorf("order %v: of %d renewals %d are of claims that were not held", order, renewed, early)
		}
	}
}

// forgetful is an engine whose every second Join fails. Without order it stores nobody who waits.
type forgetful struct {
	engine.Engine
	order engine.Order
	joins int
}

func (f *forgetful) Guarantees() engine.Guarantees {
	g := f.Engine.Guarantees()
	g.Order, g.Modes = f.order, engine.Exclusive
	return g
}

func (f *forgetful) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if f.joins++; f.joins%2 == 0 {
		return engine.Claim{}, errors.New("the answer is lost")
	}
	waits := !r.NoWait
	r.NoWait = r.NoWait || f.order == engine.OrderNone
	c, err := f.Engine.Join(ctx, r)
	if waits && c.State == engine.Gone {
		c.State, c.TTL = engine.Waiting, r.WaitTTL
	}
	return c, err
}
