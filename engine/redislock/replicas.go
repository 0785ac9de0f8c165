package redislock

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// With ?replicas=n a hold is believed only once n replicas have acknowledged
// everything its connection wrote before: the script and WAIT go out together
// on one dedicated connection. That narrows the window of a failover and does
// not close it: Sentinel may still promote a replica that is behind.

// replicaBound is how long WAIT waits before the answer is not believed.
const replicaBound = time.Second

// proven runs a script once so that its answer may be believed.
func (e *Engine) proven(ctx context.Context, s *script, c call) answer {
	if e.replicas == 0 {
		return e.run(ctx, s, c)
	}
	return e.replicated(ctx, s, []call{c})[0]
}

// provenAll is proven for a batch.
func (e *Engine) provenAll(ctx context.Context, s *script, calls []call) []answer {
	switch {
	case e.replicas == 0:
		return e.runAll(ctx, s, calls)
	case e.client.Mode() != rueidis.ClientModeCluster:
		return e.replicated(ctx, s, calls)
	}
	// Every shard has replicas of its own, so every call needs its own WAIT.
	results := make([]answer, len(calls))
	var all sync.WaitGroup
	free := make(chan struct{}, 16)
	for i, c := range calls {
		free <- struct{}{}
		all.Go(func() {
			results[i] = e.proven(ctx, s, c)
			<-free
		})
	}
	all.Wait()
	return results
}

// replicated sends all calls and one WAIT on one connection.
func (e *Engine) replicated(ctx context.Context, s *script, calls []call) []answer {
	results := make([]answer, len(calls))
	if len(calls) == 0 {
		return results
	}
	fail := func(err error) []answer {
		for i := range results {
			results[i] = answer{RedisResult: rueidis.NewErrorResult(err)}
		}
		return results
	}
	conn, err := e.dedicate(ctx)
	if err != nil {
		return fail(err)
	}
	var acks int64
	for _, whole := range []bool{false, true} {
		cmds := make([]rueidis.Completed, 0, len(calls)+1)
		for _, c := range calls {
			cmds = append(cmds, s.command(e.client, whole, c.keys, c.args))
		}
		cmds = append(cmds, conn.B().Arbitrary("WAIT", strconv.Itoa(e.replicas), strconv.FormatInt(replicaBound.Milliseconds(), 10)).Blocking())
		answers := conn.DoMulti(ctx, cmds...)
		for i := range results {
			results[i] = answer{RedisResult: answers[i]}
		}
		if acks, err = answers[len(calls)].AsInt64(); err != nil || !noScript(results[0].Error()) {
			break
		}
	}
	if err != nil {
		e.spawn(conn.Close) // what is left on the wire is unknown
		return fail(err)
	}
	e.spawn(conn.release)
	if acks < int64(e.replicas) {
		return fail(fmt.Errorf("%d of the %d replicas asked for have acknowledged it within %v", acks, e.replicas, replicaBound))
	}
	return results
}

// watchProven is Watch where the word of one server is not enough: a claim that
// is said to be held is renewed and waited for before it is handed on.
func (e *Engine) watchProven(ctx context.Context, changed func(engine.Claim)) error {
	heard := make(chan engine.Claim, 1024)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer close(heard)
		ended <- e.watch(ctx, func(c engine.Claim) {
			select {
			case heard <- c:
			default: // too much at once: the core's own Renew is the floor
			}
		})
	}()
	for c := range heard {
		if c.State != engine.Held {
			changed(c)
			continue
		}
		cs, err := e.Renew(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID, Want: engine.MinTTL}})
		if err == nil && len(cs) == 1 && cs[0].State != engine.Waiting {
			changed(cs[0])
		}
	}
	return <-ended
}
