package queuelock

import (
	"context"
	"maps"
	"slices"
	"sync"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// With ?replicas=n a hold is believed only once n replicas have acknowledged the
// call that says so.

// renewed makes the calls of a Renew.
func (e *Engine) renewed(ctx context.Context, calls []redisconn.Call) []redisconn.Answer {
	if e.replicas == 0 {
		return e.wire.CallMany(ctx, e.scripts.renew, calls)
	}
	return e.wire.CallSynced(ctx, e.replicas, e.scripts.renew, calls)
}

// believed passes notifications of claims on. If the word of one server is not enough, it
// first renews a claim that is said to be held, and waits for the replicas.
func (e *Engine) believed(ctx context.Context, changed func(engine.Claim)) error {
	ctx, cancel := context.WithCancel(ctx)
	c := newConfirmations(e.Renew, e.slot, changed)
	defer c.running.Wait()
	defer cancel()
	return e.subscribe(ctx, func(notified engine.Claim) {
		if notified.State == engine.Held {
			c.add(ctx, notified)
		} else {
			c.teller.Notify(notified)
		}
	})
}

// mostUnconfirmed bounds how many claims of one slot wait to be confirmed.
const mostUnconfirmed = 1024

// confirmations are renewals of claims that are said to be held. Those of one slot go
// together, one request after the other: what comes while one is under way goes with the
// next. No slot waits for another, since the shard of that may have lost its replica.
type confirmations struct {
	renew   func(context.Context, []engine.Renewal) ([]engine.Claim, error)
	slot    func(name string) byte
	teller  *parts.Teller
	running sync.WaitGroup

	mu   sync.Mutex
	next map[byte]map[engine.Renewal]bool // of each slot that has a request under way
}

func newConfirmations(renew func(context.Context, []engine.Renewal) ([]engine.Claim, error), slot func(string) byte, changed func(engine.Claim)) *confirmations {
	return &confirmations{renew: renew, slot: slot, teller: parts.NewTeller(changed), next: map[byte]map[engine.Renewal]bool{}}
}

// add has a claim confirmed. It does not block.
func (c *confirmations) add(ctx context.Context, held engine.Claim) {
	slot := c.slot(held.Name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next[slot] == nil {
		c.next[slot] = map[engine.Renewal]bool{}
		c.running.Go(func() { c.confirm(ctx, slot) })
	}
	if next := c.next[slot]; len(next) < mostUnconfirmed { // else the core's own Renew is the floor
		next[engine.Renewal{Name: held.Name, ID: held.ID, Want: engine.MinTTL}] = true
	}
}

// confirm renews claims of a slot for as long as some wait for it.
func (c *confirmations) confirm(ctx context.Context, slot byte) {
	for rs := c.take(slot); len(rs) > 0; rs = c.take(slot) {
		// Of what fails here the core's own Renew is the floor.
		cs, _ := c.renew(ctx, rs)
		for _, claim := range cs {
			if claim.State != engine.Waiting {
				c.teller.Notify(claim)
			}
		}
	}
}

// take is what goes in the next request of a slot. Nothing: no request is under way then.
func (c *confirmations) take(slot byte) []engine.Renewal {
	c.mu.Lock()
	defer c.mu.Unlock()
	rs := slices.Collect(maps.Keys(c.next[slot]))
	if clear(c.next[slot]); len(rs) == 0 {
		delete(c.next, slot)
	}
	return rs
}
