package etcdlock

import (
	"context"
	"testing"
	"time"

	"leasehold/engine"
)

// patience bounds every wait for something that must happen.
const patience = time.Minute

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func exclusive(name string) engine.Request { return units(name, engine.Max, engine.Max) }

func units(name string, n, limit int32) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Units: n, Limit: limit, WaitTTL: short}
}

func join(t testing.TB, e engine.Engine, r engine.Request) engine.Claim {
	t.Helper()
	c, err := e.Join(within(t), r)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	return c
}

func joins(t testing.TB, e engine.Engine, r engine.Request, want engine.State) engine.Claim {
	t.Helper()
	c := join(t, e, r)
	if c.State != want {
		t.Fatalf("joined as %v, want %v", c.State, want)
	}
	return c
}

func leave(t testing.TB, e engine.Engine, c engine.Claim) engine.State {
	t.Helper()
	got, err := e.Leave(within(t), []engine.Claim{c})
	if err != nil || len(got) != 1 {
		t.Fatalf("Leave: %v, %v", got, err)
	}
	return got[0].State
}

func renew(t testing.TB, e engine.Engine, c engine.Claim) engine.Claim {
	t.Helper()
	return renewIn(t, e, c, patience)
}

// renewIn gives the engine that much time, which the core bounds by the TTL.
func renewIn(t testing.TB, e engine.Engine, c engine.Claim, bound time.Duration) engine.Claim {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), bound)
	defer cancel()
	got, err := e.Renew(ctx, []engine.Renewal{{Name: c.Name, ID: c.ID, Want: short}})
	if err != nil || len(got) != 1 {
		t.Fatalf("Renew: %v, %v", got, err)
	}
	return got[0]
}

// watch hears an engine's notes; the subscription has begun when it returns.
func watch(t testing.TB, e engine.Engine) <-chan engine.Claim {
	t.Helper()
	heard := make(chan engine.Claim, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = e.Watch(ctx, func(c engine.Claim) { heard <- c })
	}()
	t.Cleanup(func() { cancel(); <-done })
	hears(t, heard, engine.Claim{})
	return heard
}

// hears waits for a note of that claim in that state.
func hears(t testing.TB, heard <-chan engine.Claim, want engine.Claim) engine.Claim {
	t.Helper()
	for late := time.After(patience); ; {
		select {
		case c := <-heard:
			if c.ID == want.ID && c.State == want.State {
				return c
			}
		case <-late:
			t.Fatalf("not told within %v that %q is %v", patience, want.Name, want.State)
		}
	}
}

// as is a claim in another state.
func as(c engine.Claim, s engine.State) engine.Claim {
	c.State = s
	return c
}

// until asks until ok says true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
