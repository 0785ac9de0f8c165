package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/remote"
)

// engineRoutes are what package httplock calls.
func (s *Server) engineRoutes(mux *http.ServeMux) {
	mux.HandleFunc("POST "+remote.PathOpen, s.callOpen)
	mux.HandleFunc("POST "+remote.PathJoin, s.callJoin)
	mux.HandleFunc("POST "+remote.PathRenew, s.callRenew)
	mux.HandleFunc("POST "+remote.PathLeave, s.callLeave)
	mux.HandleFunc("POST "+remote.PathQueue, s.callQueue)
	mux.HandleFunc("POST "+remote.PathQueues, s.callQueues)
	mux.HandleFunc("POST "+remote.PathRevoke, s.callRevoke)
	mux.HandleFunc("POST "+remote.PathCheck, s.callCheck)
	mux.HandleFunc("POST "+remote.PathWatch, s.callWatch)
}

// Guarantees returns what a remote client may rely on: what the engine promises, but the
// names of a killed client are free when their TTL has passed, and exclusion reaches every
// client of the service.
func (s *Server) Guarantees() engine.Guarantees {
	g := s.grants
	g.CrashRelease = engine.CrashTTL
	g.Scope = engine.ScopeCluster
	return g
}

func (s *Server) callOpen(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, remote.Opening{Version: remote.Version, Guarantees: s.Guarantees(), Checks: s.eng.Checks()})
}

func (s *Server) callJoin(w http.ResponseWriter, r *http.Request) {
	var call remote.JoinCall
	if !readCall(w, r, &call) || !shortName(w, call.Client) {
		return
	}
	c, err := s.join(r.Context(), &call)
	if err != nil {
		answer(w, http.StatusOK, remote.JoinAnswer{Problem: remote.ProblemOf(err)})
		return
	}
	claim := remote.ClaimOf(c)
	answer(w, http.StatusOK, remote.JoinAnswer{Claim: &claim})
}

func (s *Server) join(ctx context.Context, call *remote.JoinCall) (engine.Claim, error) {
	q, err := call.Request()
	if err != nil {
		return engine.Claim{}, err
	}
	who := callerOf(ctx)
	if err := who.may(Lock, q.Name); err != nil {
		return engine.Claim{}, err
	}
	if err := q.Check(); err != nil { // before it counts
		return engine.Claim{}, err
	}
	at, old := place{q.Name, q.ID}, place{q.Name, q.Replaces}
	if err := s.expect(who, call.Client, at, max(q.WaitTTL, q.TTL), old.id != (engine.ID{}) && s.hub.knows(old)); err != nil {
		return engine.Claim{}, err
	}
	q.Detached = true // it outlives this Server
	ctx, cancel := s.bound(ctx)
	defer cancel()
	c, err := s.eng.Join(ctx, q)
	if errors.Is(err, engine.ErrRefused) || err == nil && c.State == engine.Gone {
		s.hub.forget(at)
	}
	if err == nil {
		s.hub.forget(old)
	}
	return c, err
}

// expect counts a claim and has its notifications go to the client. One that replaces
// another is no more than there was, so the limit does not refuse it. Until the engine has
// answered both count: callers whose calls do not end have twice the limit, and no more.
func (s *Server) expect(who *caller, client string, at place, ttl time.Duration, replaces bool) error {
	limits := s.limits
	if replaces {
		limits.Claims = 2 * min(limits.Claims, math.MaxInt/2)
	}
	over, err := s.usage.claim(who.name, limits)
	if err != nil {
		if !s.hub.knows(at) {
			return err
		}
		over = func() {}
	}
	s.route(who, client, at, ttl, over)
	return nil
}

// route has a claim's notifications go to the client. over counts the claim out.
func (s *Server) route(who *caller, client string, at place, ttl time.Duration, over func()) {
	if !s.hub.expect(at, who.name+"\x00"+client, ttl, over) {
		over() // it was counted when the hub learned of it
	}
}

// claim is the ID of a claim of a name that the caller may lock.
func (c *caller) claim(name, secret string) (engine.ID, error) {
	id, err := engine.ParseID(secret)
	if err != nil {
		return id, engine.Refuse("%w", err)
	}
	return id, c.may(Lock, name)
}

func (s *Server) callRenew(w http.ResponseWriter, r *http.Request) {
	var call remote.RenewCall
	if !readCall(w, r, &call) || !shortName(w, call.Client) {
		return
	}
	if !shortBatch(w, len(call.Items)) {
		return
	}
	who := callerOf(r.Context())
	var rs []engine.Renewal
	refused := error(nil)
	for _, item := range call.Items {
		id, err := who.claim(item.Name, item.ID)
		if err == nil { // before it counts: the hub keeps it for as long as it asks for
			err = cmp.Or(engine.CheckName(item.Name), s.grants.CheckTTL(max(item.Want, s.grants.MinTTL)))
		}
		if err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		// A lease that came here from a server that has ended is held: no limit refuses it.
		s.route(who, call.Client, place{item.Name, id}, item.Want, s.usage.kept(who.name))
		rs = append(rs, engine.Renewal{Name: item.Name, ID: id, Want: item.Want})
	}
	s.batch(w, r, refused, len(rs), func(ctx context.Context) ([]engine.Claim, error) { return s.eng.Renew(ctx, rs) }, false)
}

func (s *Server) callLeave(w http.ResponseWriter, r *http.Request) {
	var call remote.LeaveCall
	if !readCall(w, r, &call) {
		return
	}
	if !shortBatch(w, len(call.Items)) {
		return
	}
	who := callerOf(r.Context())
	var cs []engine.Claim
	refused := error(nil)
	for _, item := range call.Items {
		id, err := who.claim(item.Name, item.ID)
		if err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		cs = append(cs, engine.Claim{Name: item.Name, ID: id})
	}
	s.batch(w, r, refused, len(cs), func(ctx context.Context) ([]engine.Claim, error) { return s.eng.Leave(ctx, cs) }, true)
}

// batch makes a call for n items and answers it. refused are those that were not asked.
func (s *Server) batch(w http.ResponseWriter, r *http.Request, refused error, n int, call func(context.Context) ([]engine.Claim, error), left bool) {
	var got []engine.Claim
	var err error
	if n > 0 {
		ctx, cancel := s.bound(r.Context())
		defer cancel()
		got, err = call(ctx)
	}
	for _, c := range got {
		if left || c.State == engine.Gone {
			s.hub.forget(place{c.Name, c.ID})
		}
	}
	if err == nil {
		err = refused
	}
	answer(w, http.StatusOK, remote.BatchAnswer{Claims: remote.ClaimsOf(got), Problem: remote.ProblemOf(err)})
}

func (s *Server) callQueue(w http.ResponseWriter, r *http.Request) {
	var call remote.NameCall
	if !readCall(w, r, &call) {
		return
	}
	q, err := s.queue(r.Context(), call.Name)
	answer(w, http.StatusOK, remote.QueueAnswer{Name: q.Name, Limit: q.Limit, Claims: remote.ClaimsOf(q.Claims), Problem: remote.ProblemOf(err)})
}

// queue reads one for a caller. Who may lock a name may read its queue: a caller that waits
// says who holds it.
func (s *Server) queue(ctx context.Context, name string) (engine.Queue, error) {
	who := callerOf(ctx)
	if err := who.may(Look, name); err != nil && who.may(Lock, name) != nil {
		return engine.Queue{}, err
	}
	ctx, cancel := s.bound(ctx)
	defer cancel()
	q, err := s.eng.Queue(ctx, name)
	return who.sees(q), err
}

func (s *Server) callQueues(w http.ResponseWriter, r *http.Request) {
	var call remote.NameCall
	if !readCall(w, r, &call) {
		return
	}
	who := callerOf(r.Context())
	ctx, cancel := s.bound(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "application/jsonl")
	w.WriteHeader(http.StatusOK)
	http.NewResponseController(w).SetWriteDeadline(time.Now().Add(callBound + answerWithin)) // for a caller that does not read
	out := json.NewEncoder(w)
	for q, err := range s.eng.Queues(ctx, call.Name) {
		if err != nil {
			out.Encode(remote.QueueAnswer{Problem: remote.ProblemOf(err)})
			return
		}
		if who.may(Look, q.Name) != nil {
			continue
		}
		if out.Encode(remote.QueueAnswer{Name: q.Name, Limit: q.Limit, Claims: remote.ClaimsOf(who.sees(q).Claims)}) != nil {
			return
		}
	}
	out.Encode(remote.QueueAnswer{End: true})
}

func (s *Server) callRevoke(w http.ResponseWriter, r *http.Request) {
	var call remote.RevokeCall
	if !readCall(w, r, &call) {
		return
	}
	answer(w, http.StatusOK, remote.Answer{Problem: remote.ProblemOf(s.revoke(r.Context(), call.Name, call.Ticket, call.Now))})
}

func (s *Server) revoke(ctx context.Context, name string, ticket uint64, now bool) error {
	who := callerOf(ctx)
	if err := who.may(Revoke, name); err != nil {
		return err
	}
	bounded, cancel := s.bound(ctx)
	defer cancel()
	err := s.eng.Revoke(bounded, name, ticket, now)
	s.log.Warn("revoked", "name", name, "ticket", ticket, "now", now, "caller", who.name, "error", err)
	return err
}

func (s *Server) callCheck(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := s.bound(r.Context())
	defer cancel()
	answer(w, http.StatusOK, remote.Answer{Problem: remote.ProblemOf(s.eng.Check(ctx))})
}

// callWatch sends notifications until the caller goes. It begins with one that means "look
// at all that waits": what happened before is not known here.
func (s *Server) callWatch(w http.ResponseWriter, r *http.Request) {
	var call remote.WatchCall
	if !readCall(w, r, &call) || !shortName(w, call.Client) {
		return
	}
	box, stop := s.hub.open(callerOf(r.Context()).name + "\x00" + call.Client)
	defer stop()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w.Header().Set("Content-Type", "application/jsonl")
	out := newStream(w, cancel)
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { out.keepAlive(ctx, func() bool { return s.stillKnown(r) }) })
	box.PostAll()
	box.Deliver(ctx, s.draining, func(c engine.Claim) {
		n := remote.Notification{}
		if c.ID != (engine.ID{}) {
			claim := remote.ClaimOf(c)
			n.Claim = &claim
		}
		out.write(n)
	})
	cancel()
}

// maxClient bounds what a client of httplock calls itself: the hub keeps that with each claim.
const maxClient = 64

func shortName(w http.ResponseWriter, client string) bool {
	if len(client) > maxClient {
		unasked(w, http.StatusBadRequest, remote.KindRefused, fmt.Errorf("the client's name has %d bytes, and the most are %d", len(client), maxClient))
		return false
	}
	return true
}

func shortBatch(w http.ResponseWriter, items int) bool {
	if items > remote.MaxBatch {
		unasked(w, http.StatusBadRequest, remote.KindRefused, fmt.Errorf("the call has %d items, and the most are %d: make several", items, remote.MaxBatch))
		return false
	}
	return true
}

// stillKnown reports whether the caller of a request that goes on may still be here, with the
// same rights: it would be refused, or served otherwise, if it came again.
func (s *Server) stillKnown(r *http.Request) bool {
	now, err := s.access.caller(r)
	return err == nil && reflect.DeepEqual(now, callerOf(r.Context()))
}

// readCall decodes a call of httplock.
func readCall(w http.ResponseWriter, r *http.Request, v any) bool {
	inTime := hurry(w)
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBatchBody)).Decode(v); err != nil {
		unasked(w, http.StatusBadRequest, remote.KindRefused, fmt.Errorf("the body is no call of this version: %w", err))
		return false
	}
	inTime()
	return true
}
