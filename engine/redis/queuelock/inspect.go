package queuelock

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

func (e *Engine) layout() *parts.Layout {
	return &parts.Layout{
		Wire: e.wire, Read: e.scripts.read, Revoke: e.scripts.revoke, View: view, NameOf: e.nameOf,
		Call: func(name string) redisconn.Call { return redisconn.Call{Keys: []string{e.key(name)}} },
	}
}

// Queue implements [engine.Engine].
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	return e.layout().Queue(ctx, name)
}

// Queues implements [engine.Engine].
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return e.layout().Queues(ctx, redisconn.Literal(e.prefix)+"{??}:"+redisconn.Literal(prefix)+"*", "hash", prefix)
}

// Revoke implements [engine.Engine].
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	return e.layout().End(ctx, name, ticket, now, redisconn.Foreign(e.key(name)))
}

func view(name string, r rueidis.RedisResult) (engine.Queue, error) {
	none := engine.Queue{Name: name}
	both, err := r.ToArray()
	if err != nil {
		return none, err
	}
	if len(both) != 2 {
		return none, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %d values", len(both))
	}
	micros, err := both[0].AsInt64()
	if err != nil {
		return none, err
	}
	fields, err := both[1].AsStrMap()
	if err != nil {
		return none, err
	}
	l, err := parseQueue(fields)
	if err != nil {
		return none, err
	}
	return l.View(time.Duration(micros)*time.Microsecond, name), nil
}
