package redlock

import (
	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// The delayed restart of the published algorithm is kept by the client, for each
// master by itself: see wire.DelayRestarts. Every script that takes part in granting
// or extending a claim is guarded, so that no client can count the vote of a master
// that forgot.

// delayRestarts lets a master vote only if it can have forgotten nothing.
func (e *Engine) delayRestarts(m *master, c *redisconn.Client) error {
	if e.opts.NoRestartDelay {
		return nil
	}
	return c.DelayRestarts(e.life, e.opts.MaxTTL, side+"run", func(run string) error { return e.alone(m, run) })
}

// alone refuses a master whose run is that of another one, and so the same server.
func (e *Engine) alone(m *master, run string) error {
	m.ran(run)
	// After it is noted: of two that look at the same time one sees the other.
	for _, other := range e.masters {
		other.mu.Lock()
		same := other != m && other.run == run
		other.mu.Unlock()
		if same {
			m.ran("")
			return engine.Refuse("%s and %s are the same server, which has one vote: name each master once", m.name, other.name)
		}
	}
	return nil
}

// ran records the run of a master.
func (m *master) ran(run string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.run = run
}
