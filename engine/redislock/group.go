package redislock

import (
	"context"
	"runtime"
	"sync"

	"github.com/redis/rueidis"
)

// group collects commands of concurrent callers and sends them together.
//
// rueidis pipelines them too, but its writer is woken by the first command of
// several and sends that one alone: with many callers most of a process's time
// then goes into system calls with one or two commands each. Here the first
// caller's command waits for as long as it takes every goroutine that is ready
// to run to have its turn, and no longer: nothing waits for a clock.
type group struct {
	mu         sync.Mutex
	commands   []rueidis.Completed
	results    []chan rueidis.RedisResult
	collecting bool // somebody will send what is here
}

// many is how many calls must be under way before they are sent in groups. With
// fewer the detour costs more than it saves.
const many = 32

// inGroup sends one command together with others.
func (e *server) inGroup(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	result := make(chan rueidis.RedisResult, 1)
	g := &e.group
	g.mu.Lock()
	g.commands = append(g.commands, cmd)
	g.results = append(g.results, result)
	first := !g.collecting
	g.collecting = true
	g.mu.Unlock()
	if first {
		// Not the caller itself: its context may end before the answers come.
		go e.sendGroup()
	}
	select {
	case r := <-result:
		return r
	case <-ctx.Done():
		return rueidis.NewErrorResult(ctx.Err())
	}
}

func (e *server) sendGroup() {
	runtime.Gosched()
	g := &e.group
	g.mu.Lock()
	commands, results := g.commands, g.results
	g.commands, g.results = make([]rueidis.Completed, 0, len(commands)), make([]chan rueidis.RedisResult, 0, len(results))
	g.collecting = false
	g.mu.Unlock()
	// No context: one caller's must not break off the others. The client's own
	// time-out ends the connection if the server is silent.
	for i, r := range e.client.DoMulti(context.Background(), commands...) {
		results[i] <- r
	}
}
