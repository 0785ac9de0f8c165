package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// explain is wire.Explain for what the scripts say themselves (beside.lua).
func explain(err error, keys []string) error {
	if re, ok := rueidis.IsRedisErr(err); ok {
		word, n, _ := strings.Cut(strings.TrimPrefix(re.Error(), "-"), " ")
		if i, err := strconv.Atoi(n); word == "FOREIGN" && err == nil && i > 0 && i <= len(keys) {
			return redisconn.Foreign(keys[i-1])
		}
	}
	return redisconn.Explain(err, keys[0])
}

// unavailable says why no majority answered: nothing was learned. If a majority would
// repeat a refusal for ever, it returns that refusal instead. It names every master that
// answered, and says of the others that they do not.
func (e *Engine) unavailable(ballots []ballot) error {
	var silent, refused []string
	var final error
	var none *redisconn.TooEarly
	votes, answered := 0, 0
	for _, b := range ballots {
		var n *redisconn.TooEarly
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
			refused = append(refused, e.masters[b.master].says(b.err))
		default:
			silent = append(silent, e.masters[b.master].says(b.err))
		}
	}
	n := len(e.masters)
	if len(refused) > n-e.majority {
		return &refusal{strings.Join(refused, "; "), final}
	}
	var said []string
	if none != nil {
		said = append(said, fmt.Sprintf("%d of %d masters were started too recently and do not vote until %s (max-ttl after their start: a restart may have made them forget what they granted)",
			votes, n, none.Until.Format("15:04:05")))
	}
	if final != nil {
		said = append(said, fmt.Sprintf("%d of %d refuse (%s)", len(refused), n, strings.Join(refused, "; ")))
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

// refusal is the refusal of a majority, each master with its reason. It unwraps to the
// error of one of them.
type refusal struct {
	text string
	err  error
}

func (r *refusal) Error() string { return "redlock: " + r.text }
func (r *refusal) Unwrap() error { return r.err }

// says is a master's error with the master's name once: errors of connections have it too.
func (m *master) says(err error) string {
	text := err.Error()
	for _, name := range []string{m.name, m.name + ":6379"} {
		text = strings.TrimPrefix(text, name+": ")
	}
	if strings.Contains(m.name, ":") && strings.Contains(text, m.name) {
		return text
	}
	return m.name + ": " + text
}
