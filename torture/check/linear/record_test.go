package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"leasehold/engine"
	"leasehold/torture/history"
)

// recorder lets clients call an engine and writes the history. Nothing runs at the same time:
// that a call begins, that it takes effect and that it is answered are steps, and the steps of
// several clients mix. So calls overlap, and each seed gives the same history.
type recorder struct {
	rng     *rand.Rand
	engines []engine.Engine
	sleep   func(time.Duration) // moves the engine's clock
	lose    int                 // one answer in so many; 0: none
	die     int                 // one step in so many is the death of a client; 0: none
	kill    func(old engine.Engine) (of engine.Engine)
	names   func(call int) string
	differ  int // one Join in so many of a semaphore has another limit; 0: none

	now    time.Duration
	events []history.Event
	ops    int64
	live   []*actor
	late   []func() // calls whose answers are lost, and that have not arrived
	dead   []string // clients whose end nobody has seen yet
	died   int
}

// actor is a client with one call at a time, and one claim.
type actor struct {
	r     *recorder
	label string
	eng   engine.Engine

	step   func() // what comes next of its call
	claim  string
	id     engine.ID
	name   string
	ask    engine.Request
	state  engine.State
	ticket uint64
	claims int
	older  string // a claim that it may replace
}

func (r *recorder) add(e history.Event) {
	e.At = r.now
	r.events = append(r.events, e)
}

// run makes so many calls.
func (r *recorder) run(calls int, d history.Declares) []history.Event {
	r.add(history.Event{Kind: history.Begin, Run: &history.Run{Declares: d}})
	for i, e := range r.engines {
		r.live = append(r.live, &actor{r: r, label: fmt.Sprintf("c%d", i+1), eng: e})
	}
	for int(r.ops) < calls || slices.ContainsFunc(r.live, func(a *actor) bool { return a.step != nil }) {
		if r.rng.IntN(4) == 0 {
			d := time.Duration(r.rng.IntN(40)) * time.Millisecond
			r.now += d
			r.sleep(d)
		}
		r.now += time.Microsecond
		r.sleep(time.Microsecond)
		if len(r.late) > 0 && r.rng.IntN(10) == 0 {
			i := r.rng.IntN(len(r.late))
			r.late[i]()
			r.late = slices.Delete(r.late, i, i+1)
		}
		if len(r.dead) > 0 && r.rng.IntN(10) == 0 {
			r.exit()
		}
		at := r.rng.IntN(len(r.live))
		a := r.live[at]
		switch {
		case r.die > 0 && r.rng.IntN(r.die) == 0:
			r.died++
			r.dead = append(r.dead, a.label)
			r.live[at] = &actor{r: r, label: fmt.Sprintf("d%d", r.died), eng: r.kill(a.eng)}
		case a.step != nil:
			step := a.step
			a.step = nil
			step()
		case int(r.ops) < calls:
			a.begin()
		}
	}
	for len(r.dead) > 0 {
		r.exit()
	}
	r.add(history.Event{Kind: history.End})
	return r.events
}

// exit writes down the end of a client, some time after it.
func (r *recorder) exit() {
	r.add(history.Event{Kind: history.Exit, Client: r.dead[0]})
	r.dead = r.dead[1:]
}

// begin chooses what a client does next.
func (a *actor) begin() {
	if a.claim == "" {
		a.join()
		return
	}
	switch n := a.r.rng.IntN(20); {
	case a.state == engine.Unknown && n < 12 || n == 0:
		a.joins() // once more
	case n < 9:
		a.renew()
	case n == 9:
		a.revoke()
	case n == 10 && a.state != engine.Unknown:
		a.replace()
	default:
		a.leave()
	}
}

func (a *actor) join() {
	r := a.r
	a.claims++
	a.claim, a.id, a.state, a.ticket = fmt.Sprintf("%s.%d", a.label, a.claims), engine.NewID(), engine.Unknown, 0
	a.name = r.names(int(r.ops))
	a.ask = engine.Request{Name: a.name, ID: a.id, Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Duration(100+r.rng.IntN(400)) * time.Millisecond}
	switch {
	case a.name[0] == 'p':
		a.ask.Permits, a.ask.Limit = int32(1+r.rng.IntN(3)), 3
		if r.differ > 0 && r.rng.IntN(r.differ) == 0 {
			a.ask.Limit++
		}
	case r.rng.IntN(3) == 0:
		a.ask.Permits = 1
	}
	a.ask.NoWait = r.rng.IntN(4) == 0
	a.older = ""
	a.joins()
}

// replace joins anew in place of the claim.
func (a *actor) replace() {
	older, id, name := a.claim, a.id, a.name
	a.claims++
	a.claim, a.id, a.state, a.ticket = fmt.Sprintf("%s.%d", a.label, a.claims), engine.NewID(), engine.Unknown, 0
	a.ask.ID, a.ask.Replaces, a.ask.NoWait, a.ask.Name = a.id, id, false, name
	a.older = older
	a.joins()
}

func (a *actor) joins() {
	ask := a.ask
	e := history.Event{Name: a.name, Permits: ask.Permits, Limit: ask.Limit, Engine: &history.EngineCall{
		Method: join, Claim: a.claim, WaitTTL: ask.WaitTTL, NoWait: ask.NoWait, Replaces: a.older,
	}}
	a.call(e, func() (engine.Claim, error) { return a.eng.Join(context.Background(), ask) }, func(c engine.Claim) {
		a.state, a.ticket = c.State, c.Ticket
		if c.State == engine.Gone {
			a.claim = ""
		}
	})
}

func (a *actor) renew() {
	want := time.Duration(100+a.r.rng.IntN(400)) * time.Millisecond
	q := engine.Renewal{Name: a.name, ID: a.id, Want: want}
	a.call(history.Event{Name: a.name, Engine: &history.EngineCall{Method: renew, Claim: a.claim, TTL: want}}, func() (engine.Claim, error) {
		got, err := a.eng.Renew(context.Background(), []engine.Renewal{q})
		if err != nil {
			return engine.Claim{}, err
		}
		return got[0], nil
	}, func(c engine.Claim) {
		if a.state = c.State; c.State == engine.Gone {
			a.claim = ""
		}
	})
}

func (a *actor) leave() {
	q := engine.Claim{Name: a.name, ID: a.id}
	e := history.Event{Name: a.name, Engine: &history.EngineCall{Method: leave, Claim: a.claim}}
	a.claim = ""
	a.call(e, func() (engine.Claim, error) {
		got, err := a.eng.Leave(context.Background(), []engine.Claim{q})
		if err != nil {
			return engine.Claim{}, err
		}
		c := got[0]
		c.Ticket = 0
		return c, nil
	}, func(engine.Claim) {})
}

// revoke ends the claim of somebody, or the own.
func (a *actor) revoke() {
	of := a.r.live[a.r.rng.IntN(len(a.r.live))]
	if of.ticket == 0 || of.name != a.name {
		a.renew()
		return
	}
	name, ticket, now := of.name, of.ticket, a.r.rng.IntN(2) == 0
	a.call(history.Event{Name: name, Now: now, Engine: &history.EngineCall{Method: revoke, Ticket: ticket}}, func() (engine.Claim, error) {
		return engine.Claim{}, a.eng.Revoke(context.Background(), name, ticket, now)
	}, func(engine.Claim) {})
}

// call is one call in three steps: it begins, it takes effect, it is answered.
func (a *actor) call(e history.Event, do func() (engine.Claim, error), answered func(engine.Claim)) {
	r := a.r
	r.ops++
	e.Kind, e.What, e.Client, e.Op = history.Call, history.Raw, a.label, r.ops
	r.add(e)
	lost := r.lose > 0 && r.rng.IntN(r.lose) == 0
	a.step = func() {
		if lost {
			switch r.rng.IntN(3) {
			case 0:
				_, _ = do()
			case 1:
				r.late = append(r.late, func() { _, _ = do() })
			}
			a.step = func() {
				if e.Engine.Method != leave {
					a.state = engine.Unknown
				}
				r.add(history.Event{Kind: history.Answer, Client: a.label, Op: e.Op, Result: history.Failed})
			}
			return
		}
		c, err := do()
		a.step = func() { a.answer(e, c, err, answered) }
	}
}

func (a *actor) answer(e history.Event, c engine.Claim, err error, answered func(engine.Claim)) {
	out := history.Event{Kind: history.Answer, Client: a.label, Op: e.Op, Result: history.OK}
	switch {
	case errors.Is(err, engine.ErrNoClaim):
		out.Result = history.Gone
	case errors.Is(err, engine.ErrRefused):
		out.Result = history.Refused
		if limit, ok := errors.AsType[*engine.LimitError](err); ok {
			out.Limit = limit.Have
		}
		if e.Engine.Method == join {
			a.claim = ""
		}
	case err != nil:
		out.Result = history.Failed
	case e.Engine.Method != revoke:
		out.Engine = &history.EngineCall{Method: e.Engine.Method, Claim: e.Engine.Claim, State: c.State.String(), Ticket: c.Ticket, Granted: c.TTL, Revoked: c.Revoked}
		answered(c)
	}
	a.r.add(out)
}
