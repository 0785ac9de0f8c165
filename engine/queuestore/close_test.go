package queuestore

import (
	"context"
	"fmt"
	"sync"
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

// mortal is a store whose clients may die.
type mortal struct {
	mu sync.Mutex
	record
}

func (m *mortal) Change(ctx context.Context, name string, change func(*Record) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record.Change(ctx, name, change)
}
func (*mortal) Dead(string) bool                   { return false }
func (*mortal) Await(_, _ string, _ time.Duration) {}

// No goroutine of the engine's is left when it is closed.
func TestCloseWaitsForLooks(t *testing.T) {
	for range 20 {
		e := New("me", &mortal{}, nil)
		for i := range 100 {
			e.Post(engine.Claim{Name: fmt.Sprint(i)}) // asks this client to look
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if n := len(e.polling); n > 0 {
			t.Fatalf("%d looks are still to come; want none", n)
		}
	}
}
