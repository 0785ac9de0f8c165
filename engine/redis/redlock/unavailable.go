package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
)

// explain is wire.Explain for what the scripts say themselves (beside.lua).
func explain(err error, keys []string) error {
	if re, ok := rueidis.IsRedisErr(err); ok {
		word, n, _ := strings.Cut(strings.TrimPrefix(re.Error(), "-"), " ")
		if i, err := strconv.Atoi(n); word == "FOREIGN" && err == nil && i > 0 && i <= len(keys) {
			return wire.Foreign(keys[i-1])
		}
	}
	return wire.Explain(err, keys[0])
}

// unavailable says why no majority could be asked: nothing was learned. An answer
// that a majority would repeat for ever is refused instead.
func (e *Engine) unavailable(ballots []ballot) error {
	var silent, refused []string
	var final error
	var none *wire.TooEarly
	votes, answered := 0, 0
	for _, b := range ballots {
		var n *wire.TooEarly
		switch {
		case b.err == nil:
			answered++
		case errors.As(b.err, &n):
			votes++
			if none == nil || n.Until.After(none.Until) {
				none = n
			}
		case errors.Is(b.err, engine.ErrRefused):
			final = b.err
			refused = append(refused, e.masters[b.master].name)
		default:
			silent = append(silent, fmt.Sprintf("%s: %v", e.masters[b.master].name, b.err))
		}
	}
	n := len(e.masters)
	if len(refused) > n-e.majority {
		return fmt.Errorf("redlock: %s: %w", strings.Join(refused, ", "), final)
	}
	var said []string
	if none != nil {
		said = append(said, fmt.Sprintf("%d of %d masters were restarted and do not vote until %s (the longest TTL after their start, since they may have forgotten what they granted)",
			votes, n, none.Until.Format("15:04:05")))
	}
	if final != nil {
		said = append(said, fmt.Sprintf("%d of %d refuse (%v)", len(refused), n, final))
	}
	if quiet := n - votes - answered - len(refused); quiet > 0 {
		text := fmt.Sprintf("%d of %d masters do not answer in time", quiet, n)
		if len(silent) > 0 {
			text += " (" + strings.Join(silent, "; ") + ")"
		}
		said = append(said, text)
	}
	if len(said) == 0 {
		said = append(said, "the masters disagree")
	}
	return fmt.Errorf("redlock: %s: %d are needed", strings.Join(said, "; "), e.majority)
}
