package optimistic

import "sync/atomic"

// Stats counts the outcomes of Updates. The zero value is ready; a nil Stats counts
// nothing. Conflicts in proportion to updates say whether a lock would be cheaper.
type Stats struct{ updates, conflicts, gaveUps atomic.Int64 }

// Updates returns how many Updates wrote their row.
func (s *Stats) Updates() int64 { return s.updates.Load() }

// Conflicts returns how many attempts were in vain.
func (s *Stats) Conflicts() int64 { return s.conflicts.Load() }

// GaveUp returns how many Updates ended with ErrConflict.
func (s *Stats) GaveUp() int64 { return s.gaveUps.Load() }

func (s *Stats) updated() {
	if s != nil {
		s.updates.Add(1)
	}
}

func (s *Stats) conflicted() {
	if s != nil {
		s.conflicts.Add(1)
	}
}

func (s *Stats) gaveUp() {
	if s != nil {
		s.gaveUps.Add(1)
	}
}
