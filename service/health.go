package service

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"sync"
	"time"
)

//go:embed openapi.json
var openAPI []byte

func (s *Server) getOpenAPI(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Write(openAPI)
}

// livez says that the process answers.
func (s *Server) livez(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, struct{}{})
}

// readyz says whether requests should come here: the engine answers, and the Server does not
// end. Many probes ask the engine once.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	select {
	case <-s.draining:
		refuse(w, http.StatusServiceUnavailable, errors.New("this server is ending: ask another one"))
		return
	default:
	}
	if err := s.ready.ask(s); err != nil {
		refuse(w, http.StatusServiceUnavailable, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// readiness is the last answer of the engine.
type readiness struct {
	mu   sync.Mutex
	when time.Time
	err  error
}

// How long an answer counts, and how long one may take.
const (
	readyFor    = time.Second
	readyWithin = 2 * time.Second
)

func (y *readiness) ask(s *Server) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	if time.Since(y.when) < readyFor {
		return y.err
	}
	ctx, cancel := context.WithTimeout(s.life, readyWithin)
	defer cancel()
	_, y.err = s.eng.Queue(ctx, "leasehold/readyz")
	y.when = time.Now()
	return y.err
}
