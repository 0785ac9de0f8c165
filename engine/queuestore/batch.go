package queuestore

import (
	"context"

	"leasehold/engine"
)

// batch runs op once per name, in order of first appearance, so that a thousand
// claims of one name cost one change. A name that fails costs no other, unless ctx
// has ended; the error is the first.
func batch[In any](ctx context.Context, in []In, name func(*In) string, op func(string, []In) ([]engine.Claim, error)) ([]engine.Claim, error) {
	if len(in) == 1 {
		return op(name(&in[0]), in)
	}
	groups := make([][]In, 0, len(in))
	place := make(map[string]int, len(in))
	for i := range in {
		n := name(&in[i])
		at, found := place[n]
		if !found {
			place[n] = len(groups)
			groups = append(groups, in[i:i+1:i+1])
			continue
		}
		groups[at] = append(groups[at], in[i]) // its capacity is its length
	}
	out := make([]engine.Claim, 0, len(in))
	var first error
	for _, group := range groups {
		cs, err := op(name(&group[0]), group)
		out = append(out, cs...)
		if first == nil {
			first = err
		}
		if ctx.Err() != nil && first != nil {
			break
		}
	}
	return out, first
}
