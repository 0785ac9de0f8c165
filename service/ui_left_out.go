//go:build no_ui

package service

import "net/http"

// pathUI is where other programs have pages for people.
const pathUI = "/ui"

func (s *Server) uiRoutes(*http.ServeMux) {}

func forBrowser(w http.ResponseWriter, r *http.Request) (http.ResponseWriter, *http.Request) {
	return w, r
}

func followsPage(*http.Request) bool { return false }
