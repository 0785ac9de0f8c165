package fence

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"leasehold"
	"leasehold/engine"
)

// Pass is what a holder shows to a resource. It is public: it says which holder came when,
// and authorises nothing.
type Pass struct {
	Name  string // the locked name, which by default also names the mark
	Token leasehold.Token
	Mode  engine.Modes // Exclusive or Shared; a resource refuses every other
}

// Of returns the pass of a lease. Make it once and show it for as long as the work lasts;
// it does not change when the lease is renewed or lost. If the engine declares no Fencing,
// tokens need not rise: such a pass has no token, and every resource refuses it with
// ErrPass.
func Of(l *leasehold.Lease) Pass {
	p := Pass{Name: l.Name(), Token: l.Token(), Mode: l.Mode()}
	if l.Fencing() == engine.FencingNone {
		p.Token = 0
	}
	return p
}

// ErrStale is returned as a [StaleError]: the lease is over, and another holder has been
// here.
var ErrStale = errors.New("stale token")

// ErrPass is returned for a pass that no resource can judge: permits of a semaphore, or no
// token. The program is wrong, not late.
var ErrPass = errors.New("not a pass")

// StaleError says which mark refused a pass.
type StaleError struct {
	Name  string
	Token leasehold.Token // the token shown
	Mark  leasehold.Token // the highest exclusive token that the resource has seen
}

// Error returns both tokens and what to do next.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: stale token %s for %q: the resource has seen %s, so another holder was here since (or the mark is from "+
		"another engine); throw away what you read under this token and lock again", e.Token, e.Name, e.Mark)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Valid returns nil, or ErrPass with the reason: permits, no mode, a name that cannot be
// locked, a token that is 0 or not below 2^63.
func (p Pass) Valid() error {
	switch {
	case p.Mode == engine.Permits:
		return fmt.Errorf("fence: %w: %q is held by permits: it may have several holders at once, and their order means nothing to a resource; "+
			"use Lock or RLock", ErrPass, p.Name)
	case p.Mode != engine.Exclusive && p.Mode != engine.Shared:
		return fmt.Errorf("fence: %w: it is neither exclusive nor shared; make it with fence.Of or fence.Parse", ErrPass)
	case p.Token == 0:
		return fmt.Errorf("fence: %w: %q has no token: its engine declares no fencing, so no resource can detect a late holder; "+
			"use an engine that does (Options.Require)", ErrPass, p.Name)
	case p.Token >= 1<<63:
		return fmt.Errorf("fence: %w: no lease has the token %s; show the token of a lease", ErrPass, p.Token)
	}
	if err := engine.CheckName(p.Name); err != nil {
		return fmt.Errorf("fence: %w: %w", ErrPass, err)
	}
	return nil
}

// Check is the rule. It returns nil if a resource with that mark may admit the pass, and
// otherwise a StaleError or ErrPass. The mark 0 is that of a new name.
func (p Pass) Check(mark leasehold.Token) error {
	if err := p.Valid(); err != nil {
		return err
	}
	if p.Token < mark {
		return &StaleError{Name: p.Name, Token: p.Token, Mark: mark}
	}
	return nil
}

// Raises returns what the mark must be at least once the pass was admitted: the token of
// an exclusive pass, 0 for a shared one.
func (p Pass) Raises() leasehold.Token {
	if p.Mode == engine.Exclusive {
		return p.Token
	}
	return 0
}

// shared follows the token in the text of a shared pass.
const shared = ";shared"

// String returns the token in decimal, followed by ";shared" for a shared pass. The name
// is not in it: the resource decides which name guards it.
func (p Pass) String() string {
	if p.Mode == engine.Shared {
		return p.Token.String() + shared
	}
	return p.Token.String()
}

// Parse reads what String wrote. LEASEHOLD_TOKEN of `leasehold run` is such a text, and so is
// "token" of an answer of `leasehold serve`; where they are empty or missing there is no
// pass. It returns ErrPass for any other text, and does not repeat it, since it is untrusted.
func Parse(name, text string) (Pass, error) {
	p := Pass{Name: name, Mode: engine.Exclusive}
	digits, isShared := strings.CutSuffix(text, shared)
	if isShared {
		p.Mode = engine.Shared
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if p.Token = leasehold.Token(n); err != nil || p.Token.String() != digits {
		return Pass{}, fmt.Errorf("fence: %w: give a token in decimal, with or without %q behind it", ErrPass, shared)
	}
	if err := p.Valid(); err != nil {
		return Pass{}, err
	}
	return p, nil
}

type passKey struct{}

// NewContext returns ctx with the pass, for the transport and the handler of fencehttp,
// and through them for other services.
func NewContext(ctx context.Context, p Pass) context.Context {
	return context.WithValue(ctx, passKey{}, p)
}

// FromContext returns the innermost pass that NewContext put into ctx.
func FromContext(ctx context.Context) (Pass, bool) {
	p, ok := ctx.Value(passKey{}).(Pass)
	return p, ok
}
