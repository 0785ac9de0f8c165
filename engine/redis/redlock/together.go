package redlock

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/coalesce"
)

// The Joins and Leaves of many goroutines go to a master in one request: see together.lua.
// With many callers most of the work is not the lock but the requests, of which each pair
// has two to every master.

const (
	// many is how many calls must be under way to a master before they share requests.
	// With fewer the detour costs more than it saves.
	many = 4

	// enough is how many go together at most, so that a master works on some while this
	// process makes the next.
	enough = 32
)

// sharing are the calls to one master that may go together.
type sharing = coalesce.Group[sharedCall, sharedAnswer]

type sharedCall struct {
	client *redisconn.Client
	script *redisconn.Script
	run    string // of the master, that it is for
	redisconn.Call
}

// sharedAnswer is what a call was answered. Again: it failed among others, and is to be
// made alone.
type sharedAnswer struct {
	redisconn.Answer
	again bool
}

// share makes calls go together. life ends with the engine.
func (s *scripts) share(life context.Context) *sharing {
	return &sharing{
		Many: many, Most: enough, Alone: alone,
		Send: func(calls []sharedCall) []sharedAnswer {
			var all redisconn.Call
			for _, c := range calls {
				which := "join"
				if c.script == s.leave {
					which = "leave"
				}
				all.Keys = append(all.Keys, c.Keys...)
				all.Args = append(append(all.Args, which, c.run, strconv.Itoa(len(c.Args))), c.Args...)
			}
			return share(calls[0].client.Call(life, s.together, all), len(calls))
		},
	}
}

func alone(ctx context.Context, c sharedCall) sharedAnswer {
	return sharedAnswer{Answer: c.client.Call(ctx, c.script, c.Call)}
}

// share is the answer to n calls, one by one.
func share(all redisconn.Answer, n int) []sharedAnswer {
	results, err := all.ToArray()
	answers := make([]sharedAnswer, n)
	for i := range answers {
		switch {
		case err != nil:
			answers[i].Answer = all // it may have been carried out, or not
		case len(results) != n || results[i].IsNil():
			answers[i] = sharedAnswer{redisconn.Answer{Indeterminate: all.Indeterminate}, true}
		default:
			answers[i].Answer = redisconn.Answer{RedisResult: rueidis.NewResult(results[i], nil), Indeterminate: all.Indeterminate}
		}
	}
	return answers
}

// send makes calls of a script: a single Join or Leave with those of other goroutines, if
// there are many.
func (m *master) send(ctx context.Context, c *redisconn.Client, s *redisconn.Script, run string, calls []redisconn.Call) []redisconn.Answer {
	if m.sharing == nil || len(calls) > 1 || s != m.scripts.join && s != m.scripts.leave {
		return c.CallMany(ctx, s, calls)
	}
	call := sharedCall{c, s, run, calls[0]}
	x, err := m.sharing.Do(ctx, call)
	switch {
	case err != nil:
		return []redisconn.Answer{redisconn.Failed(err)}
	case x.again:
		first := x.Indeterminate // a first attempt of all may have done it
		if x = alone(ctx, call); x.Indeterminate == nil {
			x.Indeterminate = first
		}
	}
	return []redisconn.Answer{x.Answer}
}
