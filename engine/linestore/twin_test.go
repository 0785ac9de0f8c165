package linestore_test

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
	"leasehold/engine/internal/kit"
	"leasehold/engine/linestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a store of bytes in memory, as unfriendly as the Store interface
// allows where a test asks for it.
type world struct {
	mortal bool // stores are Lives
	mute   bool // Tell does nothing
	walk   bool // engines remember nothing
	page   int  // cells a call of Cells returns; 0: all

	// before is called in each Change, with the world locked, before what is
	// then stored; it may call try, as a store does whose attempt failed. kept:
	// the attempt was stored all the same; unsure: the store does not know.
	before func(name string, try func(kept, unsure bool) error)
	refuse func(name string) error // what Change says instead of storing
	enter  func()                  // called at the beginning of every Change

	mu      sync.Mutex
	now     time.Duration
	micros  uint64
	cells   map[string][]byte
	floor   uint64
	clients map[string]*twin
	dead    map[string]bool
	asked   map[string]int // how often Dead was asked of a client
	calls   int            // of Change
	stores  int            // that were stored
	looks   sync.WaitGroup
}

type twin struct {
	*world
	name   string
	engine *linestore.Engine
	awaits map[string]map[string]time.Duration // by client and name
}

// mortal is a twin that has lives.
type mortal struct{ *twin }

var (
	_ linestore.Store = (*twin)(nil)
	_ linestore.Lives = mortal{}
)

func newWorld() *world {
	return &world{
		now: time.Hour, micros: 1000,
		cells: map[string][]byte{}, clients: map[string]*twin{}, dead: map[string]bool{}, asked: map[string]int{},
	}
}

// open is one more client.
func (w *world) open() *linestore.Engine {
	c := &twin{world: w, name: linestore.NewClient(), awaits: map[string]map[string]time.Duration{}}
	var s linestore.Store = c
	if w.mortal {
		s = mortal{c}
	}
	o := &linestore.Options{Walk: w.walk}
	if w.mute {
		o.Poll = 10 * time.Millisecond
	}
	c.engine = linestore.New(c.name, s, o)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[c.name] = c
	return c.engine
}

func (w *world) of(e *linestore.Engine) *twin {
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
func (w *world) kill(e *linestore.Engine) {
	died := w.of(e).name
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead[died] = true
	for _, c := range w.clients {
		for name, until := range c.awaits[died] {
			if until > w.now && !w.dead[c.name] {
				w.looks.Go(func() { _ = c.engine.Look(context.Background(), name) })
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
	for name := range w.cells {
		if c, err := w.load(name); err == nil && !c.Line.Empty(w.now) {
			n++ // the rest would go by itself
		}
	}
	return n
}

func (w *world) load(name string) (c linestore.Cell, err error) {
	c = linestore.Cell{Name: name, Now: w.now, Micros: w.micros}
	c.Line.Last = w.floor
	if b := w.cells[name]; b != nil {
		err = c.Line.UnmarshalBinary(b)
	}
	return c, err
}

func (w *world) store(c *linestore.Cell) {
	w.stores++
	if c.Line.Empty(c.Now) {
		w.floor = max(w.floor, c.Line.Last)
		delete(w.cells, c.Name)
		return
	}
	w.cells[c.Name], _ = c.Line.AppendBinary(nil)
}

func (c *twin) Change(_ context.Context, name string, change func(*linestore.Cell) error) error {
	w := c.world
	if w.enter != nil {
		w.enter()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	again := false
	try := func(kept, unsure bool) error {
		cell, err := w.load(name)
		if err != nil {
			return err
		}
		cell.Again = again
		again = again || unsure
		if err := change(&cell); err != nil {
			return err
		}
		if kept {
			w.store(&cell)
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

func (c *twin) Read(_ context.Context, name string) (linestore.Cell, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load(name)
}

func (c *twin) Cells(_ context.Context, prefix, after string) (cells []linestore.Cell, next string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(c.cells)) {
		if name <= after || !strings.HasPrefix(name, prefix) {
			continue
		}
		cell, err := c.load(name)
		if err != nil {
			return cells, "", err
		}
		if cells = append(cells, cell); len(cells) == c.page {
			return cells, name, nil
		}
	}
	return cells, "", nil
}

func (c *twin) Tell(to string, note engine.Claim) {
	c.mu.Lock()
	other := c.clients[to]
	heard := other != nil && !c.mute && !c.dead[to]
	c.mu.Unlock()
	if heard {
		other.engine.Post(note)
	}
}

func (c *twin) Guarantees() engine.Guarantees {
	g := engine.Guarantees{
		Order:   engine.OrderNone, // the line knows better
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
		m.looks.Go(func() { _ = m.engine.Look(context.Background(), name) })
	}
}

var errBroken = errors.New("the store broke")

// open for a test, closed at its end.
func open(t *testing.T, w *world) *linestore.Engine {
	e := w.open()
	t.Cleanup(func() {
		w.looks.Wait()
		_ = e.Close()
	})
	return e
}

func want(name string) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Units: engine.Max, Limit: engine.Max, WaitTTL: time.Minute}
}

func shared(name string) engine.Request {
	r := want(name)
	r.Units = 1
	return r
}

var join, drop, told = kit.Joins, kit.Leaves, kit.Watch

func hears(t *testing.T, heard <-chan engine.Claim, id engine.ID, state engine.State) engine.Claim {
	t.Helper()
	return kit.Expect(t, heard, func(c engine.Claim) bool { return c.ID == id && c.State == state })
}

func names(t *testing.T, e *linestore.Engine, prefix string) (all []string) {
	t.Helper()
	for l, err := range e.Lines(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprint(l.Name, len(l.Claims)))
	}
	return all
}
