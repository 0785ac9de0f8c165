package plainlock

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

func (e *Engine) layout() *parts.Layout {
	return &parts.Layout{
		Wire: e.wire, Read: e.scripts.read, Revoke: e.scripts.revoke, View: view, NameOf: e.nameOf,
		Call: func(name string) redisconn.Call { return redisconn.Call{Keys: e.keys(name)} }, Explain: e.explain,
	}
}

// Revoke implements [engine.Engine]. Only holds that came through leasehold have
// a ticket; those of other programs end by their expiry. One that has no expiry
// would never end: with ticket 0 and now it is removed.
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	return e.layout().End(ctx, name, ticket, now,
		fmt.Errorf("another program holds the name: only a key without expiry can be removed, and only at once (--now): %w", engine.ErrNoClaim))
}

// Queue implements [engine.Engine].
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	return e.layout().Queue(ctx, name)
}

// Queues implements [engine.Engine]. It finds the names that leasehold has used within the
// last hours: it cannot know whether any other string is a lock.
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return e.layout().Queues(ctx, side+"*", "", prefix)
}

func view(name string, r rueidis.RedisResult) (engine.Queue, error) {
	l := engine.Queue{Name: name}
	text, err := r.ToString()
	if err != nil || text == "" {
		return l, err
	}
	numbers, owner, _ := strings.Cut(text, "\n")
	var left int64
	var revoked int
	c := engine.Claim{Name: name, Owner: engine.ParseOwner(owner), Permits: engine.Max, Limit: engine.Max, State: engine.Held}
	if _, err := fmt.Sscan(numbers, &left, &c.Ticket, &revoked); err != nil {
		return l, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %w", err)
	}
	c.Revoked = revoked == 1
	if left >= 0 { // else it has no expiry
		c.TTL = time.Duration(max(left, 1)) * time.Millisecond // 0: less than one, not none
	}
	if c.Ticket == 0 {
		c.Owner.Label = "another program on this key"
	}
	l.Limit, l.Claims = engine.Max, []engine.Claim{c}
	return l, nil
}
