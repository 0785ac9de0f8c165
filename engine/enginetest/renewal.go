package enginetest

import (
	"time"

	"leasehold/engine"
)

func renewal() promise {
	return promise{"renewal", "no call moves a deadline earlier; Renew grants what it is asked for and says what the claim is", []kase{
		{"Renew answers with permits and limit", func(t *trial) {
			// Whoever adopts a claim compares them with what the handle says.
			a := t.client()
			c := a.hold(t.exclusive(t.name()))
			if got := a.renew(c, t.long()); got.Permits != c.Permits || got.Limit != c.Limit {
				t.Fatalf("Join says %v, Renew of the same claim %v", c, got)
			}
		}},
		{"Renew grants what it is asked for", func(t *trial) {
			a, name := t.client(), t.name()
			c := a.hold(t.brief(t.exclusive(name)))
			t.granted(c, a.renew(c, t.long()), t.long())
			if t.g.Order == engine.FIFO { // where there is no order, Renew is for holders
				b := t.client()
				c = b.wait(t.brief(t.exclusive(name)))
				t.granted(c, b.renew(c, t.long()), t.long())
			}
		}},
		{"a shorter Renew does not shorten a held claim", func(t *trial) {
			a, name := t.client(), t.name()
			c := a.hold(t.brief(t.exclusive(name)))
			long := a.renew(c, t.long())
			short := a.renew(c, t.short())
			if short.TTL < t.short() {
				t.Fatalf("Renew granted %v, less than the %v it was asked for", short.TTL, t.short())
			}
			if t.h.Sleep(2 * t.short()); long.TTL > 4*t.short() {
				a.is(c, engine.Held, "it was renewed for long, then for short")
			}
		}},
		{"a shorter Renew does not shorten a waiting claim", func(t *trial) {
			t.needsFIFO()
			a, b, c, name := t.client(), t.client(), t.client(), t.name()
			first := a.hold(t.exclusive(name))
			second := b.wait(t.brief(t.exclusive(name)))
			third := c.wait(t.exclusive(name))
			long := b.renew(second, t.long())
			b.renew(second, t.short())
			if t.h.Sleep(2 * t.short()); long.TTL > 4*t.short() {
				a.leave(first)
				c.is(third, engine.Waiting, "the claim before it was renewed for long, then for short")
				b.awaits(second)
			}
		}},
		{"a repeated shorter Join does not shorten", func(t *trial) {
			a, name := t.client(), t.name()
			r := t.exclusive(name)
			c := a.hold(r)
			a.join(t.brief(r))
			if t.h.Sleep(2 * t.short()); c.TTL > 4*t.short() {
				a.is(c, engine.Held, "it was joined for long, then for short")
			}
		}},
	}}
}

// granted checks what a Renew that wanted so much made of c. A claim that lives by a session has
// the TTL of its Join, whatever Renew wants.
func (t *trial) granted(c, renewed engine.Claim, want time.Duration) {
	t.Helper()
	if t.g.CrashRelease == engine.CrashSession {
		want = c.TTL
	}
	if renewed.State != c.State || renewed.TTL < want {
		t.Fatalf("Renew granted %v (%v), less than the %v it was asked for", renewed.TTL, renewed.State, want)
	}
}
