package sqllock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// sharer is a database whose calls take a second, alone or together. Those of the name
// "busy" are made alone only.
type sharer struct {
	Database
	alone, together atomic.Int32
	fails           error
}

func (s *sharer) Join(_ context.Context, r *engine.Request) (Joined, error) {
	s.alone.Add(1)
	time.Sleep(time.Second)
	return Joined{Claim: held(r.Name)}, nil
}

func (s *sharer) Batch(_ context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	s.alone.Add(1)
	time.Sleep(time.Second)
	return []engine.Claim{held(rs[0].Name)}, nil
}

func (s *sharer) Share(_ context.Context, calls []Call, answer func(int, engine.Claim)) error {
	s.together.Add(1)
	time.Sleep(time.Second)
	for i, c := range calls {
		if c.Name != "busy" {
			answer(i, held(c.Name))
		}
	}
	return s.fails
}

func held(name string) engine.Claim {
	return engine.Claim{Name: name, State: engine.Held, Permits: 1, Limit: 1}
}

// storm has 40 callers join at once, and 40 leave, with 4 connections.
func storm(t *testing.T, s *sharer) (answers, failures int32) {
	t.Helper()
	e := New(s, 4, 0, Guarantees(false, false))
	var all sync.WaitGroup
	var right, wrong atomic.Int32
	count := func(c engine.Claim, name string, err error) {
		if err != nil {
			wrong.Add(1)
		} else if c.Name == name && c.State == engine.Held {
			right.Add(1)
		}
	}
	for i := range 40 {
		name := fmt.Sprint(i)
		if i == 30 {
			name = "busy"
		}
		all.Go(func() {
			c, err := e.Join(t.Context(), engine.Request{Name: name, ID: engine.NewID(), Permits: 1, Limit: 1})
			count(c, name, err)
		})
		all.Go(func() {
			cs, err := e.Leave(t.Context(), []engine.Claim{{Name: "left " + name, ID: engine.NewID()}})
			count(append(cs, engine.Claim{})[0], "left "+name, err)
		})
	}
	all.Wait()
	return right.Load(), wrong.Load()
}

// Calls of many callers share statements, and each gets its own answer. One that is not
// answered together is made alone.
func TestCallsOfManyShareStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharer
		if answers, failures := storm(t, &s); answers != 80 || failures != 0 {
			t.Errorf("%d were answered, and %d failed", answers, failures)
		}
		// Three find a connection free, and busy goes alone at last.
		if alone, together := s.alone.Load(), s.together.Load(); alone > 4 || together > 6 {
			t.Errorf("%d were made alone, and others in %d statements", alone, together)
		}
	})
}

// Of a shared statement that fails nobody has learned anything.
func TestASharedStatementThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sharer{fails: errors.New("cut off")}
		if answers, failures := storm(t, &s); answers+failures != 80 || int(answers) != int(s.alone.Load()) {
			t.Errorf("%d were answered, of which %d alone, and %d failed", answers, s.alone.Load(), failures)
		}
	})
}

// A Join that replaces a claim is never shared: nor is any call of a database that cannot.
func TestWhatIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharer
		e := New(&s, 4, 0, Guarantees(false, false))
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				_, _ = e.Join(t.Context(), engine.Request{Name: fmt.Sprint(i), ID: engine.NewID(), Permits: 1, Limit: 1, Replaces: engine.NewID()})
			})
		}
		all.Wait()
		if alone, together := s.alone.Load(), s.together.Load(); alone != 40 || together != 0 {
			t.Errorf("%d were made alone, and others in %d statements", alone, together)
		}
		if e := New(database{}, 4, 0, Guarantees(false, false)); e.group != nil {
			t.Error("calls of a database that cannot share are to")
		}
	})
}
