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

// Check implements [engine.Checker]: it checks that each master still is as Open found it.
// A master must not evict keys and must not be a replica. A master that is known to sync
// every write must still do so, since it would vote at once after a restart.
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
		return fmt.Errorf("redlock: check the settings of all masters: %s", strings.Join(unknown, "; "))
	}
	return nil
}

// look is Check of one master. An error that is not a refusal means that it could not be
// asked.
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
			return engine.Refuse("it does not sync every write any more (%s is %s), so after a restart it could vote without all holds: "+
				"set %s to %s, or open a new client, which delays its restart", name, got, name, want)
		}
	}
	return nil
}

// unseen returns an error that is not a refusal: asked again, the master may answer.
func unseen(err error) error { return errors.New(err.Error()) }
