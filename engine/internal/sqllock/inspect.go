package sqllock

import (
	"context"
	"iter"
	"math"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// Lines are lines as they are read for inspection, each with the server's clock then.
type Lines []shown

type shown struct {
	name string
	now  time.Duration
	line line.Line
}

func (s *shown) view() engine.Line { return s.line.View(s.now, s.name) }

// Add reads one row, which is a claim, of rows in the order of names and tickets: the
// server's clock, and the claim's name, limit, the ticket up to which claims of that
// name hold, ticket, owner, units, deadline, what was asked for at most, whether it is
// detached, and whether it was evicted. Times are in microseconds.
func (ls *Lines) Add(scan func(to ...any) error) error {
	var name, owner []byte
	var now, upto, ticket, deadline, asked int64
	var lim int32
	var p line.Place
	if err := scan(&now, &name, &lim, &upto, &ticket, &owner, &p.Units, &deadline, &asked, &p.Detached, &p.Evicted); err != nil {
		return err
	}
	if n := len(*ls); n == 0 || (*ls)[n-1].name != string(name) {
		*ls = append(*ls, shown{name: string(name), now: Micros(now), line: line.Line{Limit: lim}})
	}
	p.Ticket, p.Owner, p.Held = uint64(ticket), string(owner), ticket <= upto
	p.Deadline, p.Asked = Micros(deadline), Micros(asked)
	l := &(*ls)[len(*ls)-1].line
	l.Places = append(l.Places, p)
	return nil
}

// Micros is so many microseconds, as far as there are so many: rows may say anything.
func Micros(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Line{}, err
	}
	if e.closed.Load() {
		return engine.Line{}, engine.ErrClosed
	}
	lines, err := e.db.Line(ctx, name)
	if err != nil || len(lines) == 0 {
		return engine.Line{Name: name}, err
	}
	return lines[0].view(), nil
}

// Lines implements [engine.Engine]. It reads some names at a time.
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return func(yield func(engine.Line, error) bool) {
		end := successor(prefix)
		for after := []byte{}; ; {
			var lines Lines
			err := engine.ErrClosed
			if !e.closed.Load() {
				lines, err = e.db.Lines(ctx, after, []byte(prefix), end)
			}
			if err != nil {
				yield(engine.Line{}, err)
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

// Evict implements [engine.Engine].
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	if ticket > engine.MaxTicket {
		return engine.ErrNoClaim
	}
	if e.closed.Load() {
		return engine.ErrClosed
	}
	if found, err := e.db.Evict(ctx, name, ticket, now); err != nil || found {
		return err
	}
	return engine.ErrNoClaim
}
