package ui

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

const (
	// perQueue bounds the claims of one page.
	perQueue = 50
	// maxShown bounds the events of one page.
	maxShown = 50
)

type nameBody struct {
	Name          string
	Queue         engine.Queue
	Mode          string
	Held, Waiting int
	Used          []share // of the permits
	Claims        []place
	From          int // places before those
	Before, Next  string
	More          int
	Events        []event
	Gaps          []gap
	Began         time.Time
	Lanes         *lanes
	SeesWaiters   bool
	Free          bool
}

// place is a claim on the page of its name.
type place struct {
	engine.Claim
	At     int // in the queue, from 1
	Holds  []engine.Hold
	Cycle  bool
	Revoke bool // the caller may
}

// share is a part of the permits of a name, in thousandths.
type share struct{ X, W int }

// queueOf is the queue of a name, for a caller who may read it.
func (h *Handler) queueOf(r *http.Request, v *visit, name string) (engine.Queue, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Queue{}, &refusal{http.StatusBadRequest, err}
	}
	if !v.read(name) {
		return engine.Queue{}, unseen(name)
	}
	if q, ok := v.shot.snap.ByName[name]; ok {
		return v.queue(q), nil
	}
	if !v.shot.away.IsZero() || v.shot.at.IsZero() {
		return engine.Queue{}, &refusal{http.StatusServiceUnavailable, fmt.Errorf("it is not known whether %s is free: the engine does not answer; this page shows it when it does", view.QuoteName(name))}
	}
	q, err := h.feed.one(r.Context(), name)
	if err != nil {
		return q, &refusal{http.StatusBadGateway, fmt.Errorf("the queue of %s cannot be read: %w", view.QuoteName(name), err)}
	}
	return v.queue(q), nil
}

func unseen(name string) error {
	return &refusal{http.StatusForbidden, fmt.Errorf("you may not look at %s: ask the owner of the service for that right", view.QuoteName(name))}
}

// name shows one queue and what happened to it.
func (h *Handler) name(r *http.Request, v *visit) (*answer, error) {
	name := r.URL.Query().Get("name")
	if name == "" {
		return nil, &refusal{http.StatusBadRequest, errors.New("the address has no name: add ?name=NAME, or begin at the overview")}
	}
	q, err := h.queueOf(r, v, name)
	if err != nil {
		return nil, err
	}
	b := &nameBody{Name: name, Queue: q, SeesWaiters: h.o.Source.Guarantees().SeesWaiters, Free: len(q.Claims) == 0}
	b.Held, b.Waiting = view.Count(q)
	if len(q.Claims) > 0 {
		b.Mode = view.ModeText(q.Claims[0])
	}
	b.Used = shares(q)
	circles := v.shot.only(&v.Rights).circles()
	from, _ := strconv.Atoi(r.URL.Query().Get("from"))
	from = min(max(from, 0), max(0, len(q.Claims)-1)) / perQueue * perQueue
	b.From = from
	to := min(from+perQueue, len(q.Claims))
	mayRevoke := h.mayRevoke(v, name)
	for i, c := range q.Claims[from:to] {
		b.Claims = append(b.Claims, place{Claim: c, At: from + i + 1, Holds: c.Owner.Holds, Cycle: circles.In[view.Key{Name: name, Ticket: c.Ticket}], Revoke: mayRevoke})
	}
	if from > 0 {
		b.Before = strconv.Itoa(from - perQueue)
	}
	if b.More = len(q.Claims) - to; b.More > 0 {
		b.Next = strconv.Itoa(to)
	}
	var whole time.Time
	b.Events, b.Gaps, b.Began, whole = h.feed.history(func(e *event) bool { return e.Claim.Name == name }, 4*maxShown)
	began := b.Began
	if len(b.Events) == 4*maxShown { // older ones are left out
		began = b.Events[len(b.Events)-1].At
	}
	if whole.After(began) { // before, the name may have changed unseen
		began = whole
	}
	b.Lanes = lanesOf(b.Events, q, began, b.Gaps, v.shot.at)
	b.Events = b.Events[:min(len(b.Events), maxShown)]
	slices.Reverse(b.Gaps)
	return &answer{page: "name", title: view.QuoteName(name), body: b}, nil
}

func (h *Handler) mayRevoke(v *visit, name string) bool {
	return h.o.Revoke != nil && v.Revoke != nil && v.Revoke(name)
}

// shares are the parts that holders have of the permits.
func shares(q engine.Queue) (all []share) {
	if q.Limit <= 0 || q.Limit == engine.Max {
		return nil
	}
	x := 0
	for _, c := range q.Claims {
		if c.State == engine.Held && len(all) < perQueue {
			w := int(int64(c.Permits) * 1000 / int64(q.Limit))
			all = append(all, share{x, w})
			x += w
		}
	}
	return all
}
