package parts

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Layout is how an engine keeps names in Redis, as far as looking at them and
// ending them needs it.
type Layout struct {
	Wire *redisconn.Client

	// Read reads the queue of one name, by Call, and View understands it. Revoke
	// ends a claim by its ticket, at once if its second argument is 1, and says
	// how many it ended.
	Read, Revoke *redisconn.Script
	Call         func(name string) redisconn.Call
	View         func(name string, r rueidis.RedisResult) (engine.Queue, error)

	// Explain, if not nil, is wire.Explain for the keys of a name.
	Explain func(err error, name string) error

	// NameOf is the name that a key belongs to, if it belongs to one.
	NameOf func(key string) (string, bool)
}

// Flag is how scripts are told yes and no.
func Flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// Millis rounds up: less than was asked for must not be granted.
func Millis(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Millisecond-1)/time.Millisecond), 10)
}

// Line is the queue of one name.
func (l *Layout) Queue(ctx context.Context, name string) (engine.Queue, error) {
	call := l.Call(name)
	return l.view(name, call, l.Wire.Call(ctx, l.Read, call))
}

func (l *Layout) view(name string, c redisconn.Call, a redisconn.Answer) (engine.Queue, error) {
	queue, err := l.View(name, a.RedisResult)
	return queue, l.explain(err, name, c)
}

func (l *Layout) explain(err error, name string, c redisconn.Call) error {
	if l.Explain != nil {
		return l.Explain(err, name)
	}
	return redisconn.Explain(err, c.Keys[0])
}

// Lines walks the keys that match a pattern, and are of a kind if that is not
// empty, and shows the lines of names with a prefix: some hundred at a time, so
// that it never blocks the server. A line that moves between servers meanwhile
// may be missed.
func (l *Layout) Queues(ctx context.Context, pattern, kind, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		seen := map[string]bool{} // a key may come twice
		for keys, err := range l.Wire.Scan(ctx, pattern, kind) {
			if err != nil {
				yield(engine.Queue{}, err)
				return
			}
			var names []string
			var calls []redisconn.Call
			for _, key := range keys {
				name, ok := l.NameOf(key)
				if !ok || seen[name] || !strings.HasPrefix(name, prefix) || engine.CheckName(name) != nil {
					continue
				}
				seen[name] = true
				names, calls = append(names, name), append(calls, l.Call(name))
			}
			for i, a := range l.Wire.CallMany(ctx, l.Read, calls) {
				queue, err := l.view(names[i], calls[i], a)
				switch {
				case errors.Is(err, redisconn.ErrForeign): // somebody else's key is not a line
				case err != nil:
					yield(engine.Queue{}, err)
					return
				case len(queue.Claims) > 0 && !yield(queue, nil):
					return
				}
			}
		}
	}
}

// End ends the claim with a ticket. others say what answers mean from 2 on.
func (l *Layout) End(ctx context.Context, name string, ticket uint64, now bool, others ...error) error {
	c := l.Call(name)
	c.Args = append(c.Args, strconv.FormatUint(ticket, 10), Flag(now))
	a := l.Wire.Call(ctx, l.Revoke, c)
	n, err := a.AsInt64()
	switch {
	case err != nil:
		return l.explain(err, name, c)
	case n == 1:
		return nil
	case a.Indeterminate != nil:
		return redisconn.Explain(a.Indeterminate, c.Keys[0]) // perhaps the first attempt ended it
	case n >= 2 && n < int64(2+len(others)):
		return others[n-2]
	}
	return engine.ErrNoClaim
}
