package queuestore

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"leasehold/engine"
)

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

// To remember one more claim costs the same however many there are: what is looked
// through doubles before it is looked through again.
func TestJoinsDoNotLookThroughAllClaims(t *testing.T) {
	var m claims
	polls, before := 0, 0
	for range 10_000 {
		m.expect(engine.NewID(), "n")
		if m.purge != before {
			polls, before = polls+1, m.purge
		} else if len(m.known) > m.purge {
			t.Fatalf("%d claims are known, and the next look is at %d", len(m.known), m.purge)
		}
	}
	if polls > 10 || m.purge < len(m.known) {
		t.Errorf("all claims were looked through %d times for %d of them, the next time at %d", polls, len(m.known), m.purge)
	}
}
