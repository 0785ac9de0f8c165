// Package memlock is the engine of one process, and the twin that tests use in
// place of a server: a map of queues, under package queuestore.
//
// It promises what its [Store] can: exclusion, order, every mode, tokens that
// rise as long as the Store lives. Nothing leaves the process, so nothing
// survives it. To close an engine is the death of a client here: what it has not
// left is free at once. One that is merely dropped leaves its claims to their TTL.
package memlock

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
	"leasehold/engine/queuestore"
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

	mu        sync.Mutex
	lines     map[string]*entry
	sweep     []*entry // the same entries, in any order, to be walked in steps
	next      int      // where the walk goes on
	highWater uint64   // no ticket of a queue that was forgotten is above it
	clients   map[string]*Engine
	record    queuestore.Record // of the change under way: there is one at a time
}

type entry struct {
	name  string
	queue queue.Queue
	at    int // its index in Store.sweep

	one [1]queue.Place // where the usual queue stands
}

// NewStore makes an empty store.
func NewStore(o *Options) *Store {
	s := &Store{clock: boottime.Now, lines: map[string]*entry{}, clients: map[string]*Engine{}}
	if o != nil && o.Clock != nil {
		s.clock = o.Clock
	}
	return s
}

// Len is how many names the store remembers: those somebody is in the queue of,
// and those whose claims all expired and that no update has come across yet.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// Engine is one client of a Store.
type Engine = queuestore.Engine

// New is an engine on a store of its own.
func New() *Engine { return NewStore(nil).Engine() }

// Engine makes one more client of the store.
func (s *Store) Engine() *Engine {
	name := queuestore.NewClient()
	e := queuestore.New(name, &client{s, name}, nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[name] = e
	return e
}

// client is the store as one client sees it.
type client struct {
	*Store
	name string
}

var _ queuestore.Store = (*client)(nil)

// Guarantees implements [queuestore.Store].
func (c *client) Guarantees() engine.Guarantees {
	return engine.Guarantees{
		Fencing:      engine.FencingMemory,
		Failover:     engine.FailoverNone,
		Scope:        engine.ScopeProcess,
		CrashRelease: engine.CrashAtOnce,
		Detach:       true,
	}
}

// Change implements [queuestore.Store]. The mutex is what makes it one step.
// Nothing here waits, so the context was looked at already.
func (c *client) Change(_ context.Context, name string, change func(*queuestore.Record) error) error {
	s := c.Store
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.lines[name]
	if n == nil {
		n = &entry{name: name, queue: queue.Queue{Last: s.highWater}, at: len(s.sweep)}
		n.queue.Places = n.one[:0]
		s.lines[name] = n
		s.sweep = append(s.sweep, n)
	}
	now := s.clock()
	s.record = queuestore.Record{Name: name, Queue: n.queue, Now: now, Micros: uint64(time.Now().UnixMicro())}
	err := change(&s.record)
	n.queue = s.record.Queue
	s.tidy(now, n)
	s.step(now)
	return err
}

// Read implements [queuestore.Store].
func (c *client) Read(_ context.Context, name string) (queuestore.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.copyOf(name), nil
}

// Records implements [queuestore.Store].
func (c *client) Records(_ context.Context, prefix, _ string) (records []queuestore.Record, next string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.lines)) {
		if strings.HasPrefix(name, prefix) {
			records = append(records, c.copyOf(name))
		}
	}
	return records, "", nil
}

func (s *Store) copyOf(name string) queuestore.Record {
	record := queuestore.Record{Name: name}
	if n := s.lines[name]; n != nil {
		record.Queue = n.queue
		record.Queue.Places = slices.Clone(record.Queue.Places)
	}
	record.Now = s.clock()
	return record
}

// Notify implements [queuestore.Store].
func (c *client) Notify(to string, notification engine.Claim) {
	c.mu.Lock()
	e := c.clients[to]
	c.mu.Unlock()
	if e != nil {
		e.Post(notification)
	}
}

// Close implements [queuestore.Store].
func (c *client) Close() error {
	c.mu.Lock()
	delete(c.clients, c.name)
	var notifications []queue.Notification
	now := c.clock()
	for name, n := range c.lines {
		notifications = append(notifications, n.queue.Depart(now, name, func(client string) bool { return client == c.name })...)
		c.tidy(now, n)
	}
	c.mu.Unlock()
	for _, n := range notifications {
		c.Notify(n.Client, n.Claim)
	}
	return nil
}

// step looks at the next two lines of the walk and forgets those in which
// every claim has expired: nobody may ever touch them again, and nobody is
// left to be told. An update adds one queue at most and two are looked at, so
// the walk gains on the store, whose size stays within a factor of the queues
// in use, at a bounded price for each update.
func (s *Store) step(now time.Duration) {
	for range min(2, len(s.sweep)) {
		if s.next >= len(s.sweep) {
			s.next = 0
		}
		n := s.sweep[s.next]
		s.next++ // forgetting n moves a queue there that was not looked at, until the next round
		s.tidy(now, n)
	}
}

// tidy forgets a queue nobody is in. The floor keeps the tickets of forgotten
// names rising.
func (s *Store) tidy(now time.Duration, n *entry) {
	if !n.queue.Empty(now) {
		return
	}
	s.highWater = max(s.highWater, n.queue.Last)
	delete(s.lines, n.name)
	last := len(s.sweep) - 1
	s.sweep[n.at] = s.sweep[last]
	s.sweep[n.at].at = n.at
	s.sweep[last] = nil
	s.sweep = s.sweep[:last]
}
