package mysqllock

import (
	"context"
	"fmt"

	"leasehold/engine"
	"leasehold/engine/internal/sqllock"
)

var _ sqllock.Sharer = (*client)(nil)

// Share implements [sqllock.Sharer]. Calls that do not fit into a packet are left out.
func (c *client) Share(ctx context.Context, calls []sqllock.Call, answer func(int, engine.Claim)) error {
	var items []byte
	for i := range calls {
		all := appendCall(items, &calls[i])
		if 2*len(all) > c.packet-leastPacket/2 { // a byte is two digits
			break
		}
		items = all
	}
	looks := c.bell.begun()
	n, err := c.call(ctx, sqllock.Joining, c.calls.share, -1, c.id[:], items)
	switch {
	case code(err) != 0 && !ended(err): // rolled back, perhaps for the rows of one name: each call finds out by itself
		return nil
	case err != nil:
		return err
	case len(n)%(1+answerLen) != 0:
		return fmt.Errorf("%w: %d numbers", errAnswer, len(n))
	}
	for ; len(n) > 0; n = n[1+answerLen:] {
		if n[0] < 0 || n[0] >= int64(len(calls)) {
			return fmt.Errorf("%w: call %d of %d", errAnswer, n[0], len(calls))
		}
		r := calls[n[0]]
		answer(int(n[0]), c.claim(r.Name, r.ID, n[1:], looks))
	}
	return nil
}

// appendCall is what share in schema.sql reads.
func appendCall(b []byte, c *sqllock.Call) []byte {
	var owner []byte
	var life int64 // none: a Leave
	if !c.Leave {
		owner, life = c.Owner.AppendText(owner), c.WaitTTL.Microseconds()
	}
	detached := 0
	if c.Detached {
		detached = 1
	}
	b = fmt.Appendf(b, "%03d%05d%011d%010d%010d%d", len(c.Name), len(owner), life, c.Permits, c.Limit, detached)
	b = append(append(b, c.Name...), c.ID[:]...)
	return append(b, owner...)
}
