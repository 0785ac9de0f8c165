package records

import (
	"context"
	"errors"
	"fmt"

	"leasehold/engine/queuestore"
)

// ErrHighWater: the error is of the high-water mark, and not of the queue that needed it.
var ErrHighWater = errors.New("the high-water mark")

// readHighWater reads the high-water mark without a lock: a record like those of names, whose
// queue nobody joins. Its last ticket is at least that of every queue whose record
// was removed. It is never removed itself. Whoever removed a record raised it
// before, so that who finds that record missing finds the high-water mark raised.
func (c *Records) readHighWater() (last uint64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrHighWater, err)
		}
	}()
	r := newRecord(c.root, "", c.highWater.file)
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
	_, err = c.parse(r, payload, known, noHighWater)
	return r.state.queue.Last, err
}

func noHighWater() (uint64, error) { return 0, nil }

// raiseHighWater makes the high-water mark at least last.
func (c *Records) raiseHighWater(ctx context.Context, last uint64) error {
	if err := c.highWater.take(ctx); err != nil {
		return err
	}
	defer c.highWater.give()
	return c.transact(ctx, c.highWater, func(record *queuestore.Record) error {
		record.Queue.Last = max(record.Queue.Last, last)
		return nil
	})
}
