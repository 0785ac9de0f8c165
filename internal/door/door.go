// Package door is what leasehold's own programs, tests and reports of defects reach
// of a client, and what users need not see. It imports no other part of leasehold
// but the contract, and decides nothing.
package door

import (
	"context"
	"time"

	"leasehold/engine"
)

// Engine is an engine for leasehold.New, with what else that client is to have.
type Engine struct {
	engine.Engine

	// Clock is the time elapsed since a fixed moment; it must count the time a
	// machine is suspended. Nil: the machine's.
	Clock func() time.Duration

	// Trace is called with every step of every claim, in their order and one at a
	// time: the client waits meanwhile, so it must return at once and call nothing
	// of the client.
	Trace func(Step)
}

// Step is an input, an output, or a change of phase of the client's machine.
type Step struct {
	Name   string // of the lock
	Ticket uint64 // of the claim, once it has one
	Text   string // "in: unlock", "in use -> releasing", "out: leave"
}

type holdsKey struct{}

// WithHolds is ctx for a caller who holds hs besides what ctx says: claims of
// another process, on whose behalf it asks, on the same engine. They are shown in the
// queue, and count where deadlocks are looked for. Such a caller queues for itself.
func WithHolds(ctx context.Context, hs []engine.Hold) context.Context {
	return context.WithValue(ctx, holdsKey{}, hs)
}

// Holds is what [WithHolds] was given.
func Holds(ctx context.Context) []engine.Hold {
	hs, _ := ctx.Value(holdsKey{}).([]engine.Hold)
	return hs
}
