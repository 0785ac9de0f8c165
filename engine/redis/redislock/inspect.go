package redislock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
)

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Line{}, err
	}
	if e.closed.Load() {
		return engine.Line{}, engine.ErrClosed
	}
	key := e.key(name)
	return view(name, key, e.wire.Call(ctx, e.scripts.read, wire.Call{Keys: []string{key}}).RedisResult)
}

func view(name, key string, r rueidis.RedisResult) (engine.Line, error) {
	none := engine.Line{Name: name}
	both, err := r.ToArray()
	if err != nil {
		return none, wire.Explain(err, key)
	}
	if len(both) != 2 {
		return none, fmt.Errorf("redis: not an answer of ours: %d values", len(both))
	}
	micros, err := both[0].AsInt64()
	if err != nil {
		return none, err
	}
	fields, err := both[1].AsStrMap()
	if err != nil {
		return none, err
	}
	l, err := parseLine(fields)
	if err != nil {
		return none, wire.Foreign(key)
	}
	return l.View(time.Duration(micros)*time.Microsecond, name), nil
}

// Lines implements [engine.Engine]. It walks the keys of every primary, some
// hundred at a time, so it never blocks the server; a line that moves between
// servers meanwhile may be missed.
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return func(yield func(engine.Line, error) bool) {
		if e.closed.Load() {
			yield(engine.Line{}, engine.ErrClosed)
			return
		}
		seen := map[string]bool{} // a key may come twice
		for keys, err := range e.wire.Keys(ctx, wire.Literal(e.prefix)+"{??}:"+wire.Literal(prefix)+"*", "hash") {
			if err != nil {
				yield(engine.Line{}, err)
				return
			}
			var names []string
			var calls []wire.Call
			for _, key := range keys {
				name, ok := e.nameOf(key)
				if !ok || seen[name] || key != e.key(name) || engine.CheckName(name) != nil {
					continue
				}
				seen[name] = true
				names = append(names, name)
				calls = append(calls, wire.Call{Keys: []string{key}})
			}
			for i, a := range e.wire.CallMany(ctx, e.scripts.read, calls) {
				l, err := view(names[i], calls[i].Keys[0], a.RedisResult)
				if errors.Is(err, wire.ErrForeign) {
					continue // somebody else's key is not a line
				}
				if err != nil {
					yield(engine.Line{}, err)
					return
				}
				if len(l.Claims) > 0 && !yield(l, nil) {
					return
				}
			}
		}
	}
}
