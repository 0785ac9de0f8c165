package enginetest

import (
	"maps"

	"leasehold/engine"
)

func batches() promise {
	return promise{"batches", "the answer to a batch says what the client learned; about a missing claim it learned nothing", []kase{
		{"each claim of a batch has its own answer", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			mine := a.hold(t.exclusive(name))
			// Without order nobody is remembered who waits.
			waits, waiting := engine.Claim{Name: name, ID: engine.NewID()}, engine.Gone
			if t.g.Order == engine.FIFO {
				waits, waiting = a.wait(t.exclusive(name)), engine.Waiting
			}
			other := a.hold(t.exclusive(t.name()))
			foreign := b.hold(t.exclusive(t.name()))
			gone := engine.Claim{Name: t.name(), ID: engine.NewID()}
			absent := engine.Claim{Name: foreign.Name, ID: engine.NewID()}
			want := map[engine.ID]engine.State{
				mine.ID: engine.Held, waits.ID: waiting, other.ID: engine.Held,
				gone.ID: engine.Gone, absent.ID: engine.Gone,
			}
			all := []engine.Claim{gone, waits, mine, absent, other}
			got, err := a.Renew(t.ctx(), t.renewals(all...))
			if err != nil || !maps.Equal(states(got), want) {
				t.Fatalf("Renew of five claims says %v, %v; want %v", got, err, want)
			}
			delete(want, absent.ID)
			got, err = a.Leave(t.ctx(), []engine.Claim{gone, waits, mine, other})
			if err != nil || !maps.Equal(states(got), want) {
				t.Fatalf("Leave of four claims says %v, %v; want %v", got, err, want)
			}
			b.is(foreign, engine.Held, "it was in no batch")
		}},
		{"a part that fails is left out, and the rest is answered", func(t *trial) {
			if t.h.FailPartial == nil {
				t.notExercised("FailPartial")
			}
			a := t.client()
			one, two, three := a.hold(t.exclusive(t.name())), a.hold(t.exclusive(t.name())), a.hold(t.exclusive(t.name()))
			t.h.FailPartial(t.TB, a.Unwrap(), two.Name)
			got, err := a.Renew(t.ctx(), t.renewals(one, two, three))
			if err == nil {
				t.Fatal("part of a Renew failed, and it reports no error")
			}
			want := map[engine.ID]engine.State{one.ID: engine.Held, three.ID: engine.Held}
			if s := states(got); !maps.Equal(s, want) {
				t.Fatalf("the second of three failed, and Renew says %v", got)
			}
			for _, c := range []engine.Claim{one, two, three} {
				a.is(c, engine.Held, "nothing ended it")
			}
		}},
	}}
}

func (t *trial) renewals(cs ...engine.Claim) (rs []engine.Renewal) {
	for _, c := range cs {
		rs = append(rs, engine.Renewal{Name: c.Name, ID: c.ID, Want: t.long()})
	}
	return rs
}

func states(cs []engine.Claim) map[engine.ID]engine.State {
	m := map[engine.ID]engine.State{}
	for _, c := range cs {
		m[c.ID] = c.State
	}
	return m
}
