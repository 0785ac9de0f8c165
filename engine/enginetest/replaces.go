package enginetest

import (
	"errors"

	"leasehold/engine"
)

func replaces() promise {
	return promise{"replaces", "Join replaces a claim by a new one in one step; the new claim keeps the turn exactly if no other claim waits", []kase{
		{"the turn is kept while nobody waits", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			old := a.hold(t.exclusive(name))
			c := a.hold(t.replacing(old))
			a.is(old, engine.Gone, "it was replaced")
			a.is(c, engine.Held, "nothing ended it")
			b.taken(name, "the second claim is held")
			a.leave(c)
			b.free(name, "everybody left")
		}},
		{"the turn is lost when somebody waits", func(t *trial) {
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			old := a.hold(t.exclusive(name))
			second := b.wait(t.exclusive(name))
			c := a.wait(t.replacing(old))
			second = b.awaits(second)
			a.is(old, engine.Gone, "it was replaced")
			a.is(c, engine.Waiting, "it stands behind who waited")
			b.leave(second)
			a.awaits(c)
		}},
		{"a waiting claim that replaces another goes to the end", func(t *trial) {
			t.needsFIFO()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			old := b.wait(t.exclusive(name))
			third := c.wait(t.exclusive(name))
			fresh := b.wait(t.replacing(old))
			b.is(old, engine.Gone, "it was replaced")
			a.leave(first)
			c.awaits(third)
			b.is(fresh, engine.Waiting, "it joined after the claim that holds")
		}},
		{"a replaced claim that is gone does not stop the Join", func(t *trial) {
			a, name := t.client(), t.name()
			a.hold(t.replacing(engine.Claim{Name: name, ID: engine.NewID()}))
		}},
		{"a refused Join leaves the claim it would replace", func(t *trial) {
			t.needsFIFO()
			t.needsMode(engine.Permits)
			a, b, name := t.client(), t.client(), t.name()
			mine, other := a.hold(t.want(name, 1, 3)), b.hold(t.want(name, 1, 3))
			r := t.want(name, 1, 4)
			r.Replaces = mine.ID
			if c, err := a.Join(t.ctx(), r); !errors.Is(err, engine.ErrRefused) {
				t.end(NotExercised, "a disagreeing limit was not refused: %v, %v", c.State, err)
			}
			a.is(mine, engine.Held, "what would have replaced it was refused")
			b.is(other, engine.Held, "nothing ended it")
		}},
	}}
}

func (t *trial) replacing(old engine.Claim) engine.Request {
	r := t.exclusive(old.Name)
	r.Replaces = old.ID
	return r
}
