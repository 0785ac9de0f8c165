package redlock

import (
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// A lease that lasts is on all masters: a majority that has just extended a claim is
// the proof by which the others take it again, whatever they forgot it by. So a
// lease outlives that all masters are restarted one after the other.
//
// That proves nothing by itself, and no answer of it counts. What proves a hold is a
// majority that had the claim when it extended it. The obvious version, SET NX in
// every renewal whose success counts like an extension, brings a claim back that
// was lost: it expired, another held and left, and then all masters are free. Here
// a master takes only what is proven to hold at that moment. The proof lasts as
// long as what the majority granted, from the start of the renewal; that is told
// in the master's own clock, as it read it in its answer. So a request that is late,
// or comes twice, takes nothing for a claim that may be over. Until then nobody else
// can be granted the lock without a majority that forgets, whatever this master does.
//
// A master that was restarted is asked as soon as it has a vote again: before, it
// would be silent anyway, and what it may have forgotten is in nobody's way.

// restoration is what follows one renewal.
type restoration struct {
	start time.Duration
	held  []engine.Claim // by renewal, once a majority has said it; the zero claim where it is not held
	left  map[engine.ID]bool
}

// restorations are those that are under way.
type restorations struct {
	mu      sync.Mutex
	m       map[*restoration]bool
	leaving map[engine.ID]int // how many calls are telling masters so
}

// begin comes before any master is asked to renew. A claim may be left between what
// a majority says and its being known here: a master that forgot it would be told of
// that, and take it again after.
func (l *restorations) begin(start time.Duration) *restoration {
	r := &restoration{start: start, left: map[engine.ID]bool{}}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m, l.leaving = map[*restoration]bool{}, map[engine.ID]int{}
	}
	l.m[r] = true
	for id := range l.leaving {
		r.left[id] = true
	}
	return r
}

func (l *restorations) end(r *restoration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.m, r)
}

// leave has nothing taken again for claims that are being left, until end is called:
// when every master was told. What was asked of a master by then is answered before that
// is told of the leaving: see master.restored. A renewal that begins meanwhile may find
// a majority that was not told yet, and then those that were, as if they had forgotten.
func (l *restorations) leave(cs []engine.Claim) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.m == nil {
		l.m, l.leaving = map[*restoration]bool{}, map[engine.ID]int{}
	}
	for _, c := range cs {
		l.leaving[c.ID]++
		for r := range l.m {
			r.left[c.ID] = true
		}
	}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, c := range cs {
			if l.leaving[c.ID]--; l.leaving[c.ID] == 0 {
				delete(l.leaving, c.ID)
			}
		}
	}
}

// standing are the claims of which x says that they are gone, of those that hold.
func (l *restorations) standing(r *restoration, x *extended) (cs []engine.Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, c := range r.held {
		if c.State == engine.Held && c.Ticket != 0 && !r.left[c.ID] && x.lost(i) {
			cs = append(cs, c)
		}
	}
	return cs
}

// lost: it is gone there, and was not evicted.
func (x *extended) lost(i int) bool {
	return x.known != nil && x.known[i] && engine.State(x.values[3*i]) == engine.Gone && x.values[3*i+2] == 0
}

// restore goes through what all masters said of a renewal, also those that answer
// after it is decided.
func (e *Engine) restore(r *restoration, said []extended, received <-chan extended) {
	defer e.restores.end(r)
	var all sync.WaitGroup
	defer all.Wait()
	for i := range e.masters {
		var x extended
		if i < len(said) {
			x = said[i]
		} else {
			x = <-received // each answers, or fails
		}
		if len(e.restores.standing(r, &x)) > 0 {
			all.Go(func() { e.retake(r, &x) })
		}
	}
}

// complete has the masters take a claim that was just granted which said that somebody
// else holds: who is told of a release tries as soon as one master has it, and finds
// the others about to. The majority that granted is the proof, as with a renewal. It
// begins before the claim can be left.
func (e *Engine) complete(t *try, c engine.Claim) {
	var missing []int
	for i := range e.masters {
		if b := t.ballot(i); b == nil || b.otherHolds() {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return
	}
	r := e.restores.begin(t.start)
	r.held = []engine.Claim{c}
	e.spawn(func() {
		defer e.restores.end(r)
		var all sync.WaitGroup
		defer all.Wait()
		for _, i := range missing {
			all.Go(func() {
				if b := t.wait(i); b.otherHolds() {
					e.retake(r, &extended{ballot: *b, known: []bool{true}, values: []int64{int64(engine.Gone), 0, 0}})
				}
			})
		}
	})
}

func (b *ballot) otherHolds() bool { return b.err == nil && b.state == engine.Waiting }

// retake takes again on one master what it said is gone.
func (e *Engine) retake(r *restoration, x *extended) {
	m := e.masters[x.master]
	m.again.Lock() // before it looks who was left: see restored
	defer m.again.Unlock()
	var calls []redisconn.Call
	for i, c := range e.restores.standing(r, x) {
		if i%batch == 0 {
			calls = append(calls, redisconn.Call{})
		}
		call := &calls[len(calls)-1]
		// The master read its clock before its answer came, so by that clock this is
		// no later than it is.
		till := max(0, (x.clock + r.start + c.TTL - drift(c.TTL)).Microseconds())
		call.Keys = append(call.Keys, e.keys(c.Name)[:2]...)
		call.Args = append(call.Args, c.ID.Secret(), decimal(c.Ticket), decimal(e.tries.Add(1)), decimal(uint64(till)))
	}
	if len(calls) > 0 {
		m.vote(e.life, e.scripts.retake, calls)
	}
}

// restored waits until what is being taken again on a master is answered. Of claims
// that were noted as left before (restorations.leave) nothing is asked after that.
func (m *master) restored() {
	m.again.Lock()
	defer m.again.Unlock()
}
