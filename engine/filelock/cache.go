package filelock

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

// maxRecords bounds the records kept open between calls, two descriptors each.
const maxRecords = 128

// maxKept bounds the buffers that a record keeps: a line that was long once
// should not cost its memory for ever.
const maxKept = 256 << 10

// hold finds the record of a name, open or not. Until unhold nobody closes it.
func (e *Engine) hold(name string) *record {
	e.mu.Lock()
	defer e.mu.Unlock()
	r := e.records[name]
	if r == nil {
		r = newRecord(e.lines, name, fileName(name))
		e.records[name] = r
	}
	r.users++
	return r
}

func (e *Engine) unhold(r *record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.users--; r.users > 0 || len(e.records) <= maxRecords {
		return
	}
	for name, other := range e.records { // any: the order of a map is random enough
		if other.users == 0 {
			other.shut()
			delete(e.records, name)
			return
		}
	}
}

// enter lets a method run, unless the engine is closed.
func (e *Engine) enter() bool {
	e.gate.RLock()
	if e.shut {
		e.gate.RUnlock()
		return false
	}
	return true
}

func (e *Engine) leave() { e.gate.RUnlock() }

// The floor is a record like those of names, whose line nobody joins: its last
// ticket is at least that of every line whose record was removed. It is never
// removed itself.

// readFloor reads it without a lock. Whoever removed a record raised it
// before, so that who finds that record missing finds the floor raised.
func (e *Engine) readFloor() (uint64, error) {
	r := newRecord(e.root, "", e.floor.file)
	if err := r.find(); err != nil {
		if errors.Is(err, errNoRecord) {
			err = nil
		}
		return 0, err
	}
	defer r.shut()
	payload, _, known, err := r.load(false)
	if err != nil {
		return 0, err
	}
	_, err = r.parse(payload, known, e.boot, noFloor)
	return r.state.line.Last, err
}

func noFloor() (uint64, error) { return 0, nil }

// raiseFloor makes the floor at least last.
func (e *Engine) raiseFloor(ctx context.Context, last uint64) error {
	if err := e.floor.take(ctx); err != nil {
		return err
	}
	defer e.floor.give()
	_, err := e.transact(ctx, e.floor, &change{
		run: func(_ time.Duration, l *line.Line) ([]engine.Claim, []line.Note, error) {
			l.Last = max(l.Last, last)
			return nil, nil, nil
		},
	})
	return err
}
