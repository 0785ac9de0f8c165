package session

import (
	"time"

	"leasehold/engine"
)

const (
	// MaxClasses bounds the TTLs that one client has sessions for at once.
	MaxClasses = 8

	// Idle is how long a class stays open that nobody uses.
	Idle = time.Minute
)

// Classes are the sessions of one client: one for each class of TTL that is in use. S is
// what an engine keeps of a session. The zero value with Open and Close set has none.
// It knows no mutex: its engine has one.
type Classes[S any] struct {
	Open  func(ttl time.Duration) S // begins a session
	Close func(S)                   // gives one up

	all []*Class[S]
}

// Class is one session, and how many use it.
type Class[S any] struct {
	TTL     time.Duration // the longest that its users trust
	Session S

	uses   int
	unused time.Duration // since when, where nobody does
}

// For is a class for that TTL, with one more use that Done ends: one that is open and
// hardly longer, so that a dead client's claims go about as soon as was asked for; else a
// new one, in the place of one that is unused if there are many. The error is
// [engine.ErrRefused]: all are used.
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
				return nil, engine.Refuse("claims with %d different TTLs are in the queue already, and each needs a session of its own: use fewer different TTLs than that, not %v as well", len(cs.all), ttl)
			}
			cs.drop(oldest)
		}
		best = &Class[S]{TTL: ttl, Session: cs.Open(ttl)}
		cs.all = append(cs.all, best)
	}
	best.uses++
	return best, nil
}

// Discard gives up a class whose session cannot be had, whoever uses it: the next who asks
// has another.
func (cs *Classes[S]) Discard(c *Class[S]) { cs.drop(c) }

// Done ends one use.
func (cs *Classes[S]) Done(c *Class[S], now time.Duration) {
	if c.uses--; c.uses == 0 {
		c.unused = now
	}
}

// Sweep gives up what has been unused for [Idle].
func (cs *Classes[S]) Sweep(now time.Duration) {
	for _, c := range cs.Opened() {
		if c.uses == 0 && now-c.unused >= Idle {
			cs.drop(c)
		}
	}
}

// Opened are those that there are.
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
