package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"leasehold/engine"
)

var _ engine.Checker = (*Engine)(nil)

// Check implements [engine.Checker]: whether each master is still what it was opened
// as. It does not evict keys, is no replica, and syncs every write if it is known as
// one that does: as such it would vote at once after a restart.
func (e *Engine) Check(ctx context.Context) error {
	var unfit, unknown []string
	looked := ask(e, func(i int, m *master) ballot { return ballot{master: i, err: e.look(ctx, m)} })
	err := receive(ctx, e, looked, nil, func(b ballot) bool {
		switch m := e.masters[b.master]; {
		case errors.Is(b.err, engine.ErrRefused):
			unfit = append(unfit, m.says(b.err))
		case b.err != nil:
			unknown = append(unknown, m.says(b.err))
		}
		return false
	})
	if err != nil {
		unknown = append(unknown, err.Error())
	}
	switch {
	case len(unfit) > 0:
		return engine.Refuse("redlock: %s", strings.Join(unfit, "; "))
	case len(unknown) > 0:
		return fmt.Errorf("redlock: the settings of some masters could not be looked at: %s", strings.Join(unknown, "; "))
	}
	return nil
}

// look is Check of one master. An error that is not refused: it could not be asked.
func (e *Engine) look(ctx context.Context, m *master) error {
	m.mu.Lock()
	c, why, run := m.client, m.why, m.run
	m.mu.Unlock()
	if c == nil {
		return why
	}
	if err := c.Check(ctx, e.opts.AllowEviction); err != nil {
		if said := (*rueidis.RedisError)(nil); errors.As(err, &said) || passing(err) || errors.Is(err, engine.ErrRefused) {
			return unseen(err) // it did not answer, or may not be asked
		}
		return engine.Refuse("%w", err)
	}
	if e.opts.NoRestartDelay {
		return nil
	}
	mark, err := c.Ask(ctx, "HMGET", side+"run", "run").AsStrSlice()
	if err != nil {
		return unseen(err)
	}
	if len(mark) != 1 || mark[0] == "" || mark[0] != run {
		return nil // its restarts are delayed, whatever it syncs
	}
	config, err := c.Ask(ctx, "CONFIG", "GET", "*append*").AsStrMap()
	if err != nil {
		return unseen(err)
	}
	for name, want := range map[string]string{"appendonly": "yes", "appendfsync": "always", "no-appendfsync-on-rewrite": "no"} {
		if got := config[name]; got != want {
			return engine.Refuse("it is known to sync every write and does not any more (%s is %s): after a restart it would vote though it may have forgotten "+
				"who holds: set %s to %s, or open a client now, which has its next restart delayed", name, got, name, want)
		}
	}
	return nil
}

// unseen is an error that is not refused: asked again, it may be known.
func unseen(err error) error { return errors.New(err.Error()) }
