package enginetest_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/memlock"
)

// The suite must not blame an engine for being of another kind than memlock.
// These are right, each in its own way, and nothing may fail.

// An engine without order: it remembers holders only, and Renew tries again.
type unordered struct {
	*memlock.Engine
	mu      sync.Mutex
	waiting map[engine.ID]engine.Request
}

func (u *unordered) Guarantees() engine.Guarantees {
	return engine.Guarantees{Order: engine.OrderNone, Modes: engine.Exclusive, CrashRelease: engine.CrashTTL}
}

func (u *unordered) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	g := u.Guarantees()
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if err := g.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	if r.Replaces != (engine.ID{}) { // in one step, as a script would
		if _, err := u.Engine.Leave(ctx, []engine.Claim{{Name: r.Name, ID: r.Replaces}}); err != nil {
			return engine.Claim{}, err
		}
	}
	patient := !r.NoWait
	r.NoWait, r.Replaces = true, engine.ID{}
	c, err := u.Engine.Join(ctx, r)
	c.Contended, c.Look = false, 0
	if err != nil || c.State != engine.Gone || c.Evicted || !patient {
		return c, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waiting[r.ID] = r
	c.State, c.TTL, c.Look = engine.Waiting, r.WaitTTL, 10*time.Millisecond
	return c, nil
}

func (u *unordered) Renew(ctx context.Context, rs []engine.Renewal) (out []engine.Claim, err error) {
	if len(rs) > engine.MaxBatch {
		return u.Engine.Renew(ctx, rs)
	}
	for _, r := range rs {
		u.mu.Lock()
		q, waits := u.waiting[r.ID]
		u.mu.Unlock()
		if waits {
			q.WaitTTL = r.Want
			c, err := u.Join(ctx, patient(q))
			if err != nil {
				return out, err
			}
			if c.State == engine.Held {
				u.mu.Lock()
				delete(u.waiting, r.ID)
				u.mu.Unlock()
			}
			out = append(out, c)
			continue
		}
		cs, err := u.Engine.Renew(ctx, []engine.Renewal{r})
		if err != nil {
			return out, err
		}
		cs[0].Contended = false
		out = append(out, cs[0])
	}
	return out, ctx.Err()
}

func (u *unordered) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	out, err := u.Engine.Leave(ctx, cs)
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range out {
		if _, waits := u.waiting[out[i].ID]; waits {
			out[i].State = engine.Waiting
			delete(u.waiting, out[i].ID)
		}
	}
	return out, err
}

// patient is a request that was remembered as one that does not wait.
func patient(r engine.Request) engine.Request {
	r.NoWait = false
	return r
}

// An engine that sends no notes: it says when to look again.
type polling struct{ *memlock.Engine }

func (p polling) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	c, err := p.Engine.Join(ctx, r)
	return p.look(c), err
}

func (p polling) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	cs, err := p.Engine.Renew(ctx, rs)
	for i := range cs {
		cs[i] = p.look(cs[i])
	}
	return cs, err
}

func (p polling) look(c engine.Claim) engine.Claim {
	if c.State == engine.Waiting {
		c.Look = 20 * time.Millisecond
	}
	return c
}

func (p polling) Watch(ctx context.Context, changed func(engine.Claim)) error {
	return p.Engine.Watch(ctx, func(c engine.Claim) {
		if c.Name == "" {
			changed(c)
		}
	})
}

// An engine whose claims live as long as the session of their client.
type sessions struct {
	store *memlock.Store
	clock *clock
	mu    sync.Mutex
	dying map[*session]time.Duration
}

type session struct {
	*memlock.Engine
	of *sessions
}

const sessionTime = 4 * time.Second

// bury closes the clients whose session has timed out.
func (s *sessions) bury() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e, at := range s.dying {
		if s.clock.Now() >= at+sessionTime {
			_ = e.Engine.Close()
			delete(s.dying, e)
		}
	}
}

func (e *session) Guarantees() engine.Guarantees {
	g := e.Engine.Guarantees()
	g.CrashRelease, g.MinTTL, g.MaxTTL, g.Detach = engine.CrashSession, sessionTime/2, sessionTime/2, false
	return g
}

func (e *session) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	e.of.bury()
	g := e.Guarantees()
	if err := r.Check(); err != nil {
		return engine.Claim{}, err
	}
	if err := g.Check(&r); err != nil {
		return engine.Claim{}, err
	}
	r.WaitTTL = engine.MaxTTL
	c, err := e.Engine.Join(ctx, r)
	return trusted(c), err
}

func (e *session) Renew(ctx context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	e.of.bury()
	cs, err := e.Engine.Renew(ctx, rs)
	for i := range cs {
		cs[i] = trusted(cs[i])
	}
	return cs, err
}

func (e *session) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	e.of.bury()
	return e.Engine.Leave(ctx, cs)
}

func (e *session) Line(ctx context.Context, name string) (engine.Line, error) {
	e.of.bury()
	l, err := e.Engine.Line(ctx, name)
	for i := range l.Claims {
		l.Claims[i] = trusted(l.Claims[i])
	}
	return l, err
}

// trusted: half the session is what a reply proves.
func trusted(c engine.Claim) engine.Claim {
	if c.TTL > 0 {
		c.TTL = sessionTime / 2
	}
	return c
}

type clock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *clock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += max(0, d)
}

func TestAnInnocentKindOfEngineIsBlamed(t *testing.T) {
	c := &clock{}
	store := memlock.NewStore(&memlock.Options{Clock: c.Now})
	all := &sessions{store: store, clock: c, dying: map[*session]time.Duration{}}
	for name, h := range map[string]enginetest.Harness{
		"without order": {New: func(testing.TB) engine.Engine {
			return &unordered{Engine: store.Engine(), waiting: map[engine.ID]engine.Request{}}
		}, Polls: true},
		"without notes": {New: func(testing.TB) engine.Engine { return polling{store.Engine()} }, Polls: true},
		"with sessions": {New: func(testing.TB) engine.Engine { return &session{store.Engine(), all} },
			Kill: func(_ testing.TB, e engine.Engine) {
				all.mu.Lock()
				defer all.mu.Unlock()
				all.dying[e.(*session)] = c.Now()
			}},
	} {
		t.Run(name, func(t *testing.T) {
			h.Name, h.Now, h.Sleep, h.Patience = name, c.Now, c.Sleep, patience
			results, failures := enginetest.Check(t, h)
			for _, f := range failures {
				t.Error(f)
			}
			n := map[enginetest.Outcome]int{}
			for _, r := range results {
				n[r.Outcome]++
			}
			t.Log(n)
			if n[enginetest.Pass] < 40 {
				t.Errorf("only %d cases were put to the test", n[enginetest.Pass])
			}
		})
	}
}

// busy tells from two goroutines at once.
type busy struct{ engine.Engine }

func (b busy) Watch(ctx context.Context, changed func(engine.Claim)) error {
	return b.Engine.Watch(ctx, func(c engine.Claim) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for range 100 {
					changed(c)
				}
			})
		}
		both.Wait()
	})
}

func TestTwoTellingAtOnceAreCaught(t *testing.T) {
	c := &clock{}
	store := memlock.NewStore(&memlock.Options{Clock: c.Now})
	_, failures := enginetest.Check(t, enginetest.Harness{
		Name: "two tell at a time", New: func(testing.TB) engine.Engine { return busy{store.Engine()} },
		Now: c.Now, Sleep: c.Sleep, Patience: 200 * time.Millisecond,
	})
	if !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, "by two goroutines at once") }) {
		t.Errorf("nobody says it: %v", failures)
	}
}
