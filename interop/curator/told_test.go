package curator

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
	it "leasehold/interop/internal/interoptest"
)

// releasesAreTold is about nobody having to look. So it uses engines, which do
// nothing by themselves: nobody renews and nobody asks again. The client of ours
// looks every now and then in any case. Curator's acquire without a time only waits.
func releasesAreTold(t *testing.T, r *rig, layout, kind string) {
	name := it.NameOf(t)
	path := pathOf(name)
	a, b := r.java.Thread(1), r.other.Thread(1)
	one, two := hears(t, r.engine(t, layout)), hears(t, r.engine(t, layout))

	it.Does(t, a, "acquire", kind, path)
	first := one.join(t, name, engine.Waiting)
	java := b.Go("acquire", kind, path)
	r.lined(t, name, holds, 0, 1)
	last := two.join(t, name, engine.Waiting)
	r.lined(t, name, holds, 0, 1, 2)

	it.Does(t, a, "release", kind, path)
	one.hear(t, first.ID)
	r.lined(t, name, holds, 0, 1)
	one.leave(t, first)
	it.Done(t, java)
	r.lined(t, name, holds, 0)
	if n := len(two.heard); n != 0 {
		t.Errorf("who waits behind others was told of %d changes", n)
	}
	it.Does(t, b, "release", kind, path)
	two.hear(t, last.ID)
	two.leave(t, last)
	r.lined(t, name)
}

// hearing is an engine whose Watch runs.
type hearing struct {
	engine.Engine
	heard chan engine.Claim
}

func hears(t *testing.T, e engine.Engine) *hearing {
	t.Helper()
	h := &hearing{e, make(chan engine.Claim, 1000)}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Watch(ctx, func(c engine.Claim) { h.heard <- c })
	}()
	t.Cleanup(func() { cancel(); <-ended })
	<-h.heard // it has begun
	return h
}

func (h *hearing) join(t *testing.T, name string, want engine.State) engine.Claim {
	t.Helper()
	c, err := h.Join(it.Within(t), engine.Request{Name: name, ID: engine.NewID(), Units: engine.Max, Limit: engine.Max, WaitTTL: engine.MinTTL})
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
func (h *hearing) hear(t *testing.T, id engine.ID) {
	t.Helper()
	for late := time.After(it.Bound); ; {
		select {
		case c := <-h.heard:
			if c.ID == id && c.State == engine.Held {
				return
			}
		case <-late:
			t.Fatal("a release was not heard of")
		}
	}
}
