// Package room keeps a part of a pool's connections free for renewals. Where somebody
// else keeps one name's row locked, calls for it could take every connection, and leases
// of other names would be lost for want of one. It cannot make a server fast enough.
package room

import "context"

// Room bounds the calls under way that are not renewals. Nil has no bound.
type Room chan struct{}

// Of is the room in a pool of so many connections: a third of them is for renewals,
// none of one or two. 0: the pool has no bound.
func Of(connections int) Room {
	if connections <= 0 {
		return nil
	}
	return make(Room, connections-connections/3)
}

// Enter waits for room. Whoever got it leaves.
func (r Room) Enter(ctx context.Context) error {
	if r == nil {
		return nil
	}
	select {
	case r <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave makes room for another.
func (r Room) Leave() {
	if r != nil {
		<-r
	}
}
