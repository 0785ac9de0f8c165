package queuestore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/queuestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store of bytes in memory, as unfriendly as the Store interface
// allows where a test asks for it.
type world struct {
	mortal bool // stores are Liveness
	mute   bool // Notify does nothing
	page   int  // records a call of Records returns; 0: all

	// before is called in each Change, with the world locked, before what is
	// then stored; it may call try, as a store does whose attempt failed. kept:
	// the attempt was stored all the same; unsure: the store does not know.
	before func(name string, try func(kept, indeterminate bool) error)
	refuse func(name string) error // what Change says instead of storing
	enter  func()                  // called at the beginning of every Change

	mu        sync.Mutex
	now       time.Duration
	micros    uint64
	records   map[string][]byte
	highWater uint64
	clients   map[string]*twin
	dead      map[string]bool
	asked     map[string]int // how often Dead was asked of a client
	calls     int            // of Change
	stores    int            // that were stored
	polls     sync.WaitGroup
}

type twin struct {
	*world
	name   string
	engine *queuestore.Engine
	awaits map[string]map[string]time.Duration // by client and name
}

// mortal is a twin that has lives.
type mortal struct{ *twin }

var (
	_ queuestore.Store    = (*twin)(nil)
	_ queuestore.Liveness = mortal{}
)

func newWorld() *world {
	return &world{
		now: time.Hour, micros: 1000,
		records: map[string][]byte{}, clients: map[string]*twin{}, dead: map[string]bool{}, asked: map[string]int{},
	}
}

// open is one more client.
func (w *world) open() *queuestore.Engine {
	c := &twin{world: w, name: queuestore.NewClient(), awaits: map[string]map[string]time.Duration{}}
	var s queuestore.Store = c
	if w.mortal {
		s = mortal{c}
	}
	o := &queuestore.Options{}
	if w.mute {
		o.Poll = 10 * time.Millisecond
	}
	c.engine = queuestore.New(c.name, s, o)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[c.name] = c
	return c.engine
}

func (w *world) of(e *queuestore.Engine) *twin {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.clients {
		if c.engine == e {
			return c
		}
	}
	return nil
}

// kill ends a client as a kernel would, and has those look who await it.
func (w *world) kill(e *queuestore.Engine) {
	w.die(w.of(e).name)
}

func (w *world) die(died string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead[died] = true
	for _, c := range w.clients {
		for name, until := range c.awaits[died] {
			if until > w.now && !w.dead[c.name] {
				w.polls.Go(func() { _ = c.engine.PollAfter(context.Background(), name) })
			}
		}
	}
}

func (w *world) Now() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) Sleep(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now += max(0, d)
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for name := range w.records {
		if c, err := w.load(name); err == nil && !c.Queue.Empty(w.now) {
			n++ // the rest would go by itself
		}
	}
	return n
}

func (w *world) load(name string) (c queuestore.Record, err error) {
	c = queuestore.Record{Name: name, Now: w.now, Micros: w.micros}
	c.Queue.Last = w.highWater
	if b := w.records[name]; b != nil {
		err = c.Queue.UnmarshalBinary(b)
	}
	return c, err
}

func (w *world) store(c *queuestore.Record) {
	w.stores++
	if c.Queue.Empty(c.Now) {
		w.highWater = max(w.highWater, c.Queue.Last)
		delete(w.records, c.Name)
		return
	}
	w.records[c.Name], _ = c.Queue.AppendBinary(nil)
}

func (c *twin) Change(_ context.Context, name string, change func(*queuestore.Record) error) error {
	w := c.world
	if w.enter != nil {
		w.enter()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	again := false
	try := func(kept, indeterminate bool) error {
		record, err := w.load(name)
		if err != nil {
			return err
		}
		record.Again = again
		again = again || indeterminate
		if err := change(&record); err != nil {
			return err
		}
		if kept {
			w.store(&record)
		}
		return nil
	}
	if w.before != nil {
		w.before(name, try)
	}
	if w.refuse != nil {
		if err := w.refuse(name); err != nil {
			return err
		}
	}
	return try(true, false)
}

func (c *twin) Read(_ context.Context, name string) (queuestore.Record, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(name)
}

func (c *twin) Records(_ context.Context, prefix, after string) (records []queuestore.Record, next string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.records)) {
		if name <= after || !strings.HasPrefix(name, prefix) {
			continue
		}
		record, err := c.load(name)
		if err != nil {
			return records, "", err
		}
		if records = append(records, record); len(records) == c.page {
			return records, name, nil
		}
	}
	return records, "", nil
}

func (c *twin) Notify(to string, notification engine.Claim) {
	c.mu.Lock()
	other := c.clients[to]
	received := other != nil && !c.mute && !c.dead[to]
	c.mu.Unlock()
	if received {
		other.engine.Post(notification)
	}
}

func (c *twin) Guarantees() engine.Guarantees {
	g := engine.Guarantees{
		Order:   engine.OrderNone, // the queue knows better
		Fencing: engine.FencingMemory, Scope: engine.ScopeProcess, Detach: true,
	}
	if c.mortal {
		g.CrashRelease = engine.CrashAtOnce
	}
	return g
}

func (c *twin) Close() error {
	c.mu.Lock()
	delete(c.clients, c.name)
	c.mu.Unlock()
	if c.mortal {
		c.die(c.name)
	}
	return nil
}

// Dead is asked inside Change, under the world's lock, and outside.
func (m mortal) Dead(client string) bool {
	if !m.mu.TryLock() {
		return m.isDead(client) // Change has the lock, and asks from within
	}
	defer m.mu.Unlock()
	return m.isDead(client)
}

func (w *world) isDead(client string) bool {
	w.asked[client]++
	return w.dead[client]
}

func (m mortal) Await(client, name string, until time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := m.awaits[client]
	if names == nil {
		names = map[string]time.Duration{}
		m.awaits[client] = names
	}
	names[name] = max(names[name], until)
	if m.dead[client] {
		m.polls.Go(func() { _ = m.engine.PollAfter(context.Background(), name) })
	}
}

var errBroken = errors.New("the store broke")

// open for a test, closed at its end.
func open(t *testing.T, w *world) *queuestore.Engine {
	e := w.open()
	t.Cleanup(func() {
		w.polls.Wait()
		_ = e.Close()
	})
	return e
}

func want(name string) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Minute}
}

func shared(name string) engine.Request {
	r := want(name)
	r.Permits = 1
	return r
}

var join, drop, notified = testutil.Joins, testutil.Leaves, testutil.Watch

func receives(t *testing.T, received <-chan engine.Claim, id engine.ID, state engine.State) engine.Claim {
	t.Helper()
	return testutil.Expect(t, received, func(c engine.Claim) bool { return c.ID == id && c.State == state })
}

func names(t *testing.T, e *queuestore.Engine, prefix string) (all []string) {
	t.Helper()
	for l, err := range e.Queues(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(l.Name, len(l.Claims)))
	}
	return all
}
