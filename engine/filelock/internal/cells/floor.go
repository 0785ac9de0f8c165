package cells

import (
	"context"
	"errors"
	"fmt"

	"leasehold/engine/linestore"
)

// ErrFloor: the error is of the floor, and not of the line that needed it.
var ErrFloor = errors.New("the floor")

// readFloor reads the floor without a lock: a record like those of names, whose
// line nobody joins. Its last ticket is at least that of every line whose record
// was removed. It is never removed itself. Whoever removed a record raised it
// before, so that who finds that record missing finds the floor raised.
func (c *Cells) readFloor() (last uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrFloor, err)
		}
	}()
	r := newRecord(c.root, "", c.floor.file)
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
	_, err = c.parse(r, payload, known, noFloor)
	return r.state.line.Last, err
}

func noFloor() (uint64, error) { return 0, nil }

// raiseFloor makes the floor at least last.
func (c *Cells) raiseFloor(ctx context.Context, last uint64) error {
	if err := c.floor.take(ctx); err != nil {
		return err
	}
	defer c.floor.give()
	return c.transact(ctx, c.floor, func(cell *linestore.Cell) error {
		cell.Line.Last = max(cell.Line.Last, last)
		return nil
	})
}
