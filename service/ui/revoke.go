package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

// maxForm bounds the body of a form: a name, twice, each byte as %xx.
const maxForm = 16 << 10

// revokeWithin bounds the call to the engine.
const revokeWithin = 10 * time.Second

type revokeBody struct {
	Name   string
	Ticket uint64
	Claim  *engine.Claim // nil: it has ended
	Holder bool
	Others int           // who hold the name too
	Next   *engine.Claim // who waits first behind a holder
	Done   bool          // it was asked for
	Wrong  string        // with what was typed
	Now    bool
}

// askRevoke says what will happen to whom, or what came of it.
func (h *Handler) askRevoke(r *http.Request, v *visit) (*answer, error) {
	b, err := h.revokeOf(r, v, r.URL.Query().Get("name"), r.URL.Query().Get("ticket"))
	if err != nil {
		return nil, err
	}
	b.Done = r.URL.Query().Has("done")
	return &answer{page: "revoke", title: "Revoke", body: b, still: !b.Done}, nil
}

// doRevoke does it.
func (h *Handler) doRevoke(r *http.Request, v *visit) (*answer, error) {
	r.Body = http.MaxBytesReader(nil, r.Body, maxForm)
	v.out.SetReadDeadline(time.Now().Add(h.formWithin))
	if err := r.ParseForm(); err != nil { // the deadline stays: the server reads on
		return nil, &refusal{http.StatusBadRequest, fmt.Errorf("the form cannot be read: %w", err)}
	}
	v.out.SetReadDeadline(time.Time{}) // it would end the call to the engine
	form := r.PostForm
	h.feed.forget(r.Form.Get("name")) // the form may have been shown from the same reading
	// The name stands in the address: a browser changes line breaks in fields.
	b, err := h.revokeOf(r, v, r.Form.Get("name"), form.Get("ticket"))
	if err != nil {
		return nil, err
	}
	b.Now = form.Has("now")
	// Who confirmed was told that the holders keep what they have. A grant between this
	// reading and the revocation goes unseen: no engine revokes a claim only while it waits.
	if form.Get("was") == engine.Waiting.String() && b.Holder {
		b.Wrong, b.Now = "It holds the name by now. Nothing was revoked: look again.", false
		return &answer{page: "revoke", title: "Revoke", body: b, still: true, status: http.StatusConflict}, nil
	}
	if strings.TrimSpace(form.Get("typed")) != strings.TrimSpace(view.QuoteName(b.Name)) && form.Get("typed") != b.Name {
		b.Wrong = "What you typed is not the name. Nothing was revoked."
		return &answer{page: "revoke", title: "Revoke", body: b, still: true, status: http.StatusUnprocessableEntity}, nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), revokeWithin)
	defer cancel()
	h.feed.revokes(b.Name, b.Ticket) // first: the engine may be read before it answers
	err = h.o.Revoke(ctx, b.Name, b.Ticket, b.Now)
	h.feed.revoked(b.Name, b.Ticket, err == nil)
	if err != nil && !errors.Is(err, engine.ErrNoClaim) { // that it has ended is what the next page says
		return nil, &refusal{http.StatusBadGateway, fmt.Errorf("the claim was not revoked, or the answer was lost: look at the queue again: %w", err)}
	}
	q := url.Values{"name": {b.Name}, "ticket": {strconv.FormatUint(b.Ticket, 10)}, "done": {""}}
	return &answer{to: "revoke?" + q.Encode()}, nil
}

// revokeOf is the claim, as the engine has it now.
func (h *Handler) revokeOf(r *http.Request, v *visit, name, number string) (*revokeBody, error) {
	ticket, err := strconv.ParseUint(number, 10, 64)
	if err != nil {
		return nil, &refusal{http.StatusBadRequest, errors.New("the address has no ticket: begin at the page of the name")}
	}
	if err := engine.CheckName(name); err != nil {
		return nil, &refusal{http.StatusBadRequest, err}
	}
	switch {
	case h.o.Revoke == nil:
		return nil, &refusal{http.StatusForbidden, errors.New("these pages are read-only: use \"leasehold revoke\", or the pages of a service (leasehold serve --access)")}
	case !h.mayRevoke(v, name) || !v.read(name):
		return nil, &refusal{http.StatusForbidden, fmt.Errorf("you may not revoke claims on %s: ask the owner of the service for that right", view.QuoteName(name))}
	}
	q, err := h.feed.one(r.Context(), name)
	if err != nil {
		return nil, &refusal{http.StatusBadGateway, fmt.Errorf("the queue of %s cannot be read: %w", view.QuoteName(name), err)}
	}
	b := &revokeBody{Name: name, Ticket: ticket}
	for i, c := range q.Claims {
		switch {
		case c.Ticket == ticket:
			b.Claim, b.Holder = &q.Claims[i], c.State == engine.Held
		case c.State == engine.Held:
			b.Others++
		}
		if b.Next == nil && c.State == engine.Waiting && c.Ticket != ticket {
			b.Next = &q.Claims[i]
		}
	}
	return b, nil
}
