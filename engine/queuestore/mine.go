package queuestore

import (
	"math"
	"sync"
	"time"

	"leasehold/engine"
)

// claims are those of this client that Close gives up.
type claims struct {
	off bool // nothing is remembered: see Options.Walk

	mu    sync.Mutex
	known map[engine.ID]claim
	purge int           // when there are so many, those that must have expired are dropped
	now   time.Duration // the store's clock when it was last seen
}

type claim struct {
	name  string
	until time.Duration // by the store's clock
}

// purgeAt is how many claims are remembered before it is looked which of them
// have expired. Nearly all leave or are reported gone long before.
const purgeAt = 64

// expect remembers a claim that is about to be made.
func (m *claims) expect(id engine.ID, name string) {
	if m.off {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known, m.purge = map[engine.ID]claim{}, purgeAt
	}
	if len(m.known) >= m.purge {
		for id, c := range m.known {
			if c.until <= m.now {
				delete(m.known, id)
			}
		}
		m.purge = max(purgeAt, 2*len(m.known)) // so each purge is paid for by as many Joins
	}
	// Until a reply says more it may end at any time: who asked for it leaves it.
	m.known[id] = claim{name, math.MaxInt64}
}

// learn takes what an operation answered. A claim that was revoked is kept: its
// room may not be free before it leaves.
func (m *claims) learn(op *operation) {
	if m.off {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = op.now
	for i := range op.claims {
		c := &op.claims[i]
		if op.leaves != nil || c.State == engine.Gone && !c.Revoked {
			delete(m.known, c.ID)
		} else if k, ok := m.known[c.ID]; ok && c.State != engine.Gone {
			m.known[c.ID] = claim{k.name, op.now + c.TTL}
		}
	}
}

func (m *claims) forget(id engine.ID) {
	if m.off {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.known, id)
}

func (m *claims) all() []engine.Claim {
	m.mu.Lock()
	defer m.mu.Unlock()
	cs := make([]engine.Claim, 0, len(m.known))
	for id, c := range m.known {
		cs = append(cs, engine.Claim{Name: c.name, ID: id})
	}
	return cs
}
