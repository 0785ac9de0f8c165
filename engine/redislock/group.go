package redislock

import (
	"context"
	"runtime"
	"sync"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

// group collects uncontended Joins and Leaves of concurrent callers into calls
// of group.lua. With many callers most of the work of a lock is not the lock: it
// is beginning a script, reading the clock, writing and reading a request. So
// they share that.
//
// A call waits for as long as it takes every goroutine that is ready to run to
// have its turn, or until there is enough for one request, and no longer: never
// for a clock.
type group struct {
	script script

	mu        sync.Mutex
	gathering []*member
	flying    map[*flight]struct{}
	idle      sync.Pool // of *member
}

// flight is one request under way.
type flight struct{ members []*member }

// member is one caller's call.
type member struct {
	ctx    context.Context
	call   call
	result chan reply // capacity 1
	given  bool       // under group.mu, while its flight is under way: nobody waits any more
}

// reply is what became of a member: simple is false if nothing was done.
type reply struct {
	rueidis.RedisResult
	simple bool
}

const (
	// many is how many calls must be under way before they are sent in groups.
	// With fewer the detour costs more than it saves.
	many = 32

	// enough is how many are sent at once, so that the server works on some while
	// this process makes the next.
	enough = 16
)

// inGroup makes one call of a script with others. It reports false if that
// script itself has to be asked.
func (e *server) inGroup(ctx context.Context, c call) (rueidis.RedisResult, bool) {
	if err := ctx.Err(); err != nil {
		return rueidis.NewErrorResult(err), true
	}
	g := &e.group
	m, _ := g.idle.Get().(*member)
	if m == nil {
		m = &member{result: make(chan reply, 1)}
	}
	m.ctx, m.call = ctx, c
	g.mu.Lock()
	g.gathering = append(g.gathering, m)
	switch len(g.gathering) {
	case 1:
		// Not the caller itself: its context may end before the answers come.
		go e.sendGathered()
	case enough:
		go e.sendGroup(g.take())
	}
	g.mu.Unlock()
	r := <-m.result // overdue answers if ctx ends first
	if m.given {
		return r.RedisResult, true // the group still has it: not for others
	}
	m.ctx, m.call = nil, call{}
	g.idle.Put(m)
	return r.RedisResult, r.simple
}

// take begins a flight with what was gathered. Called with mu held.
func (g *group) take() *flight {
	if len(g.gathering) == 0 {
		return nil
	}
	b := &flight{g.gathering}
	g.gathering = make([]*member, 0, enough)
	if g.flying == nil {
		g.flying = map[*flight]struct{}{}
	}
	g.flying[b] = struct{}{}
	return b
}

func (e *server) sendGathered() {
	runtime.Gosched()
	e.group.mu.Lock()
	b := e.group.take()
	e.group.mu.Unlock()
	if b != nil {
		e.sendGroup(b)
	}
}

func (e *server) sendGroup(b *flight) {
	g := &e.group
	n := len(b.members)
	keys, args := make([]string, 0, n), make([]string, 0, 2*n)
	for _, m := range b.members {
		lifetime := ""
		if len(m.call.args) > 1 {
			lifetime = m.call.args[1]
		}
		keys, args = append(keys, m.call.keys[0]), append(args, m.call.args[0], lifetime)
	}
	// No context: one caller's must not break off the others. The client's own
	// time-out ends the connection if the server is silent.
	ctx := context.Background()
	r := e.client.Do(ctx, g.script.command(e.client, false, keys, args))
	if noScript(r.Error()) {
		r = e.client.Do(ctx, g.script.command(e.client, true, keys, args))
	}
	// A connection that broke may have carried it out, or not; what the server
	// itself refused has done nothing, and each finds out why by itself.
	results, err := r.ToArray()
	unclear := err != nil && r.NonRedisError() != nil

	g.mu.Lock()
	delete(g.flying, b)
	g.mu.Unlock()
	for i, m := range b.members {
		switch {
		case m.given:
		case unclear:
			m.result <- reply{rueidis.NewErrorResult(err), true}
		case len(results) != n || results[i].IsNil():
			m.result <- reply{}
		default:
			m.result <- reply{rueidis.NewResult(results[i], nil), true}
		}
	}
}

// overdue answers callers whose contexts have ended. Their calls go on.
func (g *group) overdue() {
	g.answer(func(m *member) error { return m.ctx.Err() })
}

// close answers all callers. Their calls end with the client.
func (g *group) close() {
	g.answer(func(*member) error { return engine.ErrClosed })
}

func (g *group) answer(with func(*member) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for b := range g.flying {
		for _, m := range b.members {
			if m.given {
				continue
			}
			if err := with(m); err != nil {
				m.given = true
				m.result <- reply{rueidis.NewErrorResult(err), true}
			}
		}
	}
}
