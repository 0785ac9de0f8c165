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

// Pass is what a holder shows to a resource. It is public: it says who came when, and
// authorises nothing.
type Pass struct {
	Name  string // the name that is held, and by default what the mark is kept under
	Token leasehold.Token
	Mode  engine.Modes // Exclusive or Shared; a resource refuses every other
}

// Of is the pass of a lease. It can be made once and shown for as long as the work
// lasts; it does not change when the lease is renewed or lost. Where the engine
// declares no Fencing tokens need not rise: such a pass has no token, and every
// resource refuses it with ErrPass.
func Of(l *leasehold.Lease) Pass {
	p := Pass{Name: l.Name(), Token: l.Token(), Mode: l.Mode()}
	if l.Fencing() == engine.FencingNone {
		p.Token = 0
	}
	return p
}

// ErrStale is every [StaleError]: the lease is over, and another holder has been here.
var ErrStale = errors.New("stale token")

// ErrPass is of a pass that no resource can judge: permits of a semaphore, or no
// token. The program is wrong, not late.
var ErrPass = errors.New("not a pass")

// StaleError says that a pass was refused, and by which mark.
type StaleError struct {
	Name  string
	Token leasehold.Token // what was shown
	Mark  leasehold.Token // the highest exclusive token that the resource has seen
}

// Error says what to do next.
func (e *StaleError) Error() string {
	return fmt.Sprintf("fence: stale token %s for %q: the resource has seen %s: another holder was here since (or the mark is from "+
		"another engine); throw away what was read under it and lock again", e.Token, e.Name, e.Mark)
}

// Is makes errors.Is(err, ErrStale) true.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Valid is nil, or ErrPass with the reason: permits, no mode, a name that no lease can
// have, a token that is 0 or not below 2^63.
func (p Pass) Valid() error {
	switch {
	case p.Mode == engine.Permits:
		return fmt.Errorf("fence: %w: %q is held by permits, several holders at once are right, and no order among them means "+
			"anything to a resource: take Lock or RLock", ErrPass, p.Name)
	case p.Mode != engine.Exclusive && p.Mode != engine.Shared:
		return fmt.Errorf("fence: %w: it is neither exclusive nor shared: make it by fence.Of or fence.Parse", ErrPass)
	case p.Token == 0:
		return fmt.Errorf("fence: %w: %q has no token: its engine declares no fencing, so that no resource can tell the late from the "+
			"next; use an engine that does (Options.Require)", ErrPass, p.Name)
	case p.Token >= 1<<63:
		return fmt.Errorf("fence: %w: the token %s is no lease's", ErrPass, p.Token)
	}
	if err := engine.CheckName(p.Name); err != nil {
		return fmt.Errorf("fence: %w: %w", ErrPass, err)
	}
	return nil
}

// Check is the rule: nil if a resource with that mark may let the pass in, else a
// StaleError, or ErrPass. A mark of 0 is that of a name never seen.
func (p Pass) Check(mark leasehold.Token) error {
	if err := p.Valid(); err != nil {
		return err
	}
	if p.Token < mark {
		return &StaleError{Name: p.Name, Token: p.Token, Mark: mark}
	}
	return nil
}

// Raises is what the mark must be at least once the pass was let in: the token of an
// exclusive pass, 0 of a shared one.
func (p Pass) Raises() leasehold.Token {
	if p.Mode == engine.Exclusive {
		return p.Token
	}
	return 0
}

// shared follows the token in the text of a shared pass.
const shared = ";shared"

// String is the token in decimal, followed by ";shared" for a shared pass. The name is
// not in it: which name guards a resource is for the resource to say.
func (p Pass) String() string {
	if p.Mode == engine.Shared {
		return p.Token.String() + shared
	}
	return p.Token.String()
}

// Parse reads what String wrote, or a bare token such as LEASEHOLD_TOKEN of `leasehold
// run`. The text is a stranger's; the error, ErrPass, does not repeat it.
func Parse(name, text string) (Pass, error) {
	p := Pass{Name: name, Mode: engine.Exclusive}
	digits, isShared := strings.CutSuffix(text, shared)
	if isShared {
		p.Mode = engine.Shared
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if p.Token = leasehold.Token(n); err != nil || p.Token.String() != digits {
		return Pass{}, fmt.Errorf("fence: %w: want a token in decimal, or one and %q", ErrPass, shared)
	}
	if err := p.Valid(); err != nil {
		return Pass{}, err
	}
	return p, nil
}

type passKey struct{}

// NewContext carries the pass to what is called under ctx: to the transport and the
// handler of fencehttp, and through them from service to service.
func NewContext(ctx context.Context, p Pass) context.Context {
	return context.WithValue(ctx, passKey{}, p)
}

// FromContext is the pass of NewContext, the innermost.
func FromContext(ctx context.Context) (Pass, bool) {
	p, ok := ctx.Value(passKey{}).(Pass)
	return p, ok
}
