package queuestore

import "leasehold/engine"

// batch runs op once per name, in order of first appearance, so that a thousand
// claims of one name cost one change. It keeps what was learned before an
// error.
func batch[In any](in []In, name func(*In) string, op func(string, []In) ([]engine.Claim, error)) ([]engine.Claim, error) {
	if len(in) > engine.MaxBatch {
		return nil, engine.Refuse("%d items are more than %d in one call", len(in), engine.MaxBatch)
	}
	for i := range in {
		if err := engine.CheckName(name(&in[i])); err != nil {
			return nil, err
		}
	}
	return batchOf(in, name, op)
}

func batchOf[In any](in []In, name func(*In) string, op func(string, []In) ([]engine.Claim, error)) ([]engine.Claim, error) {
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
	for _, group := range groups {
		cs, err := op(name(&group[0]), group)
		out = append(out, cs...)
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
