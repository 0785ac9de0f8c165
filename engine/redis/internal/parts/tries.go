package parts

import (
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// Tries are the Joins of an engine without order, each of which may take a lock, and
// which of them may arrive late. A Join whose caller has gone, or whose connection
// broke, was sent perhaps, and nobody knows where it is. Redis carries out in order what
// came on one connection, and that of such a Join is another than the Leave's: what was
// sent on it may arrive after the Leave, after as long as a network keeps a packet, and
// would take the lock for nobody, until its TTL. No waiting ends that. So the Leave of a
// claim in doubt leaves a mark beside the lock, in the step in which it gives it up, and
// a Join that finds the mark of its claim is void.
//
// No Join of a claim begins once its Leave has: nobody joins an ID that was left. So it
// is enough that Leave counts those that have begun and were not answered.
//
// The zero value is ready to use.
type Tries struct {
	mu    sync.Mutex
	open  map[engine.ID]try
	sweep int // size at which to look for those that are long over
}

type try struct {
	begun int // that were not answered
	until time.Duration
}

// remembered is for how long a try is, beyond the TTL that it asks for, if its claim is
// never left.
const remembered = time.Minute

// Begin records that a try may be sent from now on.
func (t *Tries) Begin(id engine.ID, ttl time.Duration) {
	now := boottime.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[engine.ID]try{}
	}
	if t.sweep = max(t.sweep, 1024); len(t.open) >= t.sweep {
		for id, known := range t.open {
			if known.until < now {
				delete(t.open, id)
			}
		}
		t.sweep = 2 * len(t.open)
	}
	t.open[id] = try{t.open[id].begun + 1, max(t.open[id].until, now+ttl+remembered)}
}

// Answered records that Redis has said what became of a try, and no earlier attempt of it
// may arrive.
func (t *Tries) Answered(id engine.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.open[id]
	if known.begun--; known.begun <= 0 {
		delete(t.open, id)
	} else {
		t.open[id] = known
	}
}

// Doubt reports whether a try of a claim may arrive yet.
func (t *Tries) Indeterminate(id engine.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id].begun > 0
}

// Left records that a claim was left, and all its tries are void.
func (t *Tries) Left(id engine.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, id)
}
