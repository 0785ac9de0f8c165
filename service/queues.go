package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"leasehold/engine"
	"leasehold/internal/view"
)

const (
	// maxQueues bounds the names of one answer. A request for more says what it lacks.
	maxQueues = 10_000

	// maxRead bounds the names that are read to answer for all of them.
	maxRead = 100_000
)

// errTooManyNames: a name that was not read would be said to be free.
var errTooManyNames = fmt.Errorf("the engine has more than %d names, which is the most that are read here: ask the engine itself (leasehold why, leasehold watch)", maxRead)

type queuesAnswer struct {
	Queues []view.Queue `json:"queues"`
	Cut    bool         `json:"cut,omitempty"` // there are more: ask with a longer prefix
}

func (s *Server) getQueues(w http.ResponseWriter, r *http.Request) {
	if name := r.URL.Query().Get("name"); name != "" {
		q, err := s.queue(r.Context(), name)
		if err != nil {
			refuse(w, statusOf(err), err)
			return
		}
		answer(w, http.StatusOK, queuesAnswer{Queues: []view.Queue{view.Of(q)}})
		return
	}
	qs, cut, err := s.queues(r.Context(), r.URL.Query().Get("prefix"), maxQueues)
	if err != nil {
		failed(w, err)
		return
	}
	v := queuesAnswer{Queues: []view.Queue{}, Cut: cut}
	for _, q := range qs {
		v.Queues = append(v.Queues, view.Of(q))
	}
	answer(w, http.StatusOK, v)
}

// queues reads what the caller may look at, most queues at most, sorted by name.
func (s *Server) queues(ctx context.Context, prefix string, most int) (all []engine.Queue, cut bool, err error) {
	who := callerOf(ctx)
	ctx, cancel := s.bound(ctx)
	defer cancel()
	for q, err := range s.eng.Queues(ctx, prefix) {
		if err != nil {
			return nil, false, because(ctx, err)
		}
		if who.may(Look, q.Name) != nil {
			continue
		}
		if cut = len(all) == most; cut {
			break
		}
		all = append(all, who.sees(q))
	}
	slices.SortFunc(all, func(a, b engine.Queue) int { return cmp.Compare(a.Name, b.Name) })
	return all, cut, nil
}

func (s *Server) getQueue(w http.ResponseWriter, r *http.Request) {
	q, err := s.queue(r.Context(), r.PathValue("name"))
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	answer(w, http.StatusOK, view.Of(q))
}

type revokeRequest struct {
	Name   string `json:"name"`
	Ticket string `json:"ticket"` // in decimal, as queues show it
	Now    bool   `json:"now"`
}

func (s *Server) postRevoke(w http.ResponseWriter, r *http.Request) {
	var body revokeRequest
	if !read(w, r, maxBody, &body) {
		return
	}
	ticket, err := strconv.ParseUint(body.Ticket, 10, 64)
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("ticket is %q: give the ticket of the claim, as /v1/queues shows it, as text", body.Ticket))
		return
	}
	if err := s.revoke(r.Context(), body.Name, ticket, body.Now); err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

type whyAnswer struct {
	*view.Why
	Cycle bool   `json:"cycle"`
	Text  string `json:"text"` // the same for people
}

func (s *Server) getWhy(w http.ResponseWriter, r *http.Request) {
	name := cmp.Or(r.PathValue("name"), r.URL.Query().Get("name"))
	if !s.grants.SeesWaiters {
		refuse(w, http.StatusNotImplemented, errors.New("this engine does not show who waits: choose one that does"))
		return
	}
	// Queues leaves out what is none: somebody else's data in its place.
	q, err := s.queue(r.Context(), name)
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	qs, cut, err := s.queues(r.Context(), "", maxRead)
	switch {
	case err != nil:
		failed(w, err)
		return
	case cut:
		refuse(w, http.StatusNotImplemented, errTooManyNames)
		return
	}
	if !slices.ContainsFunc(qs, func(other engine.Queue) bool { return other.Name == name }) {
		qs = append(qs, q) // the right to lock a name is enough to read its queue
	}
	why := view.NewSnapshot(qs).Why(name)
	answer(w, http.StatusOK, whyAnswer{why, why.Cycle(), why.Text(strconv.Quote, plain)})
}

// plain writes a text of somebody with its control characters escaped.
func plain(text string) string {
	q := strconv.Quote(text)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
