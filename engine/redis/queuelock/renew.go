package queuelock

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// batch is how many leases one script call renews: enough for a hundred leases
// a request, few enough not to keep other clients waiting.
const batch = 128

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	together := map[byte][]engine.Renewal{}
	for _, r := range rs {
		slot := e.slot(r.Name)
		together[slot] = append(together[slot], r)
	}
	var some [][]engine.Renewal
	for _, rs := range together {
		some = slices.AppendSeq(some, slices.Chunk(rs, batch))
	}
	out := make([]engine.Claim, 0, len(rs))
	err := e.renew(ctx, some, &out)
	return out, err
}

func (e *Engine) renewal(rs []engine.Renewal) (c redisconn.Call) {
	for _, r := range rs {
		c.Keys = append(c.Keys, e.key(r.Name))
		c.Args = append(c.Args, string(binary.BigEndian.AppendUint64(r.ID[:], uint64(r.Want.Microseconds()))))
	}
	if e.replicas > 0 {
		c.Args = append(c.Args, "w")
	}
	return c
}

// renew makes a call for each of some renewals, appends what was learned, and returns the
// first error. A shard that is away costs only its own claims.
func (e *Engine) renew(ctx context.Context, some [][]engine.Renewal, out *[]engine.Claim) error {
	calls := make([]redisconn.Call, len(some))
	for i, rs := range some {
		calls[i] = e.renewal(rs)
	}
	var first error
	for i, result := range e.renewed(ctx, calls) {
		rs := some[i]
		b, err := result.ToString()
		switch {
		case err != nil && len(rs) > 1 && redisconn.Apart(err):
			// The slot is moving and its keys are in two places.
			err = e.renew(ctx, slices.Collect(slices.Chunk(rs, 1)), out)
		case err != nil:
			err = redisconn.Explain(err, calls[i].Keys[0])
		case len(b) != said*len(rs):
			err = fmt.Errorf("redis: unexpected answer (is the server Redis or Valkey?): %d bytes for %d renewals", len(b), len(rs))
		default:
			for j, r := range rs {
				c, _ := decode(b[said*j:])
				c.Name, c.ID = r.Name, r.ID
				*out = append(*out, c)
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}
