package plainlock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
)

// Evict implements [engine.Engine]. Only holds that came through leasehold have
// a ticket; those of other programs cannot be evicted.
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	keys := e.keys(name)
	at := "0"
	if now {
		at = "1"
	}
	a := e.wire.Call(ctx, e.scripts.evict, wire.Call{Keys: keys, Args: []string{strconv.FormatUint(ticket, 10), at}})
	n, err := a.AsInt64()
	switch {
	case err != nil:
		return wire.Explain(err, keys[0])
	case n == 1:
		return nil
	case a.Unsure != nil:
		return wire.Explain(a.Unsure, keys[0])
	}
	return engine.ErrNoClaim
}

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	l := engine.Line{Name: name}
	if err := engine.CheckName(name); err != nil {
		return engine.Line{}, err
	}
	if e.closed.Load() {
		return engine.Line{}, engine.ErrClosed
	}
	keys := e.keys(name)
	list, err := e.wire.Call(ctx, e.scripts.read, wire.Call{Keys: keys}).ToArray()
	if err != nil {
		return l, wire.Explain(err, keys[0])
	}
	if len(list) == 0 {
		return l, nil
	}
	if len(list) != 4 {
		return l, fmt.Errorf("redis: not an answer of ours: %d values", len(list))
	}
	left, err1 := list[0].AsInt64()
	text, err2 := list[1].ToString()
	owner, err3 := list[2].ToString()
	evicted, err4 := list[3].AsInt64()
	ticket, err5 := strconv.ParseUint(text, 10, 64)
	if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
		return l, fmt.Errorf("redis: not an answer of ours: %w", err)
	}
	c := engine.Claim{
		Name: name, Ticket: ticket, Owner: engine.ParseOwner(owner), Units: engine.Max, Limit: engine.Max,
		State: engine.Held, Evicted: evicted == 1, TTL: time.Duration(left) * time.Millisecond,
	}
	if ticket == 0 {
		c.Owner.Label = "another program on this key"
	}
	if left < 0 {
		c.TTL = engine.MaxTTL // it has no expiry at all
	}
	l.Limit, l.Claims = engine.Max, []engine.Claim{c}
	return l, nil
}

// Lines implements [engine.Engine]. It finds the names that leasehold has used
// within the last hours: whether any other string is somebody's lock cannot be
// told.
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return func(yield func(engine.Line, error) bool) {
		if e.closed.Load() {
			yield(engine.Line{}, engine.ErrClosed)
			return
		}
		seen := map[string]bool{}
		for keys, err := range e.wire.Keys(ctx, side+"*", "") {
			if err != nil {
				yield(engine.Line{}, err)
				return
			}
			for _, key := range keys {
				name, ok := e.nameOf(key)
				if !ok || seen[name] || !strings.HasPrefix(name, prefix) || engine.CheckName(name) != nil {
					continue
				}
				seen[name] = true
				l, err := e.Line(ctx, name)
				switch {
				case errors.Is(err, wire.ErrForeign):
					continue
				case err != nil:
					yield(engine.Line{}, err)
					return
				case len(l.Claims) > 0 && !yield(l, nil):
					return
				}
			}
		}
	}
}
