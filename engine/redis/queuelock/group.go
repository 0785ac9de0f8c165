package queuelock

import (
	"context"

	"github.com/redis/rueidis"

	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/coalesce"
)

// The uncontended Joins and Leaves of many concurrent callers go together, as calls of
// group.lua. With many callers most of the work of a lock is not the lock: it is
// beginning a script, reading the clock, writing and reading a request. So they share
// that.

const (
	// many is how many calls must be under way before they are sent in groups.
	// With fewer the detour costs more than it saves.
	many = 16

	// enough is how many go together at most, so that the server works on some
	// while this process makes the next.
	enough = 32
)

// groups are the calls that may go together: of join.lua and leave.lua.
type groups = coalesce.Group[groupable, reply]

type groupable struct {
	script *redisconn.Script
	redisconn.Call
}

// reply is what a call was answered. Again: in a group it was not so simple, and has to
// be asked for by itself.
type reply struct {
	redisconn.Answer
	again bool
}

// run makes one call, with others if there are many and group.lua knows its kind.
func (e *Engine) run(ctx context.Context, s *redisconn.Script, c redisconn.Call) redisconn.Answer {
	// In a Cluster the keys of one script must be of one slot.
	if len(c.Args) > 2 || e.wire.Cluster() {
		return e.wire.Call(ctx, s, c)
	}
	// A call whose caller has gone may be carried out: whoever gave up on a Join leaves
	// that claim, and to leave twice is no harm.
	r, err := e.groups.Do(ctx, groupable{s, c})
	switch {
	case err != nil:
		return redisconn.Failed(err)
	case !r.again:
		return r.Answer
	}
	a := e.wire.Call(ctx, s, c)
	if a.Indeterminate == nil {
		a.Indeterminate = r.Indeterminate // a first attempt of the group may have done it
	}
	return a
}

func (e *Engine) alone(ctx context.Context, c groupable) reply {
	return reply{Answer: e.wire.Call(ctx, c.script, c.Call)}
}

// together makes many calls by one of group.lua.
func (e *Engine) together(calls []groupable) []reply {
	var c redisconn.Call
	for _, one := range calls {
		lifetime := ""
		if len(one.Args) > 1 {
			lifetime = one.Args[1]
		}
		c.Keys, c.Args = append(c.Keys, one.Keys[0]), append(c.Args, one.Args[0], lifetime)
	}
	a := e.wire.Call(context.Background(), e.scripts.group, c) // which ends with the client
	results, err := a.ToArray()
	replies := make([]reply, len(calls))
	for i := range replies {
		switch {
		case err != nil && a.NonRedisError() != nil:
			replies[i] = reply{Answer: a} // it may have been carried out, or not
		case len(results) != len(calls) || results[i].IsNil():
			// What the server refused as a whole has done nothing, and each finds
			// out why by itself.
			replies[i] = reply{redisconn.Answer{Indeterminate: a.Indeterminate}, true}
		default:
			replies[i] = reply{Answer: redisconn.Answer{RedisResult: rueidis.NewResult(results[i], nil), Indeterminate: a.Indeterminate}}
		}
	}
	return replies
}
