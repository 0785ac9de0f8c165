package queuestore

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
)

// record is a store of one name.
type record struct{ Record }

func (s *record) Change(_ context.Context, name string, change func(*Record) error) error {
	s.Name = name
	return change(&s.Record)
}
func (s *record) Read(context.Context, string) (Record, error) { return s.Record, nil }
func (s *record) Records(context.Context, string, string) ([]Record, string, error) {
	return nil, "", nil
}
func (s *record) Notify(string, engine.Claim)   {}
func (s *record) Guarantees() engine.Guarantees { return engine.Guarantees{Detach: true} }
func (s *record) Close() error                  { return nil }

func request(limit, permits int32) engine.Request {
	return engine.Request{Name: "n", ID: engine.NewID(), Permits: permits, Limit: limit, WaitTTL: time.Second}
}

func TestClaimsThatAreGonePileUp(t *testing.T) {
	s := &record{}
	e := New("me", s, nil)
	defer e.Close()
	must := func(c engine.Claim, err error) engine.Claim {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	known := func(want int, what string) {
		t.Helper()
		if n := len(e.mine.known); n != want {
			t.Fatalf("%s: %d claims are remembered, want %d", what, n, want)
		}
	}
	ctx := t.Context()
	last := must(e.Join(ctx, request(3, 3)))
	for range 100 {
		r := request(3, 3)
		r.Replaces = last.ID
		last = must(e.Join(ctx, r))
	}
	known(1, "each was replaced by the next")
	r := request(3, 3)
	r.NoWait = true
	must(e.Join(ctx, r))
	known(1, "a refused one that does not wait")
	if _, err := e.Join(ctx, request(4, 1)); err == nil {
		t.Fatal("another limit")
	}
	known(1, "a refused limit")
	r = request(3, 3)
	r.Detached = true
	must(e.Join(ctx, r))
	known(1, "a detached one")
	if _, err := e.Leave(ctx, []engine.Claim{last}); err != nil {
		t.Fatal(err)
	}
	known(0, "it left")

	s.Queue.Places = nil
	last = must(e.Join(ctx, request(3, 3)))
	s.Now += time.Second
	if cs, err := e.Renew(ctx, []engine.Renewal{{Name: "n", ID: last.ID, Want: time.Second}}); err != nil || cs[0].State != engine.Gone {
		t.Fatal("it should have expired")
	}
	known(0, "it was reported gone")

	// Those of which nobody hears again go when they must have expired, those
	// that are extended stay.
	kept := must(e.Join(ctx, request(engine.Max, 1)))
	for range 10_000 {
		s.Now += 100 * time.Millisecond
		if _, err := e.Renew(ctx, []engine.Renewal{{Name: "n", ID: kept.ID, Want: time.Second}}); err != nil {
			t.Fatal(err)
		}
		must(e.Join(ctx, request(engine.Max, 1)))
		if n := len(e.mine.known); n > 2*purgeAt {
			t.Fatalf("ten claims live at a time, and %d are remembered", n)
		}
	}
	if _, ok := e.mine.known[kept.ID]; !ok {
		t.Fatal("a claim that was renewed is forgotten")
	}
}

func TestAClaimWhoseJoinIsUnclearIsForgotten(t *testing.T) {
	s := &record{}
	e := New("me", s, nil)
	r := request(1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Join(ctx, r); err == nil {
		t.Fatal("a cancelled Join succeeded")
	}
	if _, ok := e.mine.known[r.ID]; !ok {
		t.Fatal("nothing was learned, and Close would not leave it")
	}
	_ = e.Close()
}
