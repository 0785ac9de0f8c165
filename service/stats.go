package service

import "sync/atomic"

// Stats counts what a Server does now, and its answers since it began.
type Stats struct {
	Requests int       // under way, those that wait among them
	Waiting  int       // that wait for a lock
	Claims   int       // that the Server knows, held and waiting
	Watches  int       // of clients of package httplock
	Answers  [6]uint64 // by the first digit of the status
}

// counts are those that are not counted elsewhere.
type counts struct {
	underWay atomic.Int64
	answers  [6]atomic.Uint64
}

// Stats returns the numbers of this moment.
func (s *Server) Stats() Stats {
	st := Stats{Requests: int(s.counts.underWay.Load())}
	for i := range s.counts.answers {
		st.Answers[i] = s.counts.answers[i].Load()
	}
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	st.Waiting, st.Claims, st.Watches = len(s.hub.waiters), len(s.hub.by), len(s.hub.boxes)
	return st
}
