package broken

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
)

// World is one store, its clock, and everybody who uses it.
type World struct {
	fault Fault
	clock atomic.Int64
	end   chan struct{} // closed by Close

	mu      sync.Mutex // one call at a time: a fault may look before it acts
	store   *memlock.Store
	clients []*Engine
	lines   map[string]*past     // every name that was ever joined
	claims  map[engine.ID]*claim // those the store may still have

	requests int             // that were sent so far
	full     bool            // no further connections
	refused  int             // of them
	spoiled  map[string]bool // names under which there is junk
	busy     bool            // with junk, for good
}

// claim is what the world remembers of a claim, for faults to misuse.
type claim struct {
	engine.Request
	by     *Engine
	ticket uint64        // as memlock gave it
	shown  uint64        // as the fault reports it
	end    time.Duration // a deadline of the fault's own; 0: none
	held   bool          // a reply or a notification has said so
	marked bool          // revoked
	stuck  bool          // held, and nobody may learn it
}

// past is what the world remembers of a name.
type past struct {
	ticket uint64        // the last that was shown
	waits  int           // Joins that had to wait
	leaves int           // while few were in the queue
	veil   time.Duration // until then nobody may learn that it holds
}

// New is a world with one fault. The zero Fault is none.
func New(f Fault) *World {
	w := &World{fault: f, end: make(chan struct{}), lines: map[string]*past{}, claims: map[engine.ID]*claim{}, spoiled: map[string]bool{}}
	w.store = memlock.NewStore(&memlock.Options{Clock: w.Now})
	return w
}

// Close ends what a leaking fault left.
func (w *World) Close() { close(w.end) }

// Now and Sleep are the world's clock, which only Sleep moves.
func (w *World) Now() time.Duration    { return time.Duration(w.clock.Load()) }
func (w *World) Sleep(d time.Duration) { w.clock.Add(int64(max(0, d))) }

// Engine is one more client.
func (w *World) Engine(testing.TB) engine.Engine {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := &Engine{w: w}
	e.inner.Store(w.store.Engine())
	w.clients = append(w.clients, e)
	return e
}

// Forget puts an empty store in place of the old one, under every client. A
// memlock store lives and dies with its process, so it is also a restart.
func (w *World) Forget(testing.TB) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store = memlock.NewStore(&memlock.Options{Clock: w.Now})
	clear(w.claims)
	if w.fault.restart != nil {
		w.fault.restart(w)
	}
	for _, e := range w.clients {
		old := e.inner.Swap(w.store.Engine())
		_ = old.Close()
		if e.closed.Load() {
			_ = e.inner.Load().Close()
		}
	}
}

// Kill lets the client die as a process would that the system cleans up after.
func (w *World) Kill(t testing.TB, e engine.Engine) {
	if w.fault.immortal {
		return
	}
	if err := e.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

// LoseReply lets the next call of e be carried out and fail.
func (w *World) LoseReply(_ testing.TB, e engine.Engine) func() bool {
	lose := &e.(*Engine).lose
	lose.Store(true)
	return func() bool { return !lose.Load() }
}

// FailPartial lets whatever concerns name fail in the next batch of e.
func (w *World) FailPartial(_ testing.TB, e engine.Engine, name string) {
	e.(*Engine).fail.Store(&name)
}

// RefuseConnections has the world take no further connections. It has no
// connections, so that makes a difference to a fault alone.
func (w *World) RefuseConnections(testing.TB) func() {
	full := func(yes bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.full = yes
	}
	full(true)
	return func() { full(false) }
}

// Spoil puts junk under a name: who calls gets an error until the case is over.
func (w *World) Spoil(t testing.TB, name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spoiled[name] = true
	t.Cleanup(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.spoiled, name)
		w.busy = false
	})
}

// Requests is how many requests were sent so far.
func (w *World) Requests(testing.TB) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests
}

// Count is how many names the store remembers.
func (w *World) Count(testing.TB) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault.hoards {
		return len(w.lines)
	}
	return w.store.Len()
}

func (w *World) pastOf(name string) *past {
	p := w.lines[name]
	if p == nil {
		p = &past{}
		w.lines[name] = p
	}
	return p
}

// byTicket finds a claim by memlock's ticket.
func (w *World) byTicket(name string, ticket uint64) *claim {
	for _, c := range w.claims {
		if c.Name == name && c.ticket == ticket {
			return c
		}
	}
	return nil
}
