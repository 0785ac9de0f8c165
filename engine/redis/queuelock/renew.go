package queuelock

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// batch is how many leases one script call renews: enough for a hundred leases
// a request, few enough not to keep other clients waiting.
const batch = 128

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	if len(rs) > engine.MaxBatch {
		return nil, engine.Refuse("%d renewals are more than %d in one call", len(rs), engine.MaxBatch)
	}
	var bad error
	groups := map[byte][]engine.Renewal{}
	for _, r := range rs {
		if err := errors.Join(engine.CheckName(r.Name), engine.CheckTTL(r.Want)); err != nil {
			bad = err
			continue
		}
		if e.longest > 0 {
			r.Want = min(r.Want, e.longest)
		}
		var group byte // one script call may not touch two slots of a Cluster
		if e.wire.Cluster() {
			group = bucket(r.Name)
		}
		groups[group] = append(groups[group], r)
	}
	var calls []redisconn.Call
	var renewals [][]engine.Renewal
	for _, group := range groups {
		for len(group) > 0 {
			n := min(batch, len(group))
			calls = append(calls, e.renewal(group[:n]))
			renewals = append(renewals, group[:n])
			group = group[n:]
		}
	}
	out := make([]engine.Claim, 0, len(rs))
	err := e.renew(ctx, calls, renewals, &out)
	if err == nil {
		err = bad
	}
	return out, err
}

func (e *Engine) renewal(rs []engine.Renewal) (c redisconn.Call) {
	for _, r := range rs {
		c.Keys = append(c.Keys, e.key(r.Name))
		c.Args = append(c.Args, string(binary.BigEndian.AppendUint64(r.ID[:], uint64(r.Want.Microseconds()))))
	}
	return c
}

// renew appends what was learned and returns the first error. A shard that is
// away costs only its own claims.
func (e *Engine) renew(ctx context.Context, calls []redisconn.Call, renewals [][]engine.Renewal, out *[]engine.Claim) error {
	var first error
	for i, result := range e.renewed(ctx, calls) {
		rs := renewals[i]
		b, err := result.ToString()
		switch {
		case err != nil && len(rs) > 1 && redisconn.Apart(err):
			// The slot is moving and its keys are in two places.
			var singles []redisconn.Call
			var each [][]engine.Renewal
			for j := range rs {
				singles = append(singles, e.renewal(rs[j:j+1]))
				each = append(each, rs[j:j+1])
			}
			err = e.renew(ctx, singles, each, out)
		case err != nil:
			err = redisconn.Explain(err, calls[i].Keys[0])
		case len(b) != said*len(rs):
			err = fmt.Errorf("redis: not an answer of ours: %d bytes for %d renewals", len(b), len(rs))
		default:
			for j, r := range rs {
				c, _ := decode(b[said*j:])
				c.Name, c.ID = r.Name, r.ID
				if c.State == engine.Gone {
					e.claims.Drop(r.ID)
				} else {
					e.claims.Extend(r.ID, c.TTL)
				}
				*out = append(*out, c)
			}
		}
		if first == nil {
			first = err
		}
	}
	return first
}
