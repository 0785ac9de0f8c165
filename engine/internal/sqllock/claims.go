package sqllock

import (
	"sync"
	"time"

	"leasehold/engine"
)

// Claims are those of a client that may have to be renewed: each from the beginning of its
// Join, until its TTL ends or its Leave begins.
type Claims struct {
	mu    sync.Mutex
	until map[engine.ID]time.Time
}

// always is how long a Join may be under way.
const always = time.Duration(1<<63 - 1)

// keep notes a claim that may live for so long. It counts from the answer, so it ends later than
// the claim does: too late costs a connection, and too early might cost a lease.
func (c *Claims) keep(id engine.ID, ttl time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.until == nil {
		c.until = map[engine.ID]time.Time{}
	}
	c.until[id] = time.Now().Add(ttl)
}

// drop forgets a claim that nobody renews any more.
func (c *Claims) drop(id engine.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.until, id)
}

// atMost is whether there are so many or fewer.
func (c *Claims) atMost(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for id, until := range c.until {
		switch {
		case now.After(until):
			delete(c.until, id)
		case n == 0:
			return false
		default:
			n--
		}
	}
	return true
}
