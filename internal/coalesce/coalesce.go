// Package coalesce carries out the calls of many concurrent callers in one request to a
// store, as a database commits a group. With many callers most of the work of a lock is
// not the lock. It is to make a request, send it, begin it at the store, perhaps write it
// to a disk, and answer. So callers share that.
//
// It promises:
//
//   - Each caller gets the answer to its own call.
//   - A caller whose context ends gives up its own waiting and nobody else's. It learns
//     whether its call was withdrawn before it was sent.
//   - No call waits for a clock: calls that come while a request is under way go with the
//     next. Only if that request hangs they wait, for [Group.Patience].
//   - Nothing runs while no call waits.
//
// It knows neither stores nor locks.
package coalesce

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Group is a way to a store. Its fields are set before the first call.
type Group[Call, Answer any] struct {
	// Alone carries out one call for its caller, in the caller's goroutine. It is used
	// while fewer than Many calls are under way: then the detour costs more than it
	// saves.
	Alone func(context.Context, Call) Answer
	Many  int

	// Send carries out calls, Most at most, in one request, and answers each at its place.
	// It belongs to no caller, since none may break off the others. So it bounds itself,
	// and ends when the client is closed. It runs in a goroutine that ends when nobody
	// waits.
	Send func([]Call) []Answer
	Most int

	// Senders is how many requests are under way at once at most; 0 means any number, of
	// which all but one began with Most calls. So Most calls do not wait for a request
	// that is under way: one that hangs delays no call that has company.
	Senders int

	// Patience is how long a request may take until it no longer counts as under way, so that
	// calls which wait go with another. It still answers its own. 0 means for ever.
	Patience time.Duration

	// Key, unless nil, keeps calls of one key out of one request.
	Key func(Call) string

	// First, unless nil, reports calls that go before the others.
	First func(Call) bool

	busy atomic.Int32

	mu      sync.Mutex
	waiting [2][]*member[Call, Answer] // for a request: those that go first, and the others
	senders int
}

// member is one caller's call.
type member[Call, Answer any] struct {
	call   Call
	class  int         // in which part of waiting
	answer chan Answer // capacity 1: whoever sends waits for no caller
}

// ErrNotSent marks the error of a call that was withdrawn before it was sent: the store
// has not seen it and never will.
var ErrNotSent = errors.New("not sent")

// Do carries out a call, with others if there are many. The error is that of ctx, if it
// ended before the answer came. The call may be carried out all the same, unless the error
// is also [ErrNotSent].
func (g *Group[Call, Answer]) Do(ctx context.Context, c Call) (answer Answer, err error) {
	defer g.busy.Add(-1)
	if int(g.busy.Add(1)) < g.Many {
		return g.Alone(ctx, c), nil
	}
	if err := ctx.Err(); err != nil {
		return answer, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	m := g.add(c)
	select {
	case answer = <-m.answer:
		return answer, nil
	case <-ctx.Done():
	}
	if g.withdraw(m) {
		return answer, fmt.Errorf("%w: %w", ErrNotSent, ctx.Err())
	}
	return answer, ctx.Err()
}

// Busy is how many calls are under way or wait for it.
func (g *Group[Call, Answer]) Busy() int { return int(g.busy.Load()) }

func (g *Group[Call, Answer]) add(c Call) *member[Call, Answer] {
	m := &member[Call, Answer]{call: c, class: 1, answer: make(chan Answer, 1)}
	if g.First != nil && g.First(c) {
		m.class = 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting[m.class] = append(g.waiting[m.class], m)
	full := len(g.waiting[0])+len(g.waiting[1]) >= g.Most && (g.Senders == 0 || g.senders < g.Senders)
	if g.senders == 0 || full {
		// Not the caller itself sends: its context may end before the answers come.
		g.senders++
		go g.send()
	}
	return m
}

// withdraw reports whether a call was not taken by a sender yet, and never will be.
func (g *Group[Call, Answer]) withdraw(m *member[Call, Answer]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := &g.waiting[m.class]
	i := slices.Index(*w, m)
	if i < 0 {
		return false
	}
	*w = slices.Delete(*w, i, i+1)
	return true
}

// send sends for as long as calls wait.
func (g *Group[Call, Answer]) send() {
	for {
		members := g.take()
		if len(members) == 0 {
			return
		}
		calls := make([]Call, len(members))
		for i, m := range members {
			calls[i] = m.call
		}
		ends := g.begin()
		answers := g.Send(calls)
		for i, m := range members {
			m.answer <- answers[i]
		}
		if !ends() {
			return
		}
	}
}

// begin bounds the time for which a request counts as under way. ends reports whether it
// still did at its end: if not, another sender has its place.
func (g *Group[Call, Answer]) begin() (ends func() bool) {
	if g.Patience == 0 {
		return func() bool { return true }
	}
	// Stop reports false if the function was begun, and then that has counted this sender out.
	return time.AfterFunc(g.Patience, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.senders--; len(g.waiting[0])+len(g.waiting[1]) > 0 {
			g.senders++
			go g.send()
		}
	}).Stop
}

// take is what goes in one request now, in the order in which it was asked for. Nothing:
// this sender ends, in the step that finds it so, or a call that comes then would wait
// for nobody.
func (g *Group[Call, Answer]) take() []*member[Call, Answer] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting[0])+len(g.waiting[1]), g.Most)
	if n == 0 {
		g.senders--
		return nil
	}
	members := make([]*member[Call, Answer], 0, n)
	var keys map[string]bool
	if g.Key != nil {
		keys = make(map[string]bool, n)
	}
	for i := range g.waiting {
		g.waiting[i] = slices.DeleteFunc(g.waiting[i], func(m *member[Call, Answer]) bool {
			if len(members) == n {
				return false
			}
			if keys != nil {
				key := g.Key(m.call)
				if keys[key] {
					return false
				}
				keys[key] = true
			}
			members = append(members, m)
			return true
		})
	}
	return members
}
