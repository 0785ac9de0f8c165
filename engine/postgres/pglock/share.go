package pglock

import (
	"context"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
)

var _ sqllock.Sharer = (*client)(nil)

// Share implements [sqllock.Sharer].
func (c *client) Share(ctx context.Context, calls []sqllock.Call, told func(int, engine.Claim)) error {
	n := len(calls)
	names, ids, owners := make([][]byte, n), make([][]byte, n), make([][]byte, n)
	leaves, detached := make([]bool, n), make([]bool, n)
	permits, limits, lives := make([]int32, n), make([]int32, n), make([]int64, n)
	for i, r := range calls {
		names[i], ids[i], leaves[i], owners[i] = []byte(r.Name), r.ID[:], r.Leave, r.Owner.AppendText([]byte{})
		permits[i], limits[i], lives[i], detached[i] = r.Permits, r.Limit, r.WaitTTL.Microseconds(), r.Detached
	}
	found := make(map[int]answer, n)
	err := c.several(ctx, sqllock.Joining, c.calls.share, n, func() { clear(found) }, func(i int, a *answer) { found[i] = *a },
		names, ids, leaves, c.channel, owners, permits, limits, lives, detached)
	switch {
	case undone(err): // perhaps for the rows of one name: each call finds out by itself
		return nil
	case err != nil:
		return err
	}
	for i, a := range found {
		told(i, c.claim(calls[i].Name, calls[i].ID, &a))
	}
	return nil
}
