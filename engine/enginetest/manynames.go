package enginetest

import (
	"fmt"
	"testing"

	"leasehold/engine"
)

func manyNames() promise {
	return promise{"many names", "a thousand names are held and renewed by one client", []kase{
		{"no name is lost among many", func(t *trial) {
			many := 1000
			if testing.Short() {
				many = 300
			}
			a, b, prefix := t.client(), t.client(), t.name()
			held := make([]engine.Claim, many)
			rs := make([]engine.Renewal, many)
			for i := range held {
				held[i] = a.hold(t.exclusive(fmt.Sprintf("%s/%d", prefix, i)))
				rs[i] = engine.Renewal{Name: held[i].Name, ID: held[i].ID, Want: t.long()}
			}
			got, err := a.Renew(t.ctx(), rs)
			if err != nil || len(got) != many {
				t.Fatalf("Renew of %d claims answered %d, %v", many, len(got), err)
			}
			states := map[engine.ID]engine.State{}
			for _, c := range got {
				states[c.ID] = c.State
			}
			for i, c := range held {
				if states[c.ID] != engine.Held {
					t.Fatalf("claim %d of %d is %v", i, many, states[c.ID])
				}
			}
			for _, i := range []int{0, 1, many / 2, many - 1} {
				b.taken(held[i].Name, fmt.Sprintf("name %d of %d is held", i, many))
			}
			n := 0
			for _, err := range b.Queues(t.ctx(), prefix+"/") {
				if err != nil {
					t.Fatalf("Queues: %v", err)
				}
				n++
			}
			if n != many {
				t.Fatalf("Queues shows %d of %d names", n, many)
			}
			left, err := a.Leave(t.ctx(), held)
			if err != nil || len(left) != many {
				t.Fatalf("Leave of %d claims answered %d, %v", many, len(left), err)
			}
			for i := range held {
				if left[i].State != engine.Held {
					t.Fatalf("Leave found a held claim %v", left[i].State)
				}
			}
		}},
	}}
}
