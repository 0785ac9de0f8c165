package leasehold

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"leasehold/engine"
	"leasehold/internal/claims"
	"leasehold/internal/handle"
)

// Handle is a lease that left its process: text that another process passes to
// Client.Adopt. It is a secret: its owner can renew and end the lease.
type Handle string

// String hides the handle from logs. Convert it with string(h) to hand it over.
func (h Handle) String() string { return "handle (secret)" }

// GoString hides the handle from %#v too.
func (h Handle) GoString() string { return h.String() }

// LogValue hides the handle from every handler of log/slog, also from those that write JSON. A
// struct shows it: encoding/json writes the handle, so that programs can pass it on.
func (h Handle) LogValue() slog.Value { return slog.StringValue(h.String()) }

// Detach ends the lease here and keeps the name taken. It returns the handle with which
// Client.Adopt continues the lease, in this process or another, within the TTL. Nobody
// renews it in between. The lease must have been obtained with LockOptions.Detached,
// and without MinHold: a handle does not say until when the name must stay taken.
//
// It returns errors.ErrUnsupported for any other lease and for one that was re-entered,
// and ErrLost for a lost one. ErrUnknown comes together with a good handle: the engine
// did not confirm the fresh TTL, so less than a TTL may be left.
func (l *Lease) Detach() (Handle, error) {
	k := l.core
	k.mu.Lock()
	k.machine.Expire(k.now(), &l.handle)
	k.carryOutLocked(nil)
	detached, reentered := l.handle.Detachable()
	var err error
	switch {
	case l.lost != nil:
		err = l.lost
	case l.handle.Ended():
		err = errors.New("the lease was unlocked already")
	case !detached:
		err = fmt.Errorf("%w: obtain it with LockOptions.Detached and without MinHold", errors.ErrUnsupported)
	case reentered:
		err = fmt.Errorf("%w: it was re-entered; unlock the inner lease first", errors.ErrUnsupported)
	}
	if err != nil {
		k.unlock()
		return "", wrap("detach", l.name, err)
	}
	k.unlocks.Add(1) // Close waits for the call below; the client is open, or the lease were lost
	defer k.unlocks.Done()
	cl := l.handle.Claim()
	text, err := handle.Body{Name: l.name, ID: cl.ID(), Token: uint64(l.token), Permits: cl.Permits(), Limit: cl.Limit(), TTL: cl.TTL()}.Text()
	k.machine.Detach(k.now(), &l.handle)
	k.carryOutLocked(nil)
	l.over = true
	l.endContextsLocked(nil)
	k.unlock()
	if err != nil {
		return "", wrap("detach", l.name, err) // a valid name always marshals
	}
	h := Handle(text)

	ctx, cancel := context.WithTimeout(context.Background(), releaseBound)
	defer cancel()
	got, err := k.eng.Renew(ctx, []engine.Renewal{{Name: l.name, ID: cl.ID(), Want: cl.TTL()}})
	i := slices.IndexFunc(got, func(c engine.Claim) bool { return c.ID == cl.ID() })
	switch {
	case i < 0:
		return h, wrap("detach", l.name, cause(claims.Unknown, orMissing(err)))
	case got[i].State != engine.Held:
		// It was proven a moment ago: its TTL has not passed.
		err := &LostError{Reason: LossDeleted}
		if got[i].Revoked {
			err.Reason = LossRevoked
			_, _ = k.eng.Leave(ctx, []engine.Claim{{Name: l.name, ID: cl.ID()}}) // frees the permits of a marked claim
		}
		k.mu.Lock()
		l.err = wrap("unlock", l.name, err)
		l.lossLocked(err)
		k.unlock()
		return "", wrap("detach", l.name, err)
	}
	return h, nil
}

// orMissing is why nothing was learned of a claim.
func orMissing(err error) error {
	if err == nil {
		return errors.New("the engine's answer does not have the claim")
	}
	return err
}

// Adopt continues a lease that Lease.Detach ended elsewhere. The client renews it from
// now on, and Unlock gives the name back. The token is the same. Two processes that
// adopt one handle both hold the name: give it to one.
//
// Adopt returns ErrLost if the TTL of the lease has passed or somebody revoked it, and
// ErrHandle for text that is no handle. It returns ErrUnavailable and
// errors.ErrUnsupported as Lock does, and refuses the same choices of c.
func (c *Client) Adopt(ctx context.Context, h Handle) (*Lease, error) {
	k := c.core
	body, err := h.parse()
	if err != nil {
		return nil, fmt.Errorf("leasehold: adopt: %w", err)
	}
	if !k.grants.Detach {
		return nil, wrap("adopt", body.Name, fmt.Errorf("%w: this engine has no detached claims", errors.ErrUnsupported))
	}
	want, err := c.want(body.Name, body.Permits, body.Limit)
	if err != nil {
		return nil, wrap("adopt", body.Name, err)
	}
	if err := k.checkTTL(body.TTL); err != nil {
		return nil, wrap("adopt", body.Name, err)
	}
	id := body.ID
	want.TTL, want.Detached = body.TTL, true
	if !k.beginAdopt(id) {
		return nil, wrap("adopt", body.Name, errAdopted)
	}
	defer k.endAdopt(id)
	s := k.now()
	bounded := withBound(ctx, k.life, body.TTL) // Close ends it
	defer bounded.end()
	got, err := k.eng.Renew(bounded, []engine.Renewal{{Name: body.Name, ID: id, Want: body.TTL}})
	if len(got) != 1 {
		if errors.Is(err, engine.ErrRefused) {
			return nil, wrap("adopt", body.Name, err)
		}
		if k.life.Err() != nil && !hasEnded(ctx) { // that ended the call
			return nil, wrap("adopt", body.Name, ErrClosed)
		}
		if !hasEnded(ctx) {
			k.mu.Lock()
			k.machine.Answered(k.now(), orMissing(err))
			k.carryOutLocked(nil)
			k.unlock()
		}
		return nil, wrap("adopt", body.Name, cause(claims.Unavailable, orMissing(err)))
	}
	if cl := got[0]; cl.State == engine.Held && (cl.Ticket != Token(body.Token).Ticket() || cl.Permits != body.Permits || cl.Limit != body.Limit) {
		// A lease that is not what its claim is would let others of this process
		// in, or give the resource a token that nobody was granted.
		return nil, wrap("adopt", body.Name, ErrHandle)
	}
	l := &Lease{core: k, name: body.Name, asked: ctx}
	w := k.waiter(l, want, &c.lock, holding(ctx))
	defer k.waiters.Put(w)
	k.mu.Lock()
	k.machine.Adopt(k.now(), s, &w.Caller, id, body.Token, got[0])
	k.carryOutLocked(w)
	k.unlock()
	<-w.ready
	switch w.why {
	case claims.OK:
		k.began(w, l)
		return l, nil
	case claims.Own:
		return nil, wrap("adopt", body.Name, errAdopted)
	case claims.Expired:
		return nil, wrap("adopt", body.Name, errOver)
	}
	return nil, wrap("adopt", body.Name, cause(w.why, w.err))
}

// errOver: this client never held the claim, so it cannot say why the claim is gone.
var errOver = fmt.Errorf("%w: the engine has no such claim any more: its TTL has passed, or somebody adopted and unlocked it, or deleted it", ErrLost)

// beginAdopt reports whether this client may ask for the claim now. Not while it
// has it, or asks for it already: the answer could be older than its own Unlock,
// and would make a lease of a name that is free.
func (k *core) beginAdopt(id engine.ID) bool {
	k.mu.Lock()
	defer k.unlock()
	if k.adopting[id] || k.machine.Has(id) {
		return false
	}
	if k.adopting == nil {
		k.adopting = map[engine.ID]bool{}
	}
	k.adopting[id] = true
	return true
}

func (k *core) endAdopt(id engine.ID) {
	k.mu.Lock()
	defer k.unlock()
	delete(k.adopting, id)
}

var errAdopted = errors.New("this client adopted that handle already")

// ErrHandle is returned by Adopt for text that is no handle.
var ErrHandle = errors.New("this is not a handle of Lease.Detach: pass the handle on unchanged")

func (h Handle) parse() (handle.Body, error) {
	b, err := handle.Parse(string(h))
	if errors.Is(err, handle.Err) {
		err = ErrHandle
	}
	return b, err
}
