package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"leasehold/engine"
)

func inspection() promise {
	return promise{"inspection", "Queue and Queues show who holds and who waits, and no secret", []kase{
		{"a queue that nobody is in is empty", func(t *trial) {
			a, name := t.client(), t.name()
			l := a.line(name)
			if l.Name != name || l.Limit != 0 || len(l.Claims) != 0 {
				t.Fatalf("the queue of a name nobody claims is %+v", l)
			}
		}},
		{"the queue shows the claims", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			r := t.exclusive(name)
			r.Owner = engine.Owner{
				Host: "h\u00f4te", PID: 4711, Label: "a \"label\"\n<&>", Since: time.Unix(1_700_000_000, 0),
				Holds: []engine.Hold{{Name: "other", Ticket: engine.MaxTicket}},
			}
			first := a.hold(r)
			want := []engine.Claim{first}
			if t.g.SeesWaiters {
				want = append(want, b.wait(t.exclusive(name)))
			}
			l := b.line(name)
			if l.Name != name || l.Limit != engine.Max || len(l.Claims) != len(want) {
				t.Fatalf("%d claims are in the queue, Queue shows %+v", len(want), l)
			}
			for i, c := range l.Claims {
				w := want[i]
				if c.Name != name || c.Ticket != w.Ticket || c.Permits != engine.Max || c.Limit != engine.Max || c.State != w.State {
					t.Fatalf("place %d is %+v, joined as %+v", i, c, w)
				}
				most := w.TTL
				if t.g.CrashRelease == engine.CrashSession {
					most *= 2 // of its session, of which half or more may be trusted
				}
				if c.TTL <= 0 || c.TTL > most+time.Second {
					t.Fatalf("place %d has %v left, it was granted %v", i, c.TTL, w.TTL)
				}
			}
			o := l.Claims[0].Owner
			if t.g.SeesWaiters && (o.Host != r.Owner.Host || o.PID != r.Owner.PID || o.Label != r.Owner.Label ||
				!o.Since.Equal(r.Owner.Since) || len(o.Holds) != 1 || o.Holds[0] != r.Owner.Holds[0]) {
				t.Fatalf("the owner is shown as %+v, it said %+v", o, r.Owner)
			}
		}},
		{"no secret is shown", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			secrets := []engine.Claim{a.hold(t.exclusive(name)), b.join(t.exclusive(name))}
			l := b.line(name)
			shown := fmt.Sprintf("%#v", l) + t.json(l)
			for l, err := range b.Queues(t.ctx(), name) {
				if err != nil {
					t.Fatalf("Queues: %v", err)
				}
				shown += fmt.Sprintf("%#v", l) + t.json(l)
			}
			for _, c := range secrets {
				for _, secret := range []string{c.ID.Secret(), string(c.ID[:]), t.json(c.ID), strings.ToUpper(c.ID.Secret())} {
					if strings.Contains(shown, secret) {
						t.Fatal("a claim's secret ID is shown")
					}
				}
			}
			for _, c := range l.Claims {
				if c.ID != (engine.ID{}) {
					t.Fatal("Queue leaves a claim's ID in")
				}
			}
		}},
		{"inspection changes nothing", func(t *trial) {
			a, b, name := t.client(), t.client(), t.name()
			first := a.hold(t.brief(t.exclusive(name)))
			second := b.wait(t.exclusive(name))
			ask := t.lapse(a, first)
			for range 3 {
				b.line(name)
			}
			b.awaits(second)
			_ = ask
		}},
		{"an expired claim is not shown, nor its owner with the next claim", func(t *trial) {
			t.needsWaiters()
			t.needsFIFO()
			a, b, name := t.client(), t.client(), t.name()
			one, two := t.brief(t.exclusive(name)), t.exclusive(name)
			one.Owner.Label, two.Owner.Label = "first", "second"
			first, second := a.hold(one), b.wait(two)
			t.lapse(a, first)
			l := b.line(name)
			if len(l.Claims) != 1 || l.Claims[0].Ticket != second.Ticket || l.Claims[0].Owner.Label != "second" {
				t.Fatalf("the first of two claims has expired, and the queue is %+v", l.Claims)
			}
		}},
		{"Queues shows each name, and no other", func(t *trial) {
			a, prefix := t.client(), t.name()
			want := map[string]bool{prefix: true, prefix + "/a": true, prefix + "/b": true, prefix + "*": true}
			for name := range want {
				a.hold(t.exclusive(name))
			}
			a.hold(t.exclusive("x" + prefix)) // has it, but not as its prefix
			left := a.hold(t.exclusive(prefix + "/left"))
			a.leave(left)
			t.lines(a, prefix, want)
			delete(want, prefix)
			delete(want, prefix+"*")
			t.lines(a, prefix+"/", want)
			t.lines(a, prefix+"*", map[string]bool{prefix + "*": true}) // a prefix is no pattern
			t.lines(a, prefix+"?", nil)
		}},
		{"Queues can be stopped half-way", func(t *trial) {
			a, prefix := t.client(), t.name()
			for i := range 3 {
				a.hold(t.exclusive(fmt.Sprint(prefix, i)))
			}
			for _, err := range a.Queues(t.ctx(), prefix) {
				if err != nil {
					t.Fatalf("Queues: %v", err)
				}
				break
			}
			t.lines(a, prefix, map[string]bool{prefix + "0": true, prefix + "1": true, prefix + "2": true})
		}},
	}}
}

// queues checks that Queues of a prefix shows each of those names once.
func (t *trial) lines(a *client, prefix string, want map[string]bool) {
	t.Helper()
	seen := map[string]bool{}
	for l, err := range a.Queues(t.ctx(), prefix) {
		switch {
		case err != nil:
			t.Fatalf("Queues: %v", err)
		case !want[l.Name]:
			t.Fatalf("Queues with the prefix %q shows %q", prefix, l.Name)
		case seen[l.Name]:
			t.Fatalf("Queues shows %q twice", l.Name)
		case len(l.Claims) != 1 || l.Claims[0].State != engine.Held:
			t.Fatalf("Queues shows %+v, want one holder", l)
		}
		seen[l.Name] = true
	}
	if len(seen) != len(want) {
		t.Fatalf("Queues with the prefix %q shows %d of %d names", prefix, len(seen), len(want))
	}
}

func (t *trial) json(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("JSON: %v", err)
	}
	return string(b)
}
