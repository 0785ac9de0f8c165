package service

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/fence"
	"leasehold/internal/boottime"
	"leasehold/internal/handle"
	"leasehold/internal/view"
)

const (
	// DefaultTTL is that of a lock whose request names none.
	DefaultTTL = 30 * time.Second

	// Slice is how long one request waits at most. A longer wait is continued by the same
	// request again, with the same Idempotency-Key, which finds its place.
	Slice = 30 * time.Second

	// grace is how long a place in the queue outlives the request that waited for it.
	grace = 10 * time.Second

	// Bounds of an Idempotency-Key: whoever knows one has the claim.
	leastKey, mostKey = 16, 200

	handlePrefix = handle.Prefix
)

// lockRequest is the body of POST, all of it optional.
type lockRequest struct {
	Name    string   `json:"name"` // where the path has none
	TTL     duration `json:"ttl"`
	Wait    duration `json:"wait"`
	Shared  bool     `json:"shared"`
	Permits int32    `json:"permits"`
	Of      int32    `json:"of"`
	Label   string   `json:"label"`
}

// lockAnswer is what is known of a lock.
type lockAnswer struct {
	Name  string `json:"name"`
	State string `json:"state"` // held, waiting, or busy: not obtained

	// Of one that is held, or waits.
	Handle  string   `json:"handle,omitempty"`
	Token   string   `json:"token,omitempty"` // see shown
	TTL     float64  `json:"ttl_seconds,omitempty"`
	Trusted *float64 `json:"trusted_seconds,omitempty"` // from the moment at which the caller sent the request; there whenever it is held

	Contended bool         `json:"contended,omitempty"` // somebody waits behind it
	Ahead     *int         `json:"ahead,omitempty"`     // how many claims stand before one that waits
	Holders   []view.Claim `json:"holders,omitempty"`   // who holds it instead
	Error     string       `json:"error,omitempty"`
}

// lostAnswer is that of status 410.
type lostAnswer struct {
	Name   string `json:"name"`
	State  string `json:"state"`  // lost
	Reason string `json:"reason"` // revoked, or ended
	Error  string `json:"error"`
}

// postLock obtains a lock, or waits for it.
func (s *Server) postLock(w http.ResponseWriter, r *http.Request) {
	arrived := boottime.Now()
	var body lockRequest
	if !read(w, r, maxBody, &body) {
		return
	}
	a, err := s.ask(r, &body)
	if err != nil {
		refuse(w, cmp.Or(forbidden(err), http.StatusBadRequest), err)
		return
	}
	a.arrived = arrived
	a.still = func() error { return s.still(r, Lock, a.Name) }
	o := s.obtain(r.Context(), a)
	s.tell(w, r, a, o)
}

// ask is what a request asks of the engine.
type ask struct {
	engine.Request
	ttl     time.Duration
	wait    time.Duration
	keyed   bool // the caller can come again for the same claim
	arrived time.Duration
	still   func() error // why the caller may not lock the name any more; nil: nothing can change
}

func (s *Server) ask(r *http.Request, body *lockRequest) (*ask, error) {
	name, err := nameOf(r, body.Name)
	if err != nil {
		return nil, err
	}
	who := callerOf(r.Context())
	if err := who.may(Lock, name); err != nil {
		return nil, err
	}
	a := &ask{ttl: time.Duration(body.TTL), wait: time.Duration(body.Wait)}
	if a.ttl == 0 {
		least, most := s.grants.TTLs()
		a.ttl = min(max(DefaultTTL, least), most)
	}
	if a.wait < 0 {
		return nil, fmt.Errorf("wait is %v: leave it out to ask once", a.wait)
	}
	if err := s.grants.CheckTTL(a.ttl); err != nil {
		return nil, err
	}
	q := engine.Request{Name: name, Permits: engine.Max, Limit: engine.Max, Detached: true, TTL: a.ttl}
	switch {
	case body.Shared && (body.Permits != 0 || body.Of != 0):
		return nil, errors.New("shared and permits exclude each other: choose one")
	case body.Shared:
		q.Permits = 1
	case body.Permits != 0 || body.Of != 0:
		if q.Permits, q.Limit = body.Permits, body.Of; q.Limit == engine.Max {
			return nil, errors.New("of is the limit of locks without permits: choose a smaller one")
		}
	}
	q.Owner = engine.Owner{Host: who.name, Label: body.Label, Since: time.Now().UTC()}
	q.NoWait = a.wait == 0
	q.WaitTTL = min(a.ttl, grace)
	if q.NoWait {
		q.WaitTTL = a.ttl
	}
	key := r.Header.Get("Idempotency-Key")
	switch {
	case key == "":
		q.ID = engine.NewID()
	case len(key) < leastKey || len(key) > mostKey:
		return nil, fmt.Errorf("the Idempotency-Key has %d characters: choose %d to %d at random, since everybody who knows it has the lock", len(key), leastKey, mostKey)
	default:
		q.ID, a.keyed = idOf(who, name, key), true
	}
	if err := q.Check(); err != nil {
		return nil, err
	}
	a.Request = q
	return a, nil
}

// idOf is the ID of a caller's claim: the same on every Server of the service, and unknown
// to everybody who does not know the caller's token and the key.
func idOf(who *caller, name, key string) (id engine.ID) {
	secret := who.secret
	if secret == nil {
		secret = []byte(who.common)
	}
	m := hmac.New(sha256.New, secret)
	fmt.Fprintf(m, "leasehold claim\x00%s\x00%s", name, key)
	copy(id[:], m.Sum(nil))
	return id
}

// tell answers what came of a request.
func (s *Server) tell(w http.ResponseWriter, r *http.Request, a *ask, o outcome) {
	switch o.end {
	case endHeld, endWaiting:
		h, err := handle.Body{Name: a.Name, ID: a.ID, Token: o.claim.Ticket << engine.HandoffBits, Permits: a.Permits, Limit: a.Limit, TTL: a.ttl, Keyed: a.keyed}.Text()
		if err != nil {
			refuse(w, http.StatusInternalServerError, err)
			return
		}
		v := lockAnswer{Name: a.Name, State: o.claim.State.String(), Handle: h, Token: s.shown(a.Name, o.claim.Ticket<<engine.HandoffBits, a.Permits, a.Limit)}
		if o.end == endHeld {
			v.Contended = o.claim.Contended
			v.TTL, v.Trusted = o.claim.TTL.Seconds(), new(trusted(o.proven-a.arrived, o.claim.TTL))
			answer(w, http.StatusOK, v)
			return
		}
		v.TTL = o.claim.TTL.Seconds()
		s.others(r.Context(), &v, o.claim.Ticket)
		w.Header().Set("Retry-After", "0")
		answer(w, http.StatusAccepted, v)
	case endBusy:
		v := lockAnswer{Name: a.Name, State: "busy", Error: fmt.Sprintf("%q is not free: give a wait, or come again", a.Name)}
		if a.wait > 0 {
			v.Error = fmt.Sprintf("%q was not free within %v: wait longer, or come again", a.Name, a.wait)
		}
		s.others(r.Context(), &v, 0)
		answer(w, http.StatusConflict, v)
	case endLost:
		s.lost(w, a.Name, o.claim.Revoked)
	case endGone: // nobody reads it
	default:
		failed(w, o.err)
	}
}

// shown is what the owner of a lock shows to a resource: the text of its pass. It is empty
// where a resource cannot tell who is late: for permits, and where tokens need not rise. A
// bare number would be taken for the token of an exclusive lock there, too.
func (s *Server) shown(name string, token uint64, permits, limit int32) string {
	p := fence.Pass{Name: name, Token: leasehold.Token(token), Mode: engine.ModeOf(permits, limit)}
	if s.grants.Fencing == engine.FencingNone || p.Valid() != nil {
		return ""
	}
	return p.String()
}

// others fills in who holds the name, if the caller learns that in a moment.
func (s *Server) others(ctx context.Context, v *lockAnswer, ticket uint64) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	q, err := s.eng.Queue(ctx, v.Name)
	if err != nil {
		return // the answer is as true without
	}
	ahead := 0
	for i, c := range view.Of(callerOf(ctx).sees(q)).Claims {
		if q.Claims[i].State == engine.Held && q.Claims[i].Ticket != ticket && len(v.Holders) < 10 {
			v.Holders = append(v.Holders, c)
		}
		if c.Ticket < ticket {
			ahead++
		}
	}
	if ticket != 0 {
		v.Ahead = &ahead
	}
}

func (s *Server) lost(w http.ResponseWriter, name string, revoked bool) {
	v := lostAnswer{Name: name, State: "lost", Reason: "ended", Error: fmt.Sprintf("%q is not held by this handle any more: it was given back, or its TTL passed without a renewal; stop what depends on it", name)}
	if revoked {
		v.Reason, v.Error = "revoked", fmt.Sprintf("somebody revoked this hold of %q: stop what depends on it", name)
	}
	answer(w, http.StatusGone, v)
}

// trusted is for how long a caller may trust a claim, from the moment at which it sent its
// request: until the TTL has passed since the call that proved it, less 1 % for the rates
// of two clocks and 7 ms to read them and to act. The caller's clock measures both times.
func trusted(elapsed, ttl time.Duration) float64 {
	t := elapsed + ttl
	t -= t/100 + 7*time.Millisecond
	return math.Floor(max(0, t.Seconds())*1000) / 1000
}

// renewRequest is the body of PUT.
type renewRequest struct {
	TTL duration `json:"ttl"` // default: that of the handle
}

// putLock keeps a lock, or a place in the queue.
func (s *Server) putLock(w http.ResponseWriter, r *http.Request) {
	arrived := boottime.Now()
	var body renewRequest
	if !read(w, r, maxBody, &body) {
		return
	}
	h, ok := s.handle(w, r)
	if !ok {
		return
	}
	ttl := cmp.Or(time.Duration(body.TTL), h.TTL)
	if err := s.grants.CheckTTL(ttl); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	start := boottime.Now()
	c, err := s.renew(r.Context(), engine.Renewal{Name: h.Name, ID: h.ID, Want: ttl})
	switch {
	case err != nil:
		failed(w, err)
	case c.State == engine.Gone || c.Ticket != h.Token>>engine.HandoffBits: // another incarnation is another lock
		s.lost(w, h.Name, c.Revoked)
	default:
		v := lockAnswer{Name: h.Name, State: c.State.String(), Token: s.shown(h.Name, h.Token, h.Permits, h.Limit), TTL: c.TTL.Seconds()}
		if c.State != engine.Held {
			s.others(r.Context(), &v, c.Ticket)
			answer(w, http.StatusAccepted, v)
			return
		}
		v.Trusted, v.Contended = new(trusted(start-arrived, c.TTL)), c.Contended
		answer(w, http.StatusOK, v)
	}
}

// deleteLock gives a lock back, or a place in the queue.
func (s *Server) deleteLock(w http.ResponseWriter, r *http.Request) {
	h, ok := s.handle(w, r)
	if !ok {
		return
	}
	// A caller that goes wants it no less.
	ctx, cancel := s.afterwards(r.Context())
	defer cancel()
	revoked := false
	if h.Keyed {
		// The key may have come again after the end of this lock: that one is not ended.
		c, err := s.renew(ctx, engine.Renewal{Name: h.Name, ID: h.ID, Want: engine.MinTTL})
		switch {
		case err != nil:
			failed(w, fmt.Errorf("whether %q is still held is unknown: %w; ask again", h.Name, err))
			return
		case c.Revoked && (c.Ticket == 0 || c.Ticket == h.Token>>engine.HandoffBits):
			revoked = true // it is left all the same: its permits are free then
		case c.State == engine.Gone || c.Ticket != h.Token>>engine.HandoffBits:
			s.lost(w, h.Name, c.Revoked)
			return
		}
	}
	got, err := s.eng.Leave(ctx, []engine.Claim{{Name: h.Name, ID: h.ID}})
	switch {
	case len(got) != 1:
		if err == nil {
			err = errors.New("the engine's answer does not have the claim")
		}
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("whether %q was given back is unknown: %w; ask again", h.Name, err))
	case got[0].State == engine.Gone:
		s.lost(w, h.Name, revoked || got[0].Revoked)
	default:
		answer(w, http.StatusOK, lockAnswer{Name: h.Name, State: "released"})
	}
}

// handle is what a request has in Authorization. It must be of the name in the path, if
// that has one.
func (s *Server) handle(w http.ResponseWriter, r *http.Request) (h handle.Body, ok bool) {
	scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, errors.New("no handle: send the one that obtained the lock, in Authorization, after Bearer"))
		return h, false
	}
	h, err := handle.Parse(text)
	if err != nil {
		refuse(w, http.StatusUnauthorized, errors.New("this is not a handle: send the one that obtained the lock, unchanged"))
		return h, false
	}
	for _, name := range []string{r.PathValue("name"), r.URL.Query().Get("name")} {
		if name != "" && name != h.Name {
			refuse(w, http.StatusBadRequest, fmt.Errorf("the handle is of another name than %q: send each lock its own", name))
			return h, false
		}
	}
	return h, true
}

// nameOf is the name in the path, the query or the body.
func nameOf(r *http.Request, body string) (name string, err error) {
	for _, next := range []string{r.PathValue("name"), r.URL.Query().Get("name"), body} {
		if name != "" && next != "" && name != next {
			return "", errors.New("the path, the query and the body have different names: give one")
		}
		name = cmp.Or(name, next)
	}
	return name, engine.CheckName(name)
}

// forbidden is 403 for what the caller may not do, and 0 for any other error.
func forbidden(err error) int {
	if _, is := errors.AsType[*notAllowed](err); is {
		return http.StatusForbidden
	}
	return 0
}

// duration is a time.Duration as Go writes it.
type duration time.Duration

// UnmarshalText reads "1m30s".
func (d *duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is no duration: write 500ms, 30s or 1h30m", text)
	}
	*d = duration(v)
	return nil
}
