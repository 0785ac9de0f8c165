package leasehold

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"leasehold/engine"
)

// Handle is a lease that left its process: text that another process gives to
// Client.Adopt. It is a secret: whoever has it can renew and end the lease.
type Handle string

// String hides the handle from logs; convert it to a string to hand it over.
func (h Handle) String() string { return "handle (secret)" }

// GoString hides it from %#v as well.
func (h Handle) GoString() string { return h.String() }

const handlePrefix = "leasehold1."

type handleBody struct {
	Name  string        `json:"n"`
	ID    string        `json:"i"`
	Token Token         `json:"t"`
	Units int32         `json:"u"`
	Limit int32         `json:"l"`
	TTL   time.Duration `json:"d"`
}

// Detach ends the lease here without giving the name up, and returns the
// handle with which Client.Adopt goes on with it, in this process or another,
// within the TTL. Nobody renews it in between. Only leases obtained with
// LockOptions.Detached can be detached.
//
// Errors: errors.ErrUnsupported for other leases and for one that was re-entered;
// ErrLost. ErrUnknown comes together with a good handle: the engine did not
// confirm the fresh TTL, so less than one may be left.
func (l *Lease) Detach() (Handle, error) {
	k := l.core
	k.mu.Lock()
	cl := l.claim
	k.expire(cl, k.now())
	var err error
	switch {
	case l.lost != nil:
		err = l.lost
	case l.unlocked:
		err = errors.New("it was unlocked already")
	case !cl.lock.Detached:
		err = fmt.Errorf("%w: obtain it with LockOptions.Detached", errors.ErrUnsupported)
	case l.hold.count > 1:
		err = fmt.Errorf("%w: it was re-entered; unlock the inner lease first", errors.ErrUnsupported)
	}
	if err != nil {
		k.unlock()
		return "", wrap("detach", l.name, err)
	}
	l.unlocked = true
	k.endLease(l, nil)
	cl.forget(l)
	cl.users--
	l.hold.count-- // or its context would re-enter what was given away
	body, err := json.Marshal(handleBody{cl.name(), cl.req.ID.Secret(), l.token, cl.req.Units, cl.req.Limit, cl.ttl()})
	k.drop(cl)
	k.unlock()
	if err != nil {
		return "", wrap("detach", l.name, err) // a valid name always marshals
	}
	h := Handle(handlePrefix + base64.RawURLEncoding.EncodeToString(body))

	ctx, cancel := context.WithTimeout(context.Background(), releaseBound)
	defer cancel()
	got, err := k.eng.Renew(ctx, []engine.Renewal{{Name: cl.name(), ID: cl.req.ID, Want: cl.ttl()}})
	i := slices.IndexFunc(got, func(c engine.Claim) bool { return c.ID == cl.req.ID })
	switch {
	case i < 0:
		return h, wrap("detach", l.name, fmt.Errorf("%w: %w", ErrUnknown, orMissing(err)))
	case got[i].State != engine.Held:
		err := ErrLost
		if got[i].Evicted {
			err = ErrEvicted
			_, _ = k.eng.Leave(ctx, []engine.Claim{{Name: cl.name(), ID: cl.req.ID}}) // frees the room of a marked claim
		}
		k.mu.Lock()
		l.err = wrap("unlock", l.name, err)
		k.unlock()
		return "", wrap("detach", l.name, err)
	}
	return h, nil
}

// Adopt goes on with a lease that Lease.Detach ended elsewhere: it is renewed
// from now on, and Unlock gives the name up. The token is the same. Two
// processes that adopt one handle both hold it: hand it to one.
//
// Errors: ErrLost if its TTL has passed or it was evicted; ErrUnavailable;
// errors.ErrUnsupported; a handle that Detach did not make.
func (c *Client) Adopt(ctx context.Context, h Handle) (*Lease, error) {
	k := c.core
	body, id, err := h.parse()
	if err != nil {
		return nil, fmt.Errorf("leasehold: adopt: %w", err)
	}
	if !k.grants.Detach {
		return nil, wrap("adopt", body.Name, fmt.Errorf("%w: this engine has no detached claims", errors.ErrUnsupported))
	}
	lock := c.lock
	lock.Detached = true
	key := lineKey{body.Name, body.Units, body.Limit, body.TTL}
	cl := &claim{line: &localLine{key: key, solo: true, claims: 1}, lock: &lock, index: -1}
	cl.req = request{ID: id, Units: body.Units, Limit: body.Limit, WaitTTL: min(firstTTL, body.TTL), Detached: true}
	cl.line.cur = cl

	s := k.now()
	bounded, cancel := context.WithTimeout(ctx, body.TTL)
	defer cancel()
	got, err := k.eng.Renew(bounded, []engine.Renewal{{Name: body.Name, ID: id, Want: body.TTL}})
	k.mu.Lock()
	defer k.unlock()
	if err == nil || ctx.Err() == nil {
		k.heard(err)
	}
	now := k.now()
	switch {
	case k.closed:
		return nil, wrap("adopt", body.Name, ErrClosed)
	case k.claims[id] != nil:
		return nil, wrap("adopt", body.Name, errors.New("this client adopted that handle already"))
	case len(got) != 1:
		return nil, wrap("adopt", body.Name, fmt.Errorf("%w: %w", ErrUnavailable, orMissing(err)))
	case got[0].Evicted:
		// Its holder was to leave it, and that is now this client.
		k.claims[id] = cl
		k.leaveLater(cl, now)
		return nil, wrap("adopt", body.Name, ErrEvicted)
	case got[0].State != engine.Held:
		return nil, wrap("adopt", body.Name, ErrLost)
	}
	cl.learn(s, got[0])
	cl.ticket, cl.lends = body.Token.Ticket(), uint16(body.Token&(1<<engine.LendBits-1))
	cl.raised = true
	k.claims[id] = cl
	k.pace(cl, s, now, 0)
	if !cl.proven(now) {
		k.leaveLater(cl, now)
		return nil, wrap("adopt", body.Name, ErrLost)
	}
	l := &Lease{core: k, name: body.Name, ctx: ctx, lock: &lock, began: s, ready: make(chan struct{}, 1)}
	l.hold = &l.own
	l.outer, _ = ctx.Value(leaseKey{}).(*Lease)
	k.give(cl, l, now)
	return l, nil
}

func (h Handle) parse() (b handleBody, id engine.ID, err error) {
	bad := errors.New("this is no handle of Lease.Detach: pass it on unchanged")
	text, ok := strings.CutPrefix(strings.TrimSpace(string(h)), handlePrefix)
	if !ok {
		return b, id, bad
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &b) != nil {
		return b, id, bad
	}
	if id, err = engine.ParseID(b.ID); err != nil {
		return b, id, bad
	}
	r := engine.Request{Name: b.Name, ID: id, Units: b.Units, Limit: b.Limit, WaitTTL: b.TTL}
	return b, id, r.Check()
}
