package sqllock

import (
	"context"
	"iter"
	"math"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
)

// Queues are queues as they are read for inspection, each with the server's clock then.
type Queues []shown

type shown struct {
	name  string
	now   time.Duration
	queue queue.Queue
}

func (s *shown) view() engine.Queue { return s.queue.View(s.now, s.name) }

// Add reads one row, which is a claim, of rows in the order of names and tickets: the
// server's clock, and the claim's name, limit, the ticket up to which claims of that
// name hold, ticket, owner, permits, deadline, what was asked for at most, whether it is
// detached, and whether it was revoked. Times are in microseconds.
func (ls *Queues) Add(scan func(to ...any) error) error {
	var name, owner []byte
	var now, upto, ticket, deadline, asked int64
	var lim int32
	var p queue.Place
	if err := scan(&now, &name, &lim, &upto, &ticket, &owner, &p.Permits, &deadline, &asked, &p.Detached, &p.Revoked); err != nil {
		return err
	}
	if n := len(*ls); n == 0 || (*ls)[n-1].name != string(name) {
		*ls = append(*ls, shown{name: string(name), now: Micros(now), queue: queue.Queue{Limit: lim}})
	}
	p.Ticket, p.Owner, p.Held = uint64(ticket), string(owner), ticket <= upto
	p.Deadline, p.Asked = Micros(deadline), Micros(asked)
	l := &(*ls)[len(*ls)-1].queue
	l.Places = append(l.Places, p)
	return nil
}

// Micros is so many microseconds, as far as there are so many: rows may say anything.
func Micros(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

// Queue implements [engine.Engine].
func (e *Engine) Queue(ctx context.Context, name string) (engine.Queue, error) {
	lines, err := e.db.Queue(ctx, name)
	if err != nil || len(lines) == 0 {
		return engine.Queue{Name: name}, err
	}
	return lines[0].view(), nil
}

// Queues implements [engine.Engine]. It reads some names at a time.
func (e *Engine) Queues(ctx context.Context, prefix string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) {
		end := successor(prefix)
		for after := []byte{}; ; {
			lines, err := e.db.Queues(ctx, after, []byte(prefix), end)
			if err != nil {
				yield(engine.Queue{}, err)
				return
			}
			if len(lines) == 0 {
				return
			}
			for i := range lines {
				if engine.CheckName(lines[i].name) != nil {
					continue // no client can have joined that
				}
				if l := lines[i].view(); len(l.Claims) > 0 && !yield(l, nil) {
					return
				}
			}
			after = []byte(lines[len(lines)-1].name)
		}
	}
}

// successor is the first name after all that begin with prefix; nil: there is none.
func successor(prefix string) []byte {
	b := []byte(prefix)
	for n := len(b); n > 0; n-- {
		if b[n-1] < 0xff {
			b[n-1]++
			return b[:n]
		}
	}
	return nil
}

// Revoke implements [engine.Engine].
func (e *Engine) Revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	if found, err := e.db.Revoke(ctx, name, ticket, now); err != nil || found {
		return err
	}
	return engine.ErrNoClaim
}
