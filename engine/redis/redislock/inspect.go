package redislock

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/engine/redis/internal/wire"
)

func (e *Engine) layout() *joined.Layout {
	return &joined.Layout{
		Wire: e.wire, Read: e.scripts.read, Evict: e.scripts.evict, View: view, NameOf: e.nameOf,
		Call: func(name string) wire.Call { return wire.Call{Keys: []string{e.key(name)}} },
	}
}

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	return e.layout().Line(ctx, name)
}

// Lines implements [engine.Engine].
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return e.layout().Lines(ctx, wire.Literal(e.prefix)+"{??}:"+wire.Literal(prefix)+"*", "hash", prefix)
}

// Evict implements [engine.Engine].
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	return e.layout().End(ctx, name, ticket, now, wire.Foreign(e.key(name)))
}

func view(name string, r rueidis.RedisResult) (engine.Line, error) {
	none := engine.Line{Name: name}
	both, err := r.ToArray()
	if err != nil {
		return none, err
	}
	if len(both) != 2 {
		return none, fmt.Errorf("not an answer of ours: %d values", len(both))
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
		return none, err
	}
	return l.View(time.Duration(micros)*time.Microsecond, name), nil
}
