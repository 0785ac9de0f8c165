package redlock

import (
	"context"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

// stamp is phase 2: 0 and no error if a majority of those that said mine does not
// have it so.
func (t *try) stamp(ctx context.Context, all *tally, ttl time.Duration) (uint64, error) {
	e := t.e
	ours, highest, said := t.near(all)
	if len(ours) < e.majority {
		for _, i := range ours {
			said = append(said, ballot{master: i})
		}
		return 0, e.unavailable(said)
	}
	ticket := max(e.clock.now(boottime.Now()), highest+1)
	if ticket > engine.MaxTicket {
		return 0, engine.Refuse("the next ticket is above %d: the clocks of these masters are wrong", uint64(engine.MaxTicket))
	}
	type answer struct {
		ballot
		yes bool
	}
	answers := make(chan answer, len(ours))
	for _, i := range ours {
		e.spawn(func() {
			got := answer{ballot: ballot{master: i}}
			var as []redisconn.Answer
			if as, got.err = e.masters[i].vote(e.life, e.scripts.stamp, []redisconn.Call{{
				Keys: t.keys[:2], Args: []string{t.r.ID.Secret(), decimal(ticket)},
			}}); got.err == nil {
				var n int64
				n, got.err = as[0].AsInt64()
				got.yes, got.err = n == 1, explain(got.err, t.keys)
			}
			answers <- got
		})
	}
	timer := time.NewTimer(e.opts.timeout(ttl))
	defer timer.Stop()
	yes, owed := 0, len(ours)
	failed := false
	// After a failure all are heard, so that who is said not to answer does not.
	for yes < e.majority && owed > 0 && (failed || yes+owed >= e.majority) {
		select {
		case a := <-answers:
			owed--
			said = append(said, a.ballot)
			switch {
			case a.err != nil:
				failed = true
			case a.yes:
				yes++
			}
		case <-timer.C:
			return 0, e.unavailable(said)
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-e.life.Done():
			return 0, engine.ErrClosed
		}
	}
	switch {
	case yes >= e.majority:
		return ticket, nil
	case failed:
		return 0, e.unavailable(said)
	}
	return 0, nil
}
