// Package parts is shared by several engines of this module. It reads the answers of a
// batch, knows which tries may arrive late, listens for a lock's release, and shows
// queues.
package parts

import (
	"errors"
	"fmt"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// Each reads the answers to calls about claims, of which each is about one: what was
// learned, and the first error. An error costs its own claim alone.
func Each(answers []redisconn.Answer, read func(i int, a redisconn.Answer) (engine.Claim, error)) ([]engine.Claim, error) {
	out := make([]engine.Claim, 0, len(answers))
	var first error
	for i, a := range answers {
		c, err := read(i, a)
		switch {
		case err == nil:
			out = append(out, c)
		case first == nil:
			first = err
		}
	}
	return out, first
}

// Left is Each for claims that were left.
func Left(cs []engine.Claim, answers []redisconn.Answer, found func(i int, a redisconn.Answer) (engine.Claim, error)) ([]engine.Claim, error) {
	return Each(answers, func(i int, a redisconn.Answer) (engine.Claim, error) {
		c, err := found(i, a)
		if err == nil && c.State == engine.Gone {
			// It is gone, but perhaps by an earlier attempt: whether it was held until
			// then nobody can say, and Unlock must not guess.
			err = redisconn.Explain(a.Indeterminate, "")
		}
		c.Name, c.ID, c.TTL = cs[i].Name, cs[i].ID, 0
		return c, err
	})
}

// OnlyLocks refuses what a layout of others cannot tell from a lock: n of n permits
// exclude as well.
func OnlyLocks(r *engine.Request, layout string) error {
	if r.Limit == engine.Max {
		return nil
	}
	return fmt.Errorf("%w: %s has only locks, no permits: %w", engine.ErrRefused, layout, errors.ErrUnsupported)
}
