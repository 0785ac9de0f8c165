package redisconn

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// syncBound is how long replicas may take before an answer is not believed.
const syncBound = time.Second

// CallSynced is CallMany, but an answer counts only once that many replicas have
// acknowledged what its call wrote. It narrows the window of a failover and does
// not close it: Sentinel may still promote a replica that is behind. A call is
// made once, or never.
func (c *Client) CallSynced(ctx context.Context, replicas int, s *Script, calls []Call) []Answer {
	return c.onItsRun(ctx, s, calls, func(calls []Call) []Answer { return c.callSynced(ctx, replicas, s, calls) })
}

func (c *Client) callSynced(ctx context.Context, replicas int, s *Script, calls []Call) []Answer {
	if !c.Cluster() {
		return c.synced(ctx, replicas, s, calls)
	}
	// Every shard has replicas of its own: the WAIT of one says nothing of what
	// another was told.
	answers := make([]Answer, len(calls))
	var all sync.WaitGroup
	free := make(chan struct{}, 16)
	for i, call := range calls {
		free <- struct{}{}
		all.Go(func() {
			answers[i] = c.synced(ctx, replicas, s, []Call{call})[0]
			<-free
		})
	}
	all.Wait()
	return answers
}

// synced makes calls to one server, and a WAIT behind them: on one connection
// that nobody else uses, since WAIT blocks it and speaks only of what this
// connection wrote.
func (c *Client) synced(ctx context.Context, replicas int, s *Script, calls []Call) []Answer {
	answers := make([]Answer, len(calls))
	if len(calls) == 0 {
		return answers
	}
	type outcome struct {
		results []rueidis.RedisResult
		acks    int64
		err     error
	}
	c.syncs.Store(true)
	o, err := await(ctx, c, func() (o outcome) {
		conn, release := c.redis.Dedicate()
		defer release()
		ctx, cancel := c.bounded()
		defer cancel()
		for _, whole := range []bool{false, true} {
			cmds := make([]rueidis.Completed, 0, len(calls)+1)
			for _, call := range calls {
				cmds = append(cmds, c.command(s, whole, call))
			}
			cmds = append(cmds, conn.B().Arbitrary("WAIT", strconv.Itoa(replicas), strconv.FormatInt(syncBound.Milliseconds(), 10)).Blocking())
			o.results = conn.DoMulti(ctx, cmds...)
			if o.acks, o.err = o.results[len(calls)].AsInt64(); o.err != nil {
				conn.Close() // what is left on the wire is unknown; or it leads to a replica, which refuses WAIT
				return o
			}
			if !unknown(o.results[0].Error()) {
				return o
			}
		}
		return o
	}, nil)
	switch {
	case err != nil:
	case o.err != nil:
		err = o.err
	case o.acks < int64(replicas):
		err = fmt.Errorf("%d of the %d replicas asked for have acknowledged it within %v", o.acks, replicas, syncBound)
	}
	for i := range answers {
		if err != nil {
			answers[i] = Failed(err)
		} else {
			answers[i] = Answer{RedisResult: o.results[i]}
		}
	}
	return answers
}
