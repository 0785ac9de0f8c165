package filelock

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"leasehold/engine"
)

// Line implements [engine.Engine]. It reads without the lock: what it shows
// was true a moment ago. Claims of clients that have died are left out.
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Line{}, err
	}
	if err := ctx.Err(); err != nil {
		return engine.Line{}, err
	}
	if !e.enter() {
		return engine.Line{}, engine.ErrClosed
	}
	defer e.leave()
	r := newRecord(e.lines, name, fileName(name))
	ok, err := e.peek(r)
	if err != nil {
		return engine.Line{}, e.explain(name, err, false)
	}
	if !ok || r.state.name != name {
		return engine.Line{Name: name}, nil
	}
	return e.view(&r.state), nil
}

// peek reads the state of a record as it stands, whatever its name. It says no
// if there is none, or something else in its place, or if it is of another
// boot.
func (e *Engine) peek(r *record) (bool, error) {
	if err := r.find(); err != nil {
		if errors.Is(err, errNoRecord) || isStranger(err) {
			err = nil
		}
		return false, err
	}
	defer r.shut()
	payload, _, known, err := r.load(false)
	if isStranger(err) {
		return false, nil
	}
	if err != nil || !known {
		return false, err
	}
	return parseState(payload, &r.state) == nil && r.state.boot == e.boot, nil
}

func (e *Engine) view(s *state) engine.Line {
	now := e.clock()
	owners := map[uint64]string{}
	for i := range s.line.Places {
		owners[s.line.Places[i].Ticket] = s.owners[i]
	}
	// Settled on this copy, as the next change will settle the record.
	alive := map[string]bool{}
	s.line.Depart(now, s.name, func(client string) bool {
		a, asked := alive[client]
		if !asked {
			a = !e.isDead(client)
			alive[client] = a
		}
		return !a
	})
	v, _ := s.line.View(now, s.name)
	for i := range v.Claims {
		v.Claims[i].Owner = parseOwner(owners[v.Claims[i].Ticket])
	}
	return v
}

// Lines implements [engine.Engine]. Names are found by reading every record:
// they are hashed on disk.
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return func(yield func(engine.Line, error) bool) {
		files, err := e.listLines(ctx)
		if err != nil {
			yield(engine.Line{}, err)
			return
		}
		slices.Sort(files)
		for _, file := range files {
			l, err := e.lineIn(ctx, file, prefix)
			if err != nil {
				yield(l, err)
				return
			}
			if len(l.Claims) > 0 && !yield(l, nil) {
				return
			}
		}
	}
}

func (e *Engine) listLines(ctx context.Context) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !e.enter() {
		return nil, engine.ErrClosed
	}
	defer e.leave()
	files, err := e.lines.list()
	if err != nil {
		return nil, e.explain("", err, false)
	}
	return files, nil
}

func (e *Engine) lineIn(ctx context.Context, file, prefix string) (engine.Line, error) {
	if err := ctx.Err(); err != nil {
		return engine.Line{}, err
	}
	if !e.enter() {
		return engine.Line{}, engine.ErrClosed
	}
	defer e.leave()
	r := newRecord(e.lines, "", file)
	ok, err := e.peek(r)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return engine.Line{}, e.explain(file, err, false)
	}
	if err != nil || !ok || !strings.HasPrefix(r.state.name, prefix) || fileName(r.state.name) != file {
		return engine.Line{}, nil
	}
	return e.view(&r.state), nil
}
