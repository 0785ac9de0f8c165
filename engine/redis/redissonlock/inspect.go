package redissonlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/parts"
	"leasehold/engine/redis/internal/redisconn"
)

// Queue implements [engine.Engine]. A holder that came through Redisson has ticket 0
// and is named by its field in the lock, which is what Redisson writes in its own
// errors: <uuid of the client>:<number of the thread>.
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	return e.layout().Queue(ctx, name)
}

// Queues implements [engine.Engine]. It looks at every hash whose key begins with
// prefix, and tells locks by their shape.
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return e.layout().Queues(ctx, redisconn.Literal(prefix)+"*", "hash", prefix)
}

// Revoke implements [engine.Engine]. Only holds that came through leasehold have
// a ticket. Those of Redisson have ticket 0, and are ended at once, as by its
// forceUnlock: the holder finds out when it unlocks.
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	return e.layout().End(ctx, name, ticket, now,
		fmt.Errorf("a program with Redisson holds the name and would not notice: end it at once (--now): %w", engine.ErrNoClaim), e.foreign(name))
}

func (e *Engine) layout() *parts.Layout {
	return &parts.Layout{
		Wire: e.wire, Read: e.scripts.read, Revoke: e.scripts.revoke, View: e.view, Explain: e.explain,
		Call:   func(name string) redisconn.Call { return e.call(name) },
		NameOf: func(key string) (string, bool) { return key, !strings.HasPrefix(key, beside) },
	}
}

func (e *Engine) view(name string, r rueidis.RedisResult) (engine.Queue, error) {
	l := engine.Queue{Name: name}
	m, err := r.ToMessage()
	if err != nil {
		return l, err
	}
	if m.IsInt64() {
		return l, e.foreign(name)
	}
	holders, err := m.ToArray()
	for _, h := range holders {
		c, bad := e.held(name, h)
		if err = errors.Join(err, bad); err == nil {
			l.Limit, l.Claims = engine.Max, append(l.Claims, c)
		}
	}
	if err != nil {
		return engine.Queue{Name: name}, fmt.Errorf("unexpected answer (is the server Redis or Valkey?): %w", err)
	}
	slices.SortFunc(l.Claims, func(a, b engine.Claim) int {
		return cmp.Or(cmp.Compare(a.Ticket, b.Ticket), cmp.Compare(a.Owner.Label, b.Owner.Label))
	})
	return l, nil
}

// held reads one holder as read.lua tells it.
func (e *Engine) held(name string, m rueidis.RedisMessage) (c engine.Claim, err error) {
	list, err := m.ToArray()
	if err != nil || len(list) != 6 {
		return c, errors.Join(err, fmt.Errorf("%d values", len(list)))
	}
	field, err1 := list[0].ToString()
	count, err2 := list[1].ToString()
	left, err3 := list[2].AsInt64()
	text, err4 := list[3].ToString()
	owner, err5 := list[4].ToString()
	revoked, err6 := list[5].AsInt64()
	ticket, err7 := strconv.ParseUint(text, 10, 64)
	c = engine.Claim{
		Name: name, Ticket: ticket, Owner: engine.ParseOwner(owner), Permits: engine.Max, Limit: engine.Max,
		State: engine.Held, Revoked: revoked == 1, TTL: duration(max(left, 1)), // 0: less than one, not none
	}
	if left < 0 {
		c.TTL = 0 // it has no expiry
	}
	who, writes := strings.CutSuffix(field, ":write")
	if e.kind == ReadWrite && !writes {
		c.Permits = 1
	}
	if ticket == 0 {
		c.Owner.Label = "Redisson " + who
		if count != "1" {
			c.Owner.Label += ", entered " + count + " times"
		}
	}
	return c, errors.Join(err1, err2, err3, err4, err5, err6, err7)
}
