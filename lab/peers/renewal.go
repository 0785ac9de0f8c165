package main

import (
	"context"
	"time"
)

// renewal is what a user writes whose library leaves renewal to them. One that fails is the
// end: the user takes the lock for lost.
type renewal struct {
	lost chan struct{}
	end  context.CancelFunc
}

// renew extends three times in a TTL.
func renew(ttl time.Duration, extend func(context.Context) error) *renewal {
	ctx, end := context.WithCancel(context.Background())
	r := &renewal{make(chan struct{}), end}
	go func() {
		tick := time.NewTicker(ttl / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if extend(ctx) != nil {
				close(r.lost)
				return
			}
		}
	}()
	return r
}

func (r *renewal) Lost() <-chan struct{} { return r.lost }

// over is whether a channel is closed.
func over(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
