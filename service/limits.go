package service

import (
	"fmt"
	"sync"

	"leasehold/engine"
)

// Limits bound what one caller may take of a Server: a caller with a token or a certificate
// is known by its name, any other by its address. A greedy caller is refused in words, and
// the others go on.
type Limits struct {
	// Requests are those under way at once, and those that wait are among them. One more is
	// refused, unless it renews or gives back. Default 20,000
	Requests int

	// Claims are those that wait, and those of package httplock until they end. A new one
	// beyond the limit is refused. No renewal is. One that replaces another claim of the same
	// name, which this Server knows, is refused beyond twice the limit. A lock that a request
	// has obtained is known to its handle alone. Default 100,000
	Claims int
}

func (l Limits) withDefaults() Limits {
	if l.Requests == 0 {
		l.Requests = 20_000
	}
	if l.Claims == 0 {
		l.Claims = 100_000
	}
	return l
}

// usage counts what callers take. A caller that takes nothing is forgotten.
type usage struct {
	mu sync.Mutex
	by map[string]*taken
}

type taken struct {
	requests, claims int
}

// begin counts a request in; done counts it out. One that keeps a claim is never refused.
func (u *usage) begin(who string, l Limits, keeps bool) (done func(), err error) {
	return u.count(who, func(t *taken) (*int, error) {
		if t.requests >= l.Requests && !keeps {
			return nil, fmt.Errorf("%s has %d requests under way, which is its limit: wait for some of them", who, t.requests)
		}
		return &t.requests, nil
	})
}

// claim counts a claim in. Its error is final: the core does not ask again.
func (u *usage) claim(who string, l Limits) (over func(), err error) {
	return u.count(who, func(t *taken) (*int, error) {
		if t.claims >= l.Claims {
			return nil, &tooMany{who, t.claims}
		}
		return &t.claims, nil
	})
}

// kept counts a claim in that is held, or waits, already: no limit ends it.
func (u *usage) kept(who string) (over func()) {
	over, _ = u.count(who, func(t *taken) (*int, error) { return &t.claims, nil })
	return over
}

// tooMany is final for the core: it is an engine.ErrRefused.
type tooMany struct {
	caller string
	claims int
}

func (e *tooMany) Error() string {
	return fmt.Sprintf("%s has %d claims here, which is its limit: give some of them back", e.caller, e.claims)
}

func (e *tooMany) Unwrap() error { return engine.ErrRefused }

func (u *usage) count(who string, which func(*taken) (*int, error)) (func(), error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	t := u.by[who]
	if t == nil {
		t = &taken{}
	}
	n, err := which(t)
	if err != nil {
		return nil, err
	}
	*n++
	if u.by == nil {
		u.by = map[string]*taken{}
	}
	u.by[who] = t
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if *n--; *t == (taken{}) {
			delete(u.by, who)
		}
	}, nil
}
