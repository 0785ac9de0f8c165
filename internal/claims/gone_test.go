package claims

import (
	"context"
	"errors"
	"testing"
	"time"

	"leasehold/engine"
)

// Something writes what the engine keeps of a name, so that each claim is gone as
// soon as it is made. Asking as fast as the engine answers would be thousands of
// requests a second, from every client that wants the name.
func TestClaimsThatAreGoneAgainAndAgainAreNotAskedForAtFullSpeed(t *testing.T) {
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
	t.Run("one that is gone once is asked for at once, and so is the next after one that held", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		for range 3 {
			cl := r.take(Join).Claim
			r.Joined(r.now, cl, r.now, r.answer(cl, engine.Gone, 0, 0), nil, false)
			cl = r.take(Join).Claim
			r.Joined(r.now, cl, r.now, r.answer(cl, engine.Held, 5, FirstTTL), nil, false)
			l := r.take(Deliver).Lease
			r.Unlock(r.now, l, false)
			r.Left(r.now, []engine.Claim{{Name: "x", ID: cl.ID()}}, []engine.Claim{r.answer(cl, engine.Held, 5, 0)}, nil)
			r.enter(exclusive("x"))
		}
	})
	t.Run("one that waits and is proven counts as well", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		for range 5 {
			cl := r.take(Join).Claim
			r.Joined(r.now, cl, r.now, r.answer(cl, engine.Waiting, 5, FirstTTL), nil, false)
			r.after(FirstTTL / 3)
			r.proven(r.take(Renew), r.now, r.answer(cl, engine.Waiting, 5, FirstTTL))
			r.notified(cl, engine.Gone)
		}
	})
	t.Run("a lease in between begins the count anew", func(t *testing.T) {
		r := newRig(t, Config{})
		r.enter(exclusive("x"))
		for range 3 {
			cl := r.take(Join).Claim
			r.Joined(r.now, cl, r.now, r.answer(cl, engine.Gone, 0, 0), nil, false)
			cl = r.joined(engine.Held, 5)
			r.take(Deliver)
			r.enter(exclusive("x")) // behind the lease: the queue stays
			r.notified(cl, engine.Gone)
			r.take(Lose)
		}
	})
	t.Run("the last who waits for one that was not asked for gives up: nothing is left, and nothing to leave", func(t *testing.T) {
		r := newRig(t, Config{})
		c := r.enter(exclusive("x"))
		for range 2 {
			r.joined(engine.Gone, 0)
		}
		r.none(Join)
		r.GiveUp(r.now, c)
		if n, _ := r.Len(); n != 0 {
			t.Errorf("%d claims are left\n%v", n, r.Machine)
		}
		r.after(time.Minute)
		r.none(Leave)
	})
	t.Run("of two callers who wait for the next one, one gives up", func(t *testing.T) {
		r := newRig(t, Config{})
		first, second := r.enter(exclusive("x")), r.enter(exclusive("x"))
		for range 2 {
			cl := r.take(Join).Claim
			r.Joined(r.now, cl, r.now, r.answer(cl, engine.Gone, 0, 0), nil, false)
		}
		r.none(Join)
		r.GiveUp(r.now, first)
		r.after(0)
		r.none(Join)
		r.after(time.Second)
		if o := r.take(Join); o.Caller != second {
			t.Error("it is asked for in the name of one who has gone")
		}
	})
}

// A slow engine is asked for more time, never for more than the lease's.
func TestWaitTTLDoublesToTheTTLAndNoFurther(t *testing.T) {
	r := newRig(t, Config{})
	r.enter(exclusive("x"))
	want := FirstTTL
	for range 8 {
		cl := r.take(Join).Claim
		if got := cl.Request().WaitTTL; got != want {
			t.Fatalf("asked for %v, want %v", got, want)
		}
		r.now += want
		r.Joined(r.now, cl, r.now-want, engine.Claim{}, context.DeadlineExceeded, false)
		r.after(time.Second)
		want = min(2*want, ttl)
	}
}
