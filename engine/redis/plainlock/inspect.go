package plainlock

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/joined"
	"leasehold/engine/redis/internal/wire"
)

func (e *Engine) layout() *joined.Layout {
	return &joined.Layout{
		Wire: e.wire, Read: e.scripts.read, Evict: e.scripts.evict, View: view, NameOf: e.nameOf,
		Call: func(name string) wire.Call { return wire.Call{Keys: e.keys(name)} }, Explain: e.explain,
	}
}

// Evict implements [engine.Engine]. Only holds that came through leasehold have
// a ticket; those of other programs end by their expiry. One that has no expiry
// would never end: with ticket 0 and now it is removed.
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	return e.layout().End(ctx, name, ticket, now,
		fmt.Errorf("another program holds it: only a key without expiry can be removed, and only at once: %w", engine.ErrNoClaim))
}

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	return e.layout().Line(ctx, name)
}

// Lines implements [engine.Engine]. It finds the names that leasehold has used
// within the last hours: whether any other string is somebody's lock cannot be
// told.
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return e.layout().Lines(ctx, side+"*", "", prefix)
}

func view(name string, r rueidis.RedisResult) (engine.Line, error) {
	l := engine.Line{Name: name}
	text, err := r.ToString()
	if err != nil || text == "" {
		return l, err
	}
	numbers, owner, _ := strings.Cut(text, "\n")
	var left int64
	var evicted int
	c := engine.Claim{Name: name, Owner: engine.ParseOwner(owner), Units: engine.Max, Limit: engine.Max, State: engine.Held}
	if _, err := fmt.Sscan(numbers, &left, &c.Ticket, &evicted); err != nil {
		return l, fmt.Errorf("not an answer of ours: %w", err)
	}
	c.Evicted = evicted == 1
	if left >= 0 { // else it has no expiry
		c.TTL = time.Duration(max(left, 1)) * time.Millisecond // 0: less than one, not none
	}
	if c.Ticket == 0 {
		c.Owner.Label = "another program on this key"
	}
	l.Limit, l.Claims = engine.Max, []engine.Claim{c}
	return l, nil
}
