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
	"leasehold/engine/enginetest/kinds"
	"leasehold/engine/memlock"
)

// The suite must not blame an engine for being of another kind than memlock.
// These are right, each in its own way, and nothing may fail.

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

func (e *session) Queue(ctx context.Context, name string) (engine.Queue, error) {
	e.of.bury()
	l, err := e.Engine.Queue(ctx, name)
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
	silent, telling := kinds.NewRegister(store), kinds.NewRegister(store)
	silent.PollAfter, telling.Notifies = 10*time.Millisecond, true
	all := &sessions{store: store, clock: c, dying: map[*session]time.Duration{}}
	for name, h := range map[string]enginetest.Harness{
		"without order": {New: func(testing.TB) engine.Engine { return silent.Engine() }, Polls: true},
		"that says try": {New: func(testing.TB) engine.Engine { return telling.Engine() }},
		"without notifications": {New: func(testing.TB) engine.Engine {
			return kinds.Polling{Engine: store.Engine(), Every: 5 * time.Millisecond}
		}, Polls: true},
		"with sessions": {New: func(testing.TB) engine.Engine { return &session{store.Engine(), all} },
			Kill: func(_ testing.TB, e engine.Engine) {
				all.mu.Lock()
				defer all.mu.Unlock()
				all.dying[e.(*session)] = c.Now()
			}},
	} {
		t.Run(name, func(t *testing.T) {
			h.Name, h.Now, h.Sleep, h.Patience = name, c.Now, c.Sleep, time.Minute
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

// busy tells from two goroutines at once, for so long that they meet on one core too.
type busy struct{ engine.Engine }

func (b busy) Watch(ctx context.Context, changed func(engine.Claim)) error {
	return b.Engine.Watch(ctx, func(c engine.Claim) {
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				for end := time.Now().Add(2 * time.Millisecond); time.Now().Before(end); {
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
		Now: c.Now, Sleep: c.Sleep, Patience: patience, Crowd: 1,
	})
	if !slices.ContainsFunc(failures, func(f string) bool { return strings.Contains(f, "by two goroutines at once") }) {
		t.Errorf("nobody says it: %v", failures)
	}
}
