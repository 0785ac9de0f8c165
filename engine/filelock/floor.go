package filelock

import (
	"context"
	"errors"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
)

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
		founds: true,
		run: func(_ time.Duration, l *line.Line) ([]engine.Claim, []line.Note, error) {
			l.Last = max(l.Last, last)
			return nil, nil, nil
		},
	})
	return err
}
