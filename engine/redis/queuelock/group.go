package queuelock

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// group sends the uncontended Joins and Leaves of many concurrent callers
// together, as calls of group.lua. With many callers most of the work of a lock
// is not the lock: it is beginning a script, reading the clock, writing and
// reading a request. So they share that. No call waits for a clock: what is
// asked for while a request is under way goes with the next.
type group struct {
	wire   *redisconn.Client
	script *redisconn.Script
	life   context.Context // of the engine
	many   int32           // from how many calls under way on they are grouped

	busy atomic.Int32 // calls under way

	mu        sync.Mutex
	gathering []*member
	senders   int
}

// member is one caller's call.
type member struct {
	call   redisconn.Call
	result chan reply // capacity 1
}

// reply is what became of a member: simple is false if it has to be asked for by
// itself.
type reply struct {
	redisconn.Answer
	simple bool
}

const (
	// many is how many calls must be under way before they are sent in groups.
	// With fewer the detour costs more than it saves.
	many = 16

	// enough is how many go together at most, so that the server works on some
	// while this process makes the next. So many do not wait for a request that
	// is under way either: one that hangs holds nobody up who has company.
	enough = 32
)

// run makes one call, with others if there are many and it is of a kind that
// group.lua knows.
func (g *group) run(ctx context.Context, s *redisconn.Script, c redisconn.Call, grouped bool) redisconn.Answer {
	defer g.busy.Add(-1)
	// In a Cluster the keys of one script must be of one slot.
	if g.busy.Add(1) < g.many || !grouped || g.wire.Cluster() {
		return g.wire.Call(ctx, s, c)
	}
	r := g.join(ctx, c)
	if r.simple {
		return r.Answer
	}
	a := g.wire.Call(ctx, s, c)
	if a.Indeterminate == nil {
		a.Indeterminate = r.Indeterminate // a first attempt of the group may have done it
	}
	return a
}

// join makes one call with others.
func (g *group) join(ctx context.Context, c redisconn.Call) reply {
	if err := ctx.Err(); err != nil {
		return reply{redisconn.Failed(err), true}
	}
	m := &member{c, make(chan reply, 1)}
	g.mu.Lock()
	g.gathering = append(g.gathering, m)
	if g.senders == 0 || len(g.gathering) >= enough {
		// Not the caller itself sends: its context may end before the answers
		// come. There are at most as many senders as full groups of callers,
		// and one.
		g.senders++
		go g.send()
	}
	g.mu.Unlock()
	select {
	case r := <-m.result:
		return r
	case <-ctx.Done():
		g.withdraw(m)
		return reply{redisconn.Failed(ctx.Err()), true}
	case <-g.life.Done():
		return reply{redisconn.Failed(engine.ErrClosed), true}
	}
}

// withdraw has a call not sent whose caller has gone. One that a sender has taken
// by then may still be sent and carried out, as any call that was under way when
// its caller went: whoever gave up on a Join leaves that claim (Close does it if
// nobody else), and to leave twice is no harm.
func (g *group) withdraw(m *member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if i := slices.Index(g.gathering, m); i >= 0 {
		g.gathering = slices.Delete(g.gathering, i, i+1)
	}
}

// send sends for as long as calls gather.
func (g *group) send() {
	for {
		g.mu.Lock()
		n := min(len(g.gathering), enough)
		if n == 0 {
			g.senders--
			g.mu.Unlock()
			return
		}
		members := slices.Clone(g.gathering[:n])
		g.gathering = slices.Delete(g.gathering, 0, n)
		g.mu.Unlock()
		g.sendGroup(members)
	}
}

// sendGroup makes one request and answers its members.
func (g *group) sendGroup(members []*member) {
	var c redisconn.Call
	for _, m := range members {
		lifetime := ""
		if len(m.call.Args) > 1 {
			lifetime = m.call.Args[1]
		}
		c.Keys, c.Args = append(c.Keys, m.call.Keys[0]), append(c.Args, m.call.Args[0], lifetime)
	}
	// No caller's context: one must not break off the others.
	a := g.wire.Call(g.life, g.script, c)
	results, err := a.ToArray()
	for i, m := range members {
		switch {
		case err != nil && a.NonRedisError() != nil:
			m.result <- reply{a, true} // it may have been carried out, or not
		case len(results) != len(members) || results[i].IsNil():
			// What the server refused as a whole has done nothing, and each finds
			// out why by itself.
			m.result <- reply{redisconn.Answer{Indeterminate: a.Indeterminate}, false}
		default:
			m.result <- reply{redisconn.Answer{RedisResult: rueidis.NewResult(results[i], nil), Indeterminate: a.Indeterminate}, true}
		}
	}
}
