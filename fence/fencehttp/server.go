package fencehttp

import (
	"encoding/json"
	"errors"
	"net/http"

	"leasehold"
	"leasehold/fence"
)

// Reader returns a handler that gives next the request's pass in its context
// (fence.FromContext). It answers a request without a pass, or with a bad one, itself.
// name returns the name that guards the request. Reader compares nothing: next does that
// where it writes, and calls [Refuse].
func Reader(name func(*http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values := r.Header.Values(Token)
		if len(values) == 0 {
			problem(w, problemBody{Status: http.StatusPreconditionRequired, Title: "no fencing token",
				Detail: "lock the name first and send the lease's token in the header " + Token})
			return
		}
		p, err := fence.Parse(name(r), values[0])
		if err == nil && len(values) > 1 {
			err = errors.New("fence: several headers " + Token + ": send one")
		}
		if err != nil {
			problem(w, problemBody{Status: http.StatusBadRequest, Title: "bad fencing token", Detail: err.Error()})
			return
		}
		next.ServeHTTP(w, r.WithContext(fence.NewContext(r.Context(), p)))
	})
}

// Handler is [Reader] that also checks. It calls next if marks admit the pass, and admits
// no newer token until next has returned. Handler does not cover work that next left
// running.
func Handler(marks fence.Marks, name func(*http.Request) string, next http.Handler) http.Handler {
	return Reader(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := fence.FromContext(r.Context()) // Reader put it there
		err := marks.Do(r.Context(), p, func() error {
			next.ServeHTTP(w, r)
			return nil
		})
		if err != nil && !Refuse(w, err) {
			problem(w, problemBody{Status: http.StatusServiceUnavailable, Title: "the token could not be checked",
				Detail: "nothing was written; try again"})
		}
	}))
}

// Refuse answers 409, with a body that says why, if err is a fence.StaleError, and reports
// whether it was. The handler must not have written to w before.
func Refuse(w http.ResponseWriter, err error) bool {
	stale, ok := errors.AsType[*fence.StaleError](err)
	if !ok {
		return false
	}
	w.Header().Set(Mark, stale.Mark.String())
	problem(w, problemBody{Status: http.StatusConflict, Title: "stale fencing token", Detail: stale.Error(),
		Name: stale.Name, Token: stale.Token, Mark: stale.Mark})
	return true
}

// problemBody is an answer of RFC 9457. Its tokens are strings.
type problemBody struct {
	Title  string          `json:"title"`
	Status int             `json:"status"`
	Detail string          `json:"detail"`
	Name   string          `json:"name,omitempty"`
	Token  leasehold.Token `json:"token,omitzero"`
	Mark   leasehold.Token `json:"mark,omitzero"`
}

func problem(w http.ResponseWriter, b problemBody) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(b.Status)
	json.NewEncoder(w).Encode(b) // an error is the client's connection, which it knows of
}
