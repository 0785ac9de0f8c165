package session

import (
	"time"

	"leasehold/engine"
)

const (
	// MaxClasses bounds the TTLs for which one client has sessions at once.
	MaxClasses = 8

	// Idle is how long an unused class stays open.
	Idle = time.Minute
)

// Classes are the sessions of one client: one for each class of TTL in use. S is what an
// engine keeps of a session. The zero value with Open and Close set has no sessions. It
// has no mutex: its engine has one.
type Classes[S any] struct {
	Open  func(ttl time.Duration) S // begins a session
	Close func(S)                   // ends one

	all []*Class[S]
}

// Class is one session, and how many claims use it.
type Class[S any] struct {
	TTL     time.Duration // the longest TTL that its users trust
	Session S

	uses   int
	unused time.Duration // since when, if uses is 0
}

// For returns a class for that TTL, with one more use, which Done ends. It prefers an open
// class with a TTL of at most a tenth more, so that a dead client's claims end about as
// soon as was asked for. Otherwise it opens one, in the place of the oldest unused one if
// there are [MaxClasses]. If all of those are used, it returns [engine.ErrRefused].
func (cs *Classes[S]) For(ttl, now time.Duration) (*Class[S], error) {
	var best, oldest *Class[S]
	for _, c := range cs.all {
		if ttl <= c.TTL && c.TTL <= ttl+ttl/10 && (best == nil || c.TTL < best.TTL) {
			best = c
		}
		if c.uses == 0 && (oldest == nil || c.unused < oldest.unused) {
			oldest = c
		}
	}
	if best == nil {
		if len(cs.all) >= MaxClasses {
			if oldest == nil {
				return nil, engine.Refuse("TTL %v needs one more session, and the client has the most already, %d: use fewer different TTLs at once", ttl, len(cs.all))
			}
			cs.drop(oldest)
		}
		best = &Class[S]{TTL: ttl, Session: cs.Open(ttl)}
		cs.all = append(cs.all, best)
	}
	best.uses++
	return best, nil
}

// Discard closes a class whose session cannot be used any more. The next For opens
// another.
func (cs *Classes[S]) Discard(c *Class[S]) { cs.drop(c) }

// Done ends one use.
func (cs *Classes[S]) Done(c *Class[S], now time.Duration) {
	if c.uses--; c.uses == 0 {
		c.unused = now
	}
}

// Sweep closes classes that were unused for [Idle].
func (cs *Classes[S]) Sweep(now time.Duration) {
	for _, c := range cs.Opened() {
		if c.uses == 0 && now-c.unused >= Idle {
			cs.drop(c)
		}
	}
}

// Opened returns the open classes.
func (cs *Classes[S]) Opened() []*Class[S] { return append([]*Class[S](nil), cs.all...) }

func (cs *Classes[S]) drop(c *Class[S]) {
	for i, one := range cs.all {
		if one == c {
			cs.all = append(cs.all[:i], cs.all[i+1:]...)
			cs.Close(c.Session)
			return
		}
	}
}
