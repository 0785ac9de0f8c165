package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// CheckName returns why name cannot be locked, or nil. The error is [ErrName]. It
// serves the core, engines that read names from a store, and every test.
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrName)
	case len(name) > MaxName:
		return fmt.Errorf("%w: it has %d bytes, more than %d", ErrName, len(name), MaxName)
	case !utf8.ValidString(name):
		return fmt.Errorf("%w: it is not valid UTF-8", ErrName)
	case strings.IndexByte(name, 0) >= 0:
		return fmt.Errorf("%w: it contains a NUL byte", ErrName)
	}
	return nil
}

// CheckTTL refuses a lifetime outside MinTTL to MaxTTL.
func CheckTTL(ttl time.Duration) error {
	if ttl < MinTTL || ttl > MaxTTL {
		return Refuse("TTL %v is outside %v to %v", ttl, MinTTL, MaxTTL)
	}
	return nil
}

// Check refuses a request that no engine may accept. The error is the first about the
// name, the ID, permits and limit, Replaces, the owner, the TTLs. The checker in front
// of engines calls it, before [Guarantees.Check]; an engine need not.
func (r *Request) Check() error {
	if err := CheckName(r.Name); err != nil {
		return err
	}
	switch {
	case r.ID == ID{}:
		return Refuse("the claim ID is empty")
	case r.Limit < 1:
		return Refuse("limit %d is below 1", r.Limit)
	case r.Permits < 1 || r.Permits > r.Limit:
		return Refuse("%d permits are outside 1 to the limit %d", r.Permits, r.Limit)
	case r.NoWait && r.Replaces != ID{}:
		return Refuse("NoWait and Replaces exclude each other")
	case r.Replaces == r.ID:
		return Refuse("a claim cannot replace itself")
	}
	if !r.Owner.Fits() {
		return Refuse("the owner has %d bytes, more than %d", len(r.Owner.Text()), MaxOwner)
	}
	if r.TTL != 0 {
		if err := CheckTTL(r.TTL); err != nil {
			return err
		}
	}
	return CheckTTL(r.WaitTTL)
}

// Check refuses a request that needs what g does not declare: a mode, a detached claim,
// a TTL. It accepts a WaitTTL below g.MinTTL, which is raised.
func (g Guarantees) Check(r *Request) error {
	need := ModeOf(r.Permits, r.Limit)
	switch {
	case g.Modes&need == 0:
		return unsupported(fmt.Sprintf("%s claims", need))
	case r.Detached && !g.Detach:
		return unsupported("detached claims")
	}
	if r.TTL != 0 {
		if err := g.CheckTTL(r.TTL); err != nil {
			return err
		}
	}
	return g.CheckTTL(max(r.WaitTTL, g.MinTTL))
}

// CheckTTL refuses a lifetime that g cannot grant as asked for.
func (g Guarantees) CheckTTL(ttl time.Duration) error {
	if err := CheckTTL(ttl); err != nil {
		return err
	}
	switch least, most := g.TTLs(); {
	case ttl < least:
		return Refuse("TTL %v is below this engine's %v", ttl, least)
	case ttl > most:
		return Refuse("TTL %v is above this engine's %v", ttl, most)
	}
	return nil
}

func unsupported(what string) error {
	return fmt.Errorf("%w: this engine has no %s: %w", ErrRefused, what, errors.ErrUnsupported)
}
