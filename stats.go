package leasehold

import "time"

// Stats is what a Client does at one moment.
type Stats struct {
	Held    int // leases that are open
	Waiting int // calls that wait for a lease

	// Trust is the shortest time until an open lease is lost unless a renewal succeeds.
	// TrustPart is the smallest part that is left of what an open lease was granted
	// last, from 0 to 1: while renewals succeed it stays above one half. Leases with
	// LockOptions.NoRenew do not count. Both are 0 if no other lease is open.
	Trust     time.Duration
	TrustPart float64

	// Failed is how many calls to the engine were not answered, since New. DownFor is
	// how long it has not answered; 0 if it answers.
	Failed  uint64
	DownFor time.Duration

	Closed bool // Close was called: all else is zero
}

// Stats returns what this Client does now. It asks the engine nothing. It looks at every
// lease and every waiting call: some 10 ns each.
func (c *Client) Stats() Stats {
	k := c.core
	k.mu.Lock()
	defer k.unlock()
	if k.closed {
		return Stats{Closed: true}
	}
	n := k.machine.Count(k.now())
	return Stats{Held: n.Leases, Waiting: n.Callers, Trust: n.Trust, TrustPart: n.Part, Failed: n.Failed, DownFor: n.DownFor}
}
