package enginetest

import (
	"errors"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/internal/door"
)

func leave() promise {
	return promise{"leave", "Leave says in which state it found the claim", []kase{
		{"Leave finds a held claim held", func(t *trial) {
			a, name := t.client(), t.name()
			c := a.hold(t.exclusive(name))
			t.left(a, c, engine.Held, "it was held")
			t.left(a, c, engine.Gone, "it was left before")
		}},
		{"Leave finds a waiting claim waiting", func(t *trial) {
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			t.left(b, second, engine.Waiting, "it waited")
			t.left(a, first, engine.Held, "it was held")
		}},
		{"Leave finds an expired claim gone", func(t *trial) {
			a, name := t.client(), t.name()
			c := a.hold(t.brief(t.exclusive(name)))
			t.left(t.lapse(a, c), c, engine.Gone, "its deadline had passed")
		}},
		{"Leave finds a claim that was never there gone", func(t *trial) {
			a, name := t.client(), t.name()
			t.left(a, engine.Claim{Name: name, ID: engine.NewID()}, engine.Gone, "it was never there")
		}},
		{"Leave finds a claim held that its client believes waiting", func(t *trial) {
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			a.leave(first)
			t.left(b, second, engine.Held, "the claim before it was left")
		}},
		{"closing a client frees what it had", func(t *trial) {
			t.needsMode(engine.Exclusive)
			a, taken := t.client(), t.name()
			first := a.hold(t.exclusive(taken))
			locks, err := leasehold.New(&door.Engine{Engine: t.h.New(t.TB), Clock: t.h.Now}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			names := make([]string, 110) // more than some engines ask for in one request
			for i := range names {
				names[i] = t.name()
				if _, err := locks.Lock(t.ctx(), names[i]); err != nil {
					t.Fatalf("Lock: %v", err)
				}
			}
			waited := make(chan error, 1)
			go func() {
				_, err := locks.Lock(t.Context(), taken)
				waited <- err
			}()
			if t.g.SeesWaiters {
				t.eventuallyLine(a, taken, 2)
			}
			if err := locks.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if err := <-waited; !errors.Is(err, leasehold.ErrClosed) {
				t.Errorf("Lock of a client that was closed says %v", err)
			}
			a.leave(first)
			for _, name := range append(names, taken) {
				a.free(name, "its client was closed")
			}
		}},
	}}
}

func (t *trial) left(a *client, c engine.Claim, want engine.State, why string) {
	t.Helper()
	if got := a.leave(c); got.State != want {
		t.Fatalf("%s, and Leave says %v", why, got.State)
	}
}

// eventuallyLine waits until so many claims are in the queue.
func (t *trial) eventuallyLine(a *client, name string, claims int) {
	t.Helper()
	for late := time.Now().Add(t.h.Patience); len(a.line(name).Claims) < claims; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d claims in the queue, want %d", len(a.line(name).Claims), claims)
		}
	}
}
