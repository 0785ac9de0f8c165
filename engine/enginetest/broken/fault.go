package broken

import (
	"context"
	"slices"

	"leasehold/engine"
)

// Fault is one way to be wrong. Its functions run under the world's lock, so they may read
// it before they act. A nil function is right.
type Fault struct {
	Name string // what an issue about it would be called

	before func(w *World, name string) // every call that names a queue
	join   func(e *Engine, ctx context.Context, r engine.Request) (engine.Claim, error)
	renew  func(e *Engine, ctx context.Context, r engine.Renewal) (engine.Claim, error)
	leave  func(e *Engine, ctx context.Context, c engine.Claim) (engine.Claim, error)
	revoke func(e *Engine, ctx context.Context, name string, ticket uint64, now bool) error

	reply        func(e *Engine, c engine.Claim) engine.Claim         // of Join and Renew
	alias        func(e *Engine, c engine.Claim) engine.Claim         // of these, Leave and Watch
	notification func(e *Engine, c engine.Claim) (engine.Claim, bool) // of Watch; false: not told
	line         func(e *Engine, l *engine.Queue)                     // as inspection shows it
	fold         func(name string) string
	restart      func(w *World)
	junk         func(e *Engine, ctx context.Context, name string) error // calls on a spoiled name
	cost         func(e *Engine, name string) int                        // of each call, in further requests

	deaf     bool // Watch ignores its context
	immortal bool // a killed client's claims stay
	guesses  bool // what a batch could not ask is gone
	hoards   bool // no name is ever forgotten
	late     bool // a Renew goes by what it knew when it began
	dials    bool // a refused connection is the answer
}

// Faults are all of them.
func Faults() []Fault {
	return slices.Concat(grants(), lifetimes(), notices(), strains(), others())
}

// front is the queue of a name as it truly is, and the claims in it.
func (e *Engine) front(name string) []engine.Claim {
	l, err := e.inner.Load().Queue(context.Background(), name)
	if err != nil {
		return nil
	}
	for i := range l.Claims {
		if k := e.w.byTicket(name, l.Claims[i].Ticket); k != nil {
			l.Claims[i].ID = k.ID
		}
	}
	return l.Claims
}

// stands reports whether the store has that claim in the queue.
func (e *Engine) stands(name string, id engine.ID) bool {
	for _, c := range e.front(name) {
		if c.ID == id {
			return true
		}
	}
	return false
}

// aside takes the waiting claims of a queue out, from the back so that none
// becomes held meanwhile, lets step happen, and puts them back in the order
// that back gives. Their owners notice nothing but new tickets.
func (e *Engine) aside(name string, step func(), back func([]*claim) []*claim) {
	var waiting []*claim
	line := e.front(name)
	for i := len(line) - 1; i >= 0 && line[i].State == engine.Waiting; i-- {
		k := e.w.claims[line[i].ID]
		if k == nil {
			return
		}
		k.WaitTTL = max(engine.MinTTL, line[i].TTL)
		waiting = append([]*claim{k}, waiting...)
	}
	ctx := context.Background()
	for i := len(waiting) - 1; i >= 0; i-- {
		k := waiting[i]
		_, _ = k.by.leave(ctx, engine.Claim{Name: name, ID: k.ID})
	}
	step()
	for _, k := range back(waiting) {
		r := k.Request
		r.Replaces = engine.ID{}
		_, _ = k.by.join(ctx, r)
	}
}

func asTheyWere(ks []*claim) []*claim { return ks }
