package claims

import (
	"errors"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
)

// What no script says: loops, several machines, several answers in one call. The rest is
// in testdata.

func TestTurns(t *testing.T) {
	// turns has callers take turns until a new claim is asked for, and says how
	// many there were.
	turns := func(r *rig, l *Lease, most int) (int, *Lease) {
		for n := 1; n <= most; n++ {
			r.enter(exclusive("x"))
			r.Unlock(r.now, l, true)
			r.gather()
			for _, o := range r.outs {
				if o.Act == Join {
					return n, l
				}
			}
			next := r.take(Deliver).Lease
			if next.Token <= l.Token {
				r.t.Fatalf("token %d after %d", next.Token, l.Token)
			}
			l = next
		}
		return most, l
	}
	t.Run("tokens rise beyond 1,024 handoffs", func(t *testing.T) {
		r := newRig(t, Config{})
		n, l := turns(r, r.hold(exclusive("x"), 5), 2000)
		if n != 1<<engine.HandoffBits {
			t.Errorf("%d handoffs", n)
		}
		if old := r.take(Join).Claim; old.Request().Replaces != l.Claim().ID() {
			t.Error("the next claim does not replace the last")
		}
	})
	t.Run("it is bounded while another process waits", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		if n, _ := turns(r, l, 100); n != HandoffBudget+1 {
			t.Errorf("%d turns, want %d", n, HandoffBudget+1)
		}
	})
	t.Run("the bound ends with the waiting", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		_, l = turns(r, l, 20)
		r.now += ms
		r.after(RaiseAfter)
		r.renewed() // nobody waits any more
		if n, _ := turns(r, l, 100); n != 100 {
			t.Errorf("%d turns although nobody waits", n)
		}
	})
	t.Run("what was said before somebody waited does not unsay it", func(t *testing.T) {
		r := newRig(t, Config{})
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		o := r.take(Renew)
		s := r.now
		r.now += ms
		r.Notified(r.now, engine.Claim{Name: "x", ID: l.Claim().ID(), Ticket: 5, State: engine.Held, Contended: true})
		r.Renewed(r.now, s, []engine.Renewal{{Name: "x", ID: l.Claim().ID(), Want: o.Want}}, []engine.Claim{r.answer(l.Claim(), engine.Held, 5, o.Want)}, nil)
		if n, _ := turns(r, l, 100); n != HandoffBudget+1 {
			t.Errorf("%d turns, want %d", n, HandoffBudget+1)
		}
	})
}

func TestCallsOfManyTurns(t *testing.T) {
	// raised is a lease whose claim was renewed for its full TTL just now.
	raised := func(r *rig) *Lease {
		l := r.hold(exclusive("x"), 5)
		r.after(RaiseAfter)
		r.renewed()
		return l
	}
	t.Run("an engine that is down for long is asked once in a look", func(t *testing.T) {
		r := newRig(t, Config{IdleTimeout: time.Hour})
		l := raised(r)
		r.Unlock(r.now, l, true)
		for end := r.now + 5*ttl; r.now < end; {
			r.now, _ = r.Due()
			r.Tick(r.now)
			if n := r.count(Renew); n != 1 {
				t.Fatalf("%d renewals at %v", n, r.now)
			}
			r.failRenew()
		}
	})
	t.Run("a Leave as well, until the claim must have expired", func(t *testing.T) {
		r := newRig(t, Config{})
		l := raised(r)
		r.Unlock(r.now, l, true)
		begin, calls := r.now, 0
		for r.count(Leave) > 0 {
			r.left(engine.Unknown)
			calls++
			if next, ok := r.Due(); ok {
				r.after(next - r.now)
			}
		}
		r.wantEmpty()
		if took := r.now - begin; took < ttl || took > ttl+2*time.Second {
			t.Errorf("given up after %v", took)
		}
		if calls < 28 || calls > 40 {
			t.Errorf("%d calls in %v", calls, ttl)
		}
	})
	t.Run("a look has a bound", func(t *testing.T) {
		r := newRig(t, Config{})
		for i := range MaxTick + 10 {
			w := exclusive(string(rune('a' + i)))
			r.enter(w)
			r.joined(engine.Waiting, uint64(i+1))
		}
		r.now += FirstTTL / 3
		r.Tick(r.now)
		if n := r.count(Renew); n != MaxTick {
			t.Errorf("%d renewals in one look", n)
		}
	})
	t.Run("answers are found in any order", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		r.enter(exclusive("y"))
		x, y := r.joined(engine.Waiting, 1), r.joined(engine.Waiting, 2)
		r.after(FirstTTL / 3)
		asked := []engine.Renewal{{Name: "x", ID: x.ID(), Want: ttl}, {Name: "y", ID: y.ID(), Want: ttl}}
		got := []engine.Claim{r.answer(y, engine.Held, 2, ttl), r.answer(x, engine.Held, 1, ttl)}
		r.Renewed(r.now, r.now, asked, got, nil)
		if n := r.count(Deliver); n != 2 {
			t.Errorf("%d leases", n)
		}
	})
}

// See testdata/gone_again.txt.
func TestGoneAgainAndAgain(t *testing.T) {
	for name, end := range map[string]func(r *rig, cl *Claim){
		"each Join says so": func(r *rig, cl *Claim) {
			r.Joined(r.now, cl, r.now, r.answer(cl, engine.Gone, 0, 0), nil, false)
		},
		"each is told gone while it waits": func(r *rig, cl *Claim) {
			r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
			r.notified(cl, engine.Gone)
		},
		"each holds, too briefly to prove it": func(r *rig, cl *Claim) {
			r.Joined(r.now, cl, r.now-ms, r.answer(cl, engine.Held, 5, ms), nil, false)
			r.after(0)
			r.proven(r.take(Renew), r.now, r.answer(cl, engine.Gone, 0, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Config{})
			c := r.enter(exclusive("x"))
			joins := 0
			for until := r.now + 10*time.Second; r.now < until; r.after(ms) {
				for r.count(Join) > 0 {
					o := r.take(Join)
					if joins++; joins > 100 {
						t.Fatalf("%d Joins in %v", joins, r.now-time.Hour)
					}
					if o.Caller != c {
						t.Fatal("it is not asked for in the caller's name")
					}
					end(r, o.Claim)
				}
			}
			if joins < 10 || joins > 16 {
				t.Errorf("%d Joins in 10 s, want one a second in the end", joins)
			}
			if !r.GiveUp(r.now, c) || !errors.Is(c.Err, errGone) {
				t.Errorf("the caller is told %v", c.Err)
			}
			r.after(time.Minute)
			if n, _ := r.Len(); n != 0 {
				t.Errorf("%d claims are left\n%v", n, r.Machine)
			}
		})
	}
}

func TestHoldsOfAnother(t *testing.T) {
	t.Run("who holds something of another client is an actor, and re-enters nothing", func(t *testing.T) {
		other := newRig(t, Config{})
		outer := other.hold(exclusive("x"), 4)
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		r.enter(exclusive("x"), outer)
		r.none(Fail)
		if _, waits := r.Place(r.take(Join).Caller); waits {
			t.Error("it waits in the queue before the engine said so")
		}
		want := []engine.Hold{{Name: "x", Ticket: 4, Elsewhere: true}}
		if holds := outer.Holding().Holds(r.Machine, 8); !slices.Equal(holds, want) {
			t.Errorf("it holds %v", holds)
		}
		other.Unlock(other.now, outer, true)
		if holds := outer.Holding().Holds(r.Machine, 8); len(holds) > 0 {
			t.Errorf("it holds %v still", holds)
		}
		r.enter(exclusive("x"), outer)
		r.none(Join)
	})
	t.Run("who says that it holds something is an actor", func(t *testing.T) {
		r := newRig(t, Config{})
		r.hold(exclusive("x"), 5)
		c := &Caller{Want: exclusive("x"), Lease: &Lease{}, Holds: []engine.Hold{{Name: "y", Ticket: 1}}}
		if r.EnterBehind(c) {
			t.Error("it queues where nobody sees it")
		}
		r.Enter(r.now, c)
		r.joined(engine.Waiting, 6)
		if ticket, waits := r.Place(c); !waits || ticket != 6 {
			t.Errorf("ticket %d, waits: %v", ticket, waits)
		}
	})
	t.Run("a context names a re-entered claim once, and what is outside of it", func(t *testing.T) {
		r, other := newRig(t, Config{}), newRig(t, Config{})
		a := r.hold(exclusive("a"), 4)
		inner := r.hold(exclusive("b"), 5, a)
		again := exclusive("b")
		again.Reentrant = true
		for range 3 {
			r.enter(again, inner)
			inner = r.take(Deliver).Lease
		}
		for _, m := range []*Machine{r.Machine, other.Machine} {
			elsewhere := m != r.Machine
			want := []engine.Hold{{Name: "b", Ticket: 5, Elsewhere: elsewhere}, {Name: "a", Ticket: 4, Elsewhere: elsewhere}}
			if h := inner.Holding().Holds(m, 2); !slices.Equal(h, want) {
				t.Errorf("%+v", h)
			}
		}
	})
}

func TestKept(t *testing.T) {
	t.Run("what may be kept", func(t *testing.T) {
		for name, c := range map[string]struct {
			keep bool
			then func(*rig, *Lease)
			want Phase
		}{
			"nobody waits":            {true, func(*rig, *Lease) {}, Idle},
			"the caller says not":     {false, func(*rig, *Lease) {}, Releasing},
			"another process waits":   {true, func(r *rig, l *Lease) { r.notified(l.Claim(), engine.Held, contended) }, Releasing},
			"it has no handoff left":  {true, func(r *rig, l *Lease) { l.Claim().handoffs = 1<<engine.HandoffBits - 1 }, Releasing},
			"it has one handoff left": {true, func(r *rig, l *Lease) { l.Claim().handoffs = 1<<engine.HandoffBits - 2 }, Idle},
			"others wait for another": {true, func(r *rig, l *Lease) { l.Claim().callers.current = nil }, Releasing},
		} {
			r := newRig(t, Config{IdleTimeout: time.Minute})
			l := r.hold(exclusive("x"), 5)
			c.then(r, l)
			r.Unlock(r.now, l, c.keep)
			if got := l.Claim().Phase(); got != c.want {
				t.Errorf("%s: %v, want %v", name, got, c.want)
			}
		}
	})
}
