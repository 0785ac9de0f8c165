package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"leasehold/service/ui"
)

// pathUI is where pages for people are.
const pathUI = "/ui"

// uiRoutes adds the pages, and has them read the engine until the Server drains.
func (s *Server) uiRoutes(mux *http.ServeMux) {
	o := ui.Options{
		Source: s.eng, Rights: s.sees, Known: s.stillKnown, Log: s.log, Revoke: s.revoke,
	}
	pages := ui.New(o)
	mux.HandleFunc("GET "+pathUI, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "ui/") // relative: a proxy may have put a path before it
		w.WriteHeader(http.StatusSeeOther)
	})
	mux.Handle(pathUI+"/", http.StripPrefix(pathUI, pages))
	s.watching.Go(func() {
		ctx, cancel := context.WithCancel(s.life)
		defer cancel()
		s.watching.Go(func() {
			select {
			case <-s.draining: // a page that follows changes would outlast Shutdown's patience
				cancel()
			case <-ctx.Done():
			}
		})
		pages.Run(ctx)
	})
}

// sees is what the caller of a page may do.
func (s *Server) sees(r *http.Request) (ui.Rights, error) {
	who := callerOf(r.Context())
	if !who.all && !slices.Contains(who.verbs, Look) {
		return ui.Rights{}, errors.New(who.name + " may not look at queues: ask the owner of the service for that right")
	}
	can := func(v Verb) func(string) bool {
		return func(name string) bool { return who.may(v, name) == nil }
	}
	rights := ui.Rights{Who: who.name, All: who.may(Look, "") == nil, Look: can(Look), Read: can(Lock), Revoke: can(Revoke)}
	rights.Same = fmt.Sprintf("%q", who.prefixes) // with the right to look, they alone decide
	if s.access == nil {
		rights.Who = "" // an address says nothing to a person
	}
	return rights, nil
}

// forBrowser lets a person in front of a browser send a token: as the password of HTTP Basic,
// with any username, since a browser has no other way to ask for one. It is taken for pages
// alone. A browser sends it with requests that pages of others make, too; those that change
// something are refused by their origin, and what is read stays with its own origin.
func forBrowser(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	if !strings.HasPrefix(r.URL.Path+"/", pathUI+"/") {
		return w, r
	}
	if _, password, basic := r.BasicAuth(); basic {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+password)
	}
	return &basicChallenge{w}, r
}

// basicChallenge has a browser ask for a token.
type basicChallenge struct{ http.ResponseWriter }

func (c *basicChallenge) WriteHeader(status int) {
	if status == http.StatusUnauthorized {
		c.Header().Set("WWW-Authenticate", `Basic realm="leasehold: a token as the password", charset="UTF-8"`)
	}
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (c *basicChallenge) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// followsPage reports whether a request is one that an open page makes by itself.
func followsPage(r *http.Request) bool {
	return r.URL.Path == pathUI+"/events" || strings.HasPrefix(r.URL.Path, pathUI+"/") && r.URL.Query().Has("live")
}
