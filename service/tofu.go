package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"leasehold/engine"
)

// This file is the http backend's lock of OpenTofu and Terraform. A state needs lock_address
// and unlock_address, both PathTofu and a name; the state itself stays where it is.
//
// The backend locks once and never renews. So the claim has from the beginning the TTL that
// ends it if its run is killed, and a run that takes longer has no lock any more.

const (
	// PathTofu is where names of OpenTofu and Terraform are locked and unlocked.
	PathTofu = "/v1/tofu/"

	// tofuTTL is that of an address without ttl. It is longer than most runs, and of a
	// killed run the name is free within the hour.
	tofuTTL = time.Hour

	// tofuLooks is how often LOCK is tried if the name is busy, and nobody is there when
	// the answer is to say who.
	tofuLooks = 3

	maxTofuID = 100 // bytes of LockInfo.ID. OpenTofu and Terraform send a UUID: 36
)

// tofuRoutes are LOCK and UNLOCK, and the methods that people choose for clients and proxies
// that cannot send these (lock_method, unlock_method).
func (s *Server) tofuRoutes(mux *http.ServeMux) {
	for _, path := range []string{PathTofu + "{name...}", PathTofu[:len(PathTofu)-1]} {
		for _, method := range []string{"LOCK", http.MethodPost, http.MethodPut} {
			mux.HandleFunc(method+" "+path, s.tofuLock)
		}
		for _, method := range []string{"UNLOCK", http.MethodDelete} {
			mux.HandleFunc(method+" "+path, s.tofuUnlock)
		}
	}
}

// unlocksState reports whether a request is an UNLOCK.
func unlocksState(r *http.Request) bool {
	return (r.Method == "UNLOCK" || r.Method == http.MethodDelete) && strings.HasPrefix(r.URL.Path+"/", PathTofu)
}

// tofuCall is what a request says.
type tofuCall struct {
	name string
	info lockInfo
	ttl  time.Duration
	id   engine.ID // of the caller's claim
}

// tofuAnswer has what the client reads, and a sentence for people. OpenTofu prints that only
// in its log.
type tofuAnswer struct {
	lockInfo
	Error string `json:"error,omitempty"`
}

func (s *Server) tofuLock(w http.ResponseWriter, r *http.Request) {
	call, ok := s.tofuCall(w, r)
	if !ok {
		return
	}
	who := callerOf(r.Context())
	if err := who.may(Lock, call.name); err != nil {
		refuse(w, http.StatusForbidden, err)
		return
	}
	owner, err := call.info.owner(who.name)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if err := s.grants.CheckTTL(call.ttl); err != nil {
		// A shorter one in its place would end in the middle of a run that does not know of it.
		refuse(w, http.StatusBadRequest, fmt.Errorf("the address has no ttl, and the engine does not have the %v of one without: give an address with a ttl that is longer than the longest run: %w", tofuTTL, err))
		return
	}
	// The client sends the request again, with the same ID, if the answer was lost. It finds
	// its claim then: so the claim stays if the client goes.
	a := &ask{keyed: true, ttl: call.ttl, Request: engine.Request{
		Name: call.name, ID: call.id, Owner: owner, Permits: engine.Max, Limit: engine.Max,
		WaitTTL: call.ttl, TTL: call.ttl, NoWait: true, Detached: true,
	}}
	if err := a.Check(); err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	for range tofuLooks {
		o := s.obtain(r.Context(), a)
		switch {
		case o.end == endHeld:
			answer(w, http.StatusOK, call.info)
			return
		case o.end == endGone: // nobody reads it
			return
		case o.end == endLost:
			refuse(w, http.StatusGone, fmt.Errorf("the lock of %q ended while this request was under way: somebody unlocked it by force", call.name))
			return
		case o.end == endFailed && !errors.Is(o.err, engine.ErrLimit): // which is busy: somebody holds permits of the name
			failed(w, o.err)
			return
		}
		if c, found := s.tofuHolder(r.Context(), call.name); found {
			answer(w, http.StatusLocked, tofuAnswer{infoOf(call.name, c), fmt.Sprintf("%q is locked", call.name)})
			return
		}
	}
	// It has an ID, or the client would not try again (-lock-timeout).
	answer(w, http.StatusLocked, tofuAnswer{lockInfo{ID: "unknown", Path: call.name, Info: "who holds it could not be read"}, fmt.Sprintf("%q is locked", call.name)})
}

// tofuHolder is the claim at the head of a queue. To be told it, the right to lock is enough.
func (s *Server) tofuHolder(ctx context.Context, name string) (c engine.Claim, found bool) {
	ctx, cancel := s.bound(ctx)
	defer cancel()
	q, err := s.eng.Queue(ctx, name)
	if err != nil || len(q.Claims) == 0 {
		return c, false
	}
	return q.Claims[0], true
}

// tofuUnlock gives the caller's lock back. Of another caller it ends the lock that has the
// ID, if this caller may revoke: force-unlock sends nothing but the ID, which everybody sees.
func (s *Server) tofuUnlock(w http.ResponseWriter, r *http.Request) {
	call, ok := s.tofuCall(w, r)
	if !ok {
		return
	}
	// A client that goes wants it no less.
	ctx, cancel := s.afterwards(r.Context())
	defer cancel()
	got, err := s.eng.Leave(ctx, []engine.Claim{{Name: call.name, ID: call.id}})
	switch {
	case len(got) != 1:
		if err == nil {
			err = errors.New("the engine's answer does not have the claim")
		}
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("whether %q was unlocked is unknown: %w; ask again", call.name, err))
	case got[0].State != engine.Gone:
		answer(w, http.StatusOK, call.info)
	default:
		s.tofuUnlockOther(ctx, w, call)
	}
}

// tofuUnlockOther answers an UNLOCK whose caller holds no lock with the ID. It never answers
// 200 if nothing was unlocked: the run was not protected to its end.
func (s *Server) tofuUnlockOther(ctx context.Context, w http.ResponseWriter, call *tofuCall) {
	who := callerOf(ctx)
	mayRevoke := who.may(Revoke, call.name)
	if who.may(Lock, call.name) != nil && mayRevoke != nil {
		refuse(w, http.StatusForbidden, mayRevoke)
		return
	}
	q, err := s.eng.Queue(ctx, call.name)
	if err != nil {
		failed(w, err)
		return
	}
	var holder *engine.Claim
	for i, c := range q.Claims {
		if c.State != engine.Held {
			continue
		}
		holder = cmp.Or(holder, &q.Claims[i])
		if infoOf(call.name, c).ID != call.info.ID {
			continue
		}
		switch err := s.revoke(ctx, call.name, c.Ticket, true); {
		case err == nil:
			answer(w, http.StatusOK, call.info)
			return
		case !errors.Is(err, engine.ErrNoClaim): // or it has just ended
			refuse(w, cmp.Or(forbidden(err), statusOf(err)), err)
			return
		}
		holder = nil
	}
	why := fmt.Errorf("no lock of %q has the ID %q any more: its TTL passed, somebody unlocked it by force, or an earlier try of this request unlocked it", call.name, call.info.ID)
	if holder == nil {
		refuse(w, http.StatusGone, why)
		return
	}
	answer(w, http.StatusConflict, tofuAnswer{infoOf(call.name, *holder), why.Error() + "; somebody else holds it now"})
}

// tofuCall reads a request, or answers it.
func (s *Server) tofuCall(w http.ResponseWriter, r *http.Request) (*tofuCall, bool) {
	who := callerOf(r.Context())
	if !who.all && who.secret == nil {
		// The ID of the claim must be one that others cannot compute, and all else that it is
		// made of is public.
		w.Header().Set("WWW-Authenticate", "Bearer")
		refuse(w, http.StatusUnauthorized, errors.New("this needs a token, with a client's certificate too: give one as password (and any username), or as Authorization: Bearer"))
		return nil, false
	}
	call := &tofuCall{}
	err := call.address(r, s.grants)
	if err == nil {
		defer hurry(w)()
		err = call.read(http.MaxBytesReader(w, r.Body, maxBody))
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return nil, false
	}
	call.id = idOf(who, call.name, "tofu\x00"+call.info.ID)
	return call, true
}

// address reads the name and the TTL. It refuses what it does not know: a wish that is
// silently not granted would be worse.
func (c *tofuCall) address(r *http.Request, grants engine.Guarantees) (err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("the address has a query that cannot be read: %w", err)
	}
	for key := range query {
		if key != "ttl" && key != "name" {
			return fmt.Errorf("the address has %q: known are ttl and name", key)
		}
	}
	if c.name, err = nameOf(r, query.Get("name")); err != nil {
		return err
	}
	text := query.Get("ttl")
	if text == "" {
		c.ttl = tofuTTL // UNLOCK needs none, and LOCK checks it
		return nil
	}
	var d duration
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return err
	}
	c.ttl = time.Duration(d)
	return grants.CheckTTL(c.ttl)
}

// read decodes LockInfo. Later versions of the clients may send more than is known here.
func (c *tofuCall) read(body io.Reader) error {
	if err := json.NewDecoder(body).Decode(&c.info); err != nil {
		return fmt.Errorf("the body is not the LockInfo that OpenTofu and Terraform send: %w", err)
	}
	switch id := c.info.ID; {
	case id == "" || len(id) > maxTofuID:
		return fmt.Errorf("the ID of the lock has %d bytes: 1 to %d are possible", len(id), maxTofuID)
	case id != printable(id):
		return errors.New("the ID of the lock has characters that cannot be printed")
	}
	return nil
}
