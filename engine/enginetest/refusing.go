package enginetest

import (
	"fmt"
	"sync"
	"time"

	"leasehold/engine"
)

func refusing() promise {
	return promise{"a full server", "a client can renew its claims while the server refuses new connections", []kase{
		{"claims are renewed though connections are refused", func(t *trial) {
			if t.h.RefuseConnections == nil {
				t.notExercised("RefuseConnections")
			}
			t.needsMode(engine.Exclusive)
			a := t.client()
			held := make([]engine.Claim, 40)
			for i := range held {
				held[i] = a.hold(t.exclusive(t.name()))
			}
			restore := t.h.RefuseConnections(t.TB)
			defer restore()
			var wrong sync.Map
			for round := range 5 {
				var calls sync.WaitGroup
				// Others of the same client keep its connections busy. What they are
				// answered does not matter.
				for range 8 {
					calls.Go(func() {
						for range 10 {
							r := t.exclusive(t.name())
							_, _ = a.Join(t.ctx(), r)
							_, _ = a.Leave(t.ctx(), []engine.Claim{{Name: r.Name, ID: r.ID}})
						}
					})
				}
				for i, c := range held {
					calls.Go(func() {
						got, err := a.Renew(t.ctx(), t.renewals(c))
						if err != nil || len(got) != 1 || got[0].State != engine.Held {
							wrong.Store(i, fmt.Sprintf("round %d: Renew says %v, %v", round, got, err))
						}
					})
				}
				calls.Wait()
			}
			failed := 0
			var one string
			wrong.Range(func(_, v any) bool { failed, one = failed+1, v.(string); return true })
			if failed > 0 {
				t.Fatalf("the server takes no more connections, and %d of %d claims were not renewed every time; one: %s", failed, len(held), one)
			}
			restore()
			b, late := t.client(), time.Now().Add(t.h.Patience)
			for {
				c, err := b.Join(t.ctx(), t.exclusive(t.name()))
				if err == nil && c.State == engine.Held {
					return
				}
				if time.Now().After(late) {
					t.Fatalf("the server takes connections again, and a Join says %v, %v", c.State, err)
				}
			}
		}},
	}}
}
