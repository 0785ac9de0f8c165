package sqllock

import (
	"context"
	"fmt"
)

// capacity bounds the calls under way that are not renewals, so that a part of a pool's
// connections is free for those. Where somebody else keeps one name's row locked, calls
// for it could take every connection, and leases of other names would be lost for want
// of one. It cannot make a server fast enough. Nil has no bound.
type capacity chan struct{}

// capacityOf is the room in a pool of so many connections: a third of them is for renewals,
// one of two, and none of one. 0: the pool has no bound.
func capacityOf(connections int) capacity {
	if connections <= 0 {
		return nil
	}
	return make(capacity, connections-max(connections/3, min(connections-1, 1)))
}

// enter waits for room. The caller that got it leaves.
func (r capacity) enter(ctx context.Context) error {
	if r == nil {
		return nil
	}
	select {
	case r <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no connection of this client was free for this call: let its pool have more: %w", ctx.Err())
	}
}

// leave makes room for another.
func (r capacity) leave() {
	if r != nil {
		<-r
	}
}
