package curator

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
	it "leasehold/lab/interop/internal/interoptest"
)

// releasesAreNotified is about nobody having to look. So it uses engines, which do
// nothing by themselves: nobody renews and nobody asks again. The client of ours
// polls every now and then in any case. Curator's acquire without a time only waits.
func releasesAreNotified(t *testing.T, r *rig, layout, kind string) {
	name := it.NameOf(t)
	path := pathOf(name)
	a, b := r.java.Thread(1), r.other.Thread(1)
	one, two := receives(t, r.engine(t, layout)), receives(t, r.engine(t, layout))

	it.Does(t, a, "acquire", kind, path)
	first := one.join(t, name, engine.Waiting)
	java := b.Go("acquire", kind, path)
	r.lined(t, name, holds, 0, 1)
	last := two.join(t, name, engine.Waiting)
	r.lined(t, name, holds, 0, 1, 2)

	it.Does(t, a, "release", kind, path)
	one.receive(t, first.ID)
	r.lined(t, name, holds, 0, 1)
	one.leave(t, first)
	it.Done(t, java)
	r.lined(t, name, holds, 0)
	if n := len(two.received); n != 0 {
		t.Errorf("who waits behind others was told of %d changes, the first %+v", n, <-two.received)
	}
	it.Does(t, b, "release", kind, path)
	two.receive(t, last.ID)
	two.leave(t, last)
	r.lined(t, name)
}

// hearing is an engine whose Watch runs.
type hearing struct {
	engine.Engine
	received chan engine.Claim
}

func receives(t *testing.T, e engine.Engine) *hearing {
	t.Helper()
	h := &hearing{e, make(chan engine.Claim, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Watch(ctx, func(c engine.Claim) { h.received <- c })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-h.received // it has begun
	return h
}

func (h *hearing) join(t *testing.T, name string, want engine.State) engine.Claim {
	t.Helper()
	c, err := h.Join(it.Within(t), engine.Request{Name: name, ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: engine.MinTTL, TTL: session / 2})
	if err != nil || c.State != want {
		t.Fatalf("%s: %v: %v", name, c.State, err)
	}
	return c
}

func (h *hearing) leave(t *testing.T, c engine.Claim) {
	t.Helper()
	if _, err := h.Leave(it.Within(t), []engine.Claim{c}); err != nil {
		t.Fatal(err)
	}
}

// hear waits until it is told that a claim holds.
func (h *hearing) receive(t *testing.T, id engine.ID) {
	t.Helper()
	for late := time.After(it.Bound); ; {
		select {
		case c := <-h.received:
			if c.ID == id && c.State == engine.Held {
				return
			}
		case <-late:
			t.Fatal("a release was not heard of")
		}
	}
}
