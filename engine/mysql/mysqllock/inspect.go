package mysqllock

import (
	"context"
	"database/sql"
	"iter"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// shown is a line as it is read for inspection, and the server's clock then.
type shown struct {
	name string
	now  time.Duration
	line line.Line
}

func (s *shown) view() engine.Line { return s.line.View(s.now, s.name) }

// add reads one row of place.
func add(lines *[]shown, r *sql.Rows) error {
	var name, owner []byte
	var now, upto, ticket, deadline, asked int64
	var lim int32
	var p line.Place
	if err := r.Scan(&now, &name, &lim, &upto, &ticket, &owner, &p.Units, &deadline, &asked, &p.Detached, &p.Evicted); err != nil {
		return err
	}
	if n := len(*lines); n == 0 || (*lines)[n-1].name != string(name) {
		*lines = append(*lines, shown{name: string(name), now: micros(now), line: line.Line{Limit: lim}})
	}
	p.Ticket, p.Owner, p.Held = uint64(ticket), string(owner), ticket <= upto
	p.Deadline, p.Asked = micros(deadline), micros(asked)
	l := &(*lines)[len(*lines)-1].line
	l.Places = append(l.Places, p)
	return nil
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// read makes a call that answers with rows of place.
func (e *Engine) read(ctx context.Context, statement string, args ...any) (lines []shown, err error) {
	if e.closed.Load() {
		return nil, engine.ErrClosed
	}
	rows, err := e.db.QueryContext(ctx, literal(statement, args...))
	if err != nil {
		return nil, explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := add(&lines, rows); err != nil {
			return nil, err
		}
	}
	return lines, explain(rows.Err())
}

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Line{}, err
	}
	lines, err := e.read(ctx, e.calls.line, []byte(name))
	if err != nil || len(lines) == 0 {
		return engine.Line{Name: name}, err
	}
	return lines[0].view(), nil
}

// Lines implements [engine.Engine]. It reads some two hundred names at a time.
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return func(yield func(engine.Line, error) bool) {
		end := successor(prefix)
		for after := []byte{}; ; {
			lines, err := e.read(ctx, e.calls.lines, after, []byte(prefix), end, end)
			if err != nil {
				yield(engine.Line{}, err)
				return
			}
			if len(lines) == 0 {
				return
			}
			for i := range lines {
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
	ended, err := e.call(ctx, e.calls.evict, 1, []byte(name), ticket, now)
	if err != nil {
		return err
	}
	if ended[0] == 0 {
		return engine.ErrNoClaim
	}
	return nil
}
