package leasehold

import (
	"context"
	"errors"
)

// checks is what is known of the settings of the engine's server, which were as
// declared when the engine was opened. All under core.mu.
type checks struct {
	begun bool   // a subscription has begun: the next one begins again
	under bool   // a Check is under way
	again bool   // a subscription began meanwhile
	wrong string // what the Observer was told last; empty: all is as declared
}

// recheckLocked has the engine look again whether its server's settings give what
// it declares: the server that a subscription begins again with may be another
// one, or configured anew.
func (k *core) recheckLocked() {
	switch {
	case !k.checks.begun:
		k.checks.begun = true // Open has just looked
	case !k.eng.Checks() || k.opts.Observer == nil:
	case k.checks.under:
		k.checks.again = true
	default:
		k.checks.under = true
		k.spawnLocked(k.check)
	}
}

// check looks until no subscription began while it did: one call at a time.
func (k *core) check() {
	for {
		ctx, cancel := context.WithTimeout(k.life, releaseBound)
		err := k.eng.Check(ctx)
		cancel()
		k.mu.Lock()
		k.checkedLocked(err)
		goOn := k.checks.again && !k.closed
		k.checks.under, k.checks.again = goOn, false
		k.unlock()
		if !goOn {
			return
		}
	}
}

// checkedLocked tells what is new: each different error once, and that all is as
// declared again.
func (k *core) checkedLocked(err error) {
	wrong := ""
	switch {
	case k.closed || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		return // it could not look: nothing was learned
	case err != nil:
		wrong = err.Error()
	}
	if wrong != k.checks.wrong {
		k.checks.wrong = wrong
		k.eventLocked(Event{Kind: EventSettings, Err: err})
	}
}
