// Package memlock is the engine of one process: the contract of package engine
// as readable code, and the twin that tests use in place of a server.
//
// It promises what its [Store] can: exclusion, order, every mode, tokens that
// rise as long as the Store lives. Nothing leaves the process, so nothing
// survives it. An engine that is closed gives its claims up at once; one that
// is merely dropped leaves them to their TTL.
package memlock

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/line"
	"leasehold/internal/boottime"
)

// Options are the choices of a Store. Nil means the defaults.
type Options struct {
	// Clock is the time elapsed since a fixed moment. Default: the machine's
	// time since boot, suspension included. Tests inside a synctest bubble
	// give one of their own, since that clock is not the bubble's.
	Clock func() time.Duration
}

// Store is the memory that the engines of one process share.
type Store struct {
	clock func() time.Duration

	mu      sync.Mutex
	lines   map[string]*entry
	sweep   []*entry // the same entries, in any order, to be walked in steps
	next    int      // where the walk goes on
	floor   uint64   // no ticket of a line that was forgotten is above it
	clients map[string]*Engine
	born    int // clients ever made: their addresses
}

type entry struct {
	name   string
	line   line.Line
	owners []owned // by ticket, of the claims in line and of some that are gone
	at     int     // its index in Store.sweep
}

// NewStore makes an empty store.
func NewStore(o *Options) *Store {
	s := &Store{clock: boottime.Now, lines: map[string]*entry{}, clients: map[string]*Engine{}}
	if o != nil && o.Clock != nil {
		s.clock = o.Clock
	}
	return s
}

// Len is how many names the store remembers: those somebody is in line for,
// and those whose claims all expired and that no update has come across yet.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// New is an engine on a store of its own.
func New() *Engine { return NewStore(nil).Engine() }

// Engine makes one more client of the store.
func (s *Store) Engine() *Engine {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.born++
	e := &Engine{store: s, client: fmt.Sprint(s.born), wake: make(chan struct{}, 1), closed: make(chan struct{})}
	s.clients[e.client] = e
	return e
}

// Engine is one client of a Store.
type Engine struct {
	store  *Store
	client string
	wake   chan struct{} // capacity 1: mail, or a new Watch, is there
	closed chan struct{}

	// Under store.mu.
	mail []engine.Claim
	done bool
}

var _ engine.Engine = (*Engine)(nil)

// maxMail bounds what an engine nobody watches collects. Beyond it notes are
// dropped, as rule 6 allows, and the next Watch begins with "look at all".
const maxMail = 1024

// Guarantees implements [engine.Engine].
func (e *Engine) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Order:        engine.FIFO,
		Modes:        engine.Exclusive | engine.Shared | engine.Units,
		Fencing:      engine.FencingMemory,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeProcess,
		CrashRelease: engine.CrashAtOnce,
		Detach:       true,
		SeesWaiters:  true,
	}
}

// Join implements [engine.Engine].
func (e *Engine) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	g := e.Guarantees()
	if err := g.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	var c engine.Claim
	err := e.update(ctx, r.Name, func(now time.Duration, n *entry) (notes []line.Note, err error) {
		c, notes, err = n.line.Join(now, uint64(time.Now().UnixMicro()), e.client, r)
		if err == nil && c.State != engine.Gone {
			n.own(c.Ticket, r.Owner)
		}
		return notes, err
	})
	return c, err
}

// Renew implements [engine.Engine].
func (e *Engine) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	return each(ctx, rs, func(r engine.Renewal) (c engine.Claim, err error) {
		if err := engine.CheckTTL(r.Want); err != nil {
			return c, err
		}
		err = e.update(ctx, r.Name, func(now time.Duration, n *entry) (notes []line.Note, _ error) {
			c, notes = n.line.Renew(now, r)
			return notes, nil
		})
		return c, err
	})
}

// Leave implements [engine.Engine].
func (e *Engine) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	return each(ctx, cs, func(q engine.Claim) (c engine.Claim, err error) {
		err = e.update(ctx, q.Name, func(now time.Duration, n *entry) (notes []line.Note, _ error) {
			c, notes = n.line.Leave(now, q.Name, q.ID)
			return notes, nil
		})
		return c, err
	})
}

// Evict implements [engine.Engine].
func (e *Engine) Evict(ctx context.Context, name string, ticket uint64, now bool) error {
	if err := engine.CheckName(name); err != nil {
		return err
	}
	return e.update(ctx, name, func(t time.Duration, n *entry) ([]line.Note, error) {
		return n.line.Evict(t, name, ticket, now)
	})
}

// Line implements [engine.Engine].
func (e *Engine) Line(ctx context.Context, name string) (engine.Line, error) {
	if err := engine.CheckName(name); err != nil {
		return engine.Line{}, err
	}
	if err := ctx.Err(); err != nil {
		return engine.Line{}, err
	}
	s := e.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.done {
		return engine.Line{}, engine.ErrClosed
	}
	n := s.lines[name]
	if n == nil {
		return engine.Line{Name: name}, nil
	}
	v, index := n.line.View(s.clock(), name)
	for i := range v.Claims {
		v.Claims[i].Owner = n.owner(n.line.Places[index[i]].Ticket)
	}
	return v, nil
}

// Lines implements [engine.Engine].
func (e *Engine) Lines(ctx context.Context, prefix string) iter.Seq2[engine.Line, error] {
	return func(yield func(engine.Line, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(engine.Line{}, err)
			return
		}
		e.store.mu.Lock()
		if e.done {
			e.store.mu.Unlock()
			yield(engine.Line{}, engine.ErrClosed)
			return
		}
		var names []string
		for name := range e.store.lines {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
		e.store.mu.Unlock()
		slices.Sort(names)
		for _, name := range names {
			l, err := e.Line(ctx, name)
			if err != nil {
				yield(l, err)
				return
			}
			if len(l.Claims) > 0 && !yield(l, nil) {
				return
			}
		}
	}
}

// Watch implements [engine.Engine].
func (e *Engine) Watch(ctx context.Context, changed func(engine.Claim)) error {
	changed(engine.Claim{})
	for {
		e.store.mu.Lock()
		mail := e.mail
		e.mail = nil
		e.store.mu.Unlock()
		if len(mail) >= maxMail {
			changed(engine.Claim{})
		}
		for _, c := range mail {
			changed(c)
		}
		if len(mail) > 0 {
			continue
		}
		select {
		case <-e.wake:
		case <-ctx.Done():
			return ctx.Err()
		case <-e.closed:
			return engine.ErrClosed
		}
	}
}

// Close implements [engine.Engine].
func (e *Engine) Close() error {
	s := e.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.done {
		return nil
	}
	e.done = true
	delete(s.clients, e.client)
	now := s.clock()
	for name, n := range s.lines {
		s.deliver(n.line.Depart(now, name, func(client string) bool { return client == e.client }))
		s.tidy(now, n)
	}
	close(e.closed)
	return nil
}

// update applies one operation to one line and sends its notes. The context is
// looked at once: nothing here waits.
func (e *Engine) update(ctx context.Context, name string, op func(time.Duration, *entry) ([]line.Note, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s := e.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.done {
		return engine.ErrClosed
	}
	n := s.lines[name]
	if n == nil {
		n = &entry{name: name, line: line.Line{Last: s.floor}, at: len(s.sweep)}
		s.lines[name] = n
		s.sweep = append(s.sweep, n)
	}
	now := s.clock()
	notes, err := op(now, n)
	s.deliver(notes)
	s.tidy(now, n)
	s.step(now)
	return err
}

// step looks at the next two lines of the walk and forgets those in which
// every claim has expired: nobody may ever touch them again, and nobody is
// left to be told. An update adds one line at most and two are looked at, so
// the walk gains on the store, whose size stays within a factor of the lines
// in use, at a bounded price for each update.
func (s *Store) step(now time.Duration) {
	for range min(2, len(s.sweep)) {
		if s.next >= len(s.sweep) {
			s.next = 0
		}
		n := s.sweep[s.next]
		s.next++ // forgetting n moves a line there that was not looked at, until the next round
		s.tidy(now, n)
	}
}

// deliver never blocks: notes of clients that are gone or do not read are lost.
func (s *Store) deliver(notes []line.Note) {
	for _, note := range notes {
		e := s.clients[note.Client]
		if e == nil || len(e.mail) >= maxMail {
			continue
		}
		e.mail = append(e.mail, note.Claim)
		select {
		case e.wake <- struct{}{}:
		default: // awake already
		}
	}
}

// tidy forgets a line nobody is in, and the owners of claims that are gone.
// The floor keeps the tickets of forgotten names rising.
func (s *Store) tidy(now time.Duration, n *entry) {
	if n.line.Empty(now) {
		s.floor = max(s.floor, n.line.Last)
		delete(s.lines, n.name)
		last := len(s.sweep) - 1
		s.sweep[n.at] = s.sweep[last]
		s.sweep[n.at].at = n.at
		s.sweep[last] = nil
		s.sweep = s.sweep[:last]
		return
	}
	// Not after every claim that goes, which would make each hand-over as dear
	// as the line is long, but when half of what is remembered is gone.
	if len(n.owners) <= 2*len(n.line.Places)+8 {
		return
	}
	live := make([]owned, 0, len(n.line.Places))
	for _, p := range n.line.Places {
		live = append(live, owned{p.Ticket, n.owner(p.Ticket)})
	}
	n.owners = live
}

// owned is who made the claim with that ticket.
type owned struct {
	ticket uint64
	owner  engine.Owner
}

// own remembers the owner of a claim that joined. A claim found again is there
// already: tickets only rise.
func (n *entry) own(ticket uint64, o engine.Owner) {
	if last := len(n.owners) - 1; last < 0 || n.owners[last].ticket < ticket {
		n.owners = append(n.owners, owned{ticket, o})
	}
}

func (n *entry) owner(ticket uint64) engine.Owner {
	i, ok := slices.BinarySearchFunc(n.owners, ticket, func(o owned, t uint64) int { return cmp.Compare(o.ticket, t) })
	if !ok {
		return engine.Owner{}
	}
	return n.owners[i].owner
}

// each runs op on every item and keeps what was learned before an error.
func each[In any](ctx context.Context, in []In, op func(In) (engine.Claim, error)) ([]engine.Claim, error) {
	if len(in) > engine.MaxBatch {
		return nil, engine.Refuse("%d items are more than %d in one call", len(in), engine.MaxBatch)
	}
	out := make([]engine.Claim, 0, len(in))
	for _, x := range in {
		c, err := op(x)
		if err != nil {
			return out, err
		}
		out = append(out, c)
	}
	return out, nil
}
