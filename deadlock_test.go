package leasehold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
)

// anHour bounds waiting that is to end by a verdict: without one a test is to fail.
var anHour = LockOptions{Wait: time.Hour}

// cross has a hold "a" and b hold "b", and each wait for the other's: who began to
// wait later is the youngest.
func cross(t *testing.T, a, b *Client) (la, lb *Lease, first, second chan outcome) {
	t.Helper()
	la, lb = mustLock(t, a, "a"), mustLock(t, b, "b")
	first = async(func() (*Lease, error) { return a.With(anHour).Lock(la.Context(), "b") })
	synctest.Wait()
	time.Sleep(100 * time.Millisecond)
	second = async(func() (*Lease, error) { return b.With(anHour).Lock(lb.Context(), "a") })
	synctest.Wait()
	return la, lb, first, second
}

func TestACycleOfTwoHasOneVictim(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		a, fa := w.client(&Options{Label: "A", Observer: h.observe})
		b, _ := w.client(&Options{Label: "B", Observer: h.observe})
		start := w.clock()
		la, lb, first, second := cross(t, a, b)
		o := <-second
		if after := w.clock() - start - 100*time.Millisecond; after != deadlockAfter*5/4 {
			t.Errorf("told after %v", after)
		}
		var e *DeadlockError
		if !errors.Is(o.err, ErrDeadlock) || !errors.As(o.err, &e) || errors.Is(o.err, ErrHeld) {
			t.Fatal(o.err)
		}
		if len(e.Cycle) != 2 {
			t.Fatalf("%+v", e.Cycle)
		}
		for i, want := range []struct {
			name, label string
			hold        engine.Hold
			behind      uint64
		}{
			{"a", "B", engine.Hold{Name: "b", Ticket: lb.Token().Ticket()}, la.Token().Ticket()},
			{"b", "A", engine.Hold{Name: "a", Ticket: la.Token().Ticket()}, lb.Token().Ticket()},
		} {
			s := e.Cycle[i]
			if s.Claim.Name != want.name || s.Claim.Owner.Label != want.label || !slices.Equal(s.Claim.Owner.Holds, []engine.Hold{want.hold}) ||
				s.Behind != want.behind || s.Claim.Owner.Since.IsZero() || s.Claim.ID != (engine.ID{}) {
				t.Errorf("member %d: %+v", i, s)
			}
		}
		for _, want := range []string{`lock "a"`, `waits for "a"`, `(A)`, `waits for "b"`, "this caller", "unlock what you hold"} {
			if !strings.Contains(o.err.Error(), want) {
				t.Errorf("%q is not in: %v", want, o.err)
			}
		}
		if d := h.of(EventDeadlock); len(d) != 1 || d[0].Name != "a" || !errors.Is(d[0].Err, ErrDeadlock) || d[0].Context == nil || holding(d[0].Context).Lease != &lb.handle {
			t.Errorf("heard %+v", d)
		}
		if d := h.of(EventGaveUp); len(d) != 1 || !errors.Is(d[0].Err, ErrDeadlock) {
			t.Errorf("heard %+v", d)
		}

		// Nothing is taken from anybody, and the other goes on waiting.
		synctest.Wait()
		w.wantQueue("a", []string{"A"}, nil)
		w.wantQueue("b", []string{"B"}, []string{"A"})
		if !la.Valid() || !lb.Valid() || len(first) > 0 {
			t.Error("the deadlock cost somebody a lease")
		}
		mustUnlock(t, lb)
		synctest.Wait()
		mustUnlock(t, (<-first).l)
		mustUnlock(t, la)
		if n := fa.looks(); n == 0 {
			t.Error("void: the other one did not look")
		}
	})
}

// Between the two passes one of the two gives up: there is no cycle any more, and
// nobody is its victim.
func TestACycleThatOpensByItselfHasNoVictim(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		la, lb := mustLock(t, a, "a"), mustLock(t, b, "b")
		ctx, cancel := context.WithTimeout(la.Context(), deadlockAfter*6/5)
		defer cancel()
		first := async(func() (*Lease, error) { return a.Lock(ctx, "b") })
		time.Sleep(deadlockAfter / 10) // the second is the youngest
		second := async(func() (*Lease, error) { return b.Lock(lb.Context(), "a") })
		if o := <-first; !errors.Is(o.err, ErrHeld) {
			t.Error(o.err)
		}
		time.Sleep(10 * deadlockAfter)
		synctest.Wait()
		if len(second) > 0 {
			t.Fatalf("answered: %v", (<-second).err)
		}
		mustUnlock(t, la)
		mustUnlock(t, (<-second).l)
		mustUnlock(t, lb)
	})
}

func TestACycleWithinOneClientIsFound(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		la, lb, first, second := cross(t, c, c)
		if o := <-second; !errors.Is(o.err, ErrDeadlock) {
			t.Fatal(o.err)
		}
		mustUnlock(t, lb)
		mustUnlock(t, (<-first).l)
		mustUnlock(t, la)
	})
}

// Nobody pays who does not wait for long while holding something.
func TestLookingCostsNothingBeforeItIsTime(t *testing.T) {
	bubble(t, func(w *world) {
		a, fa := w.client(nil)
		b, fb := w.client(nil)
		la := mustLock(t, a, "a")
		lb := mustLock(t, b, "b")

		// Who holds nothing waits for long, and who holds something not so long.
		long := async(func() (*Lease, error) { return b.Lock(context.Background(), "a") })
		brief := async(func() (*Lease, error) { return a.Lock(la.Context(), "b") })
		time.Sleep(deadlockAfter - 1)
		mustUnlock(t, lb)
		inner := (<-brief).l
		time.Sleep(time.Minute)
		mustUnlock(t, inner)
		mustUnlock(t, la)
		mustUnlock(t, (<-long).l)
		if fa.looks() != 0 || fb.looks() != 0 {
			t.Errorf("%d and %d queues were read", fa.looks(), fb.looks())
		}

		// And then: its own queue and that of what it holds, every two periods.
		la, lb = mustLock(t, a, "a"), mustLock(t, b, "b")
		late := async(func() (*Lease, error) { return a.Lock(la.Context(), "b") })
		time.Sleep(deadlockAfter * 6)
		synctest.Wait()
		if n := fa.looks(); n != 6 {
			t.Errorf("%d queues were read in three looks at two", n)
		}
		mustUnlock(t, lb)
		mustUnlock(t, (<-late).l)
		mustUnlock(t, la)
	})
}

// A nanosecond must not make a caller read without pause for as long as it waits.
func TestLookingHasAFloor(t *testing.T) {
	bubble(t, func(w *world) {
		a, fa := w.client(&Options{DeadlockAfter: 1})
		b, _ := w.client(nil)
		la, lb := mustLock(t, a, "a"), mustLock(t, b, "b")
		start, read := w.clock(), []time.Duration(nil)
		fa.set(func(f *faulty) {
			f.line = func(ctx context.Context, real func() (engine.Queue, error)) (engine.Queue, error) {
				if read = append(read, w.clock()-start); len(read) > 2 {
					<-ctx.Done() // without the floor there would be no end of it
					return engine.Queue{}, ctx.Err()
				}
				return real()
			}
		})
		waits := async(func() (*Lease, error) { return a.Lock(la.Context(), "b") })
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if want := []time.Duration{10 * time.Millisecond, 10 * time.Millisecond}; !slices.Equal(read, want) {
			t.Errorf("queues were read after %v, not %v", read, want)
		}
		mustUnlock(t, lb)
		mustUnlock(t, (<-waits).l)
		mustUnlock(t, la)
	})
}

func TestWhereNobodyLooksNobodyIsAVictim(t *testing.T) {
	for name, o := range map[string]Options{"off": {DeadlockAfter: -1}, "waiters are not shown": {}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				lines := 0
				client := func() *Client {
					eng := promising{&faulty{Engine: w.store.Engine()}, func(g *engine.Guarantees) { g.SeesWaiters = o.DeadlockAfter < 0 }}
					eng.Engine.(*faulty).line = func(context.Context, func() (engine.Queue, error)) (engine.Queue, error) {
						lines++
						return engine.Queue{}, errCut
					}
					c, err := New(w.timed(eng), &Options{DeadlockAfter: o.DeadlockAfter})
					if err != nil {
						t.Fatal(err)
					}
					w.t.Cleanup(func() { c.Close() })
					return c
				}
				la, lb, first, second := cross(w.t, client(), client())
				time.Sleep(time.Minute)
				synctest.Wait()
				if len(first)+len(second) > 0 || lines > 0 {
					t.Errorf("%d queues were read", lines)
				}
				go la.Unlock()
				mustUnlock(t, lb)
				for _, o := range []outcome{<-first, <-second} {
					if o.l != nil {
						mustUnlock(t, o.l)
					}
				}
			})
		})
	}
	bubble(t, func(w *world) {
		eng := promising{w.store.Engine(), func(g *engine.Guarantees) { g.SeesWaiters = false }}
		if c, err := New(eng, &Options{Require: engine.Guarantees{SeesWaiters: true}}); !errors.Is(err, ErrRequire) {
			t.Error(err)
			c.Close()
		}
		eng.Close()
	})
}

// A cycle through two engines is seen by who has clients of both.
func TestACycleThroughTwoEnginesIsFound(t *testing.T) {
	bubble(t, func(w *world) {
		other := memlock.NewStore(&memlock.Options{Clock: w.clock})
		process := func(label string) (one, two *Client) {
			one, _ = w.client(&Options{Label: label})
			two, err := New(w.timed(other.Engine()), &Options{Label: label})
			if err != nil {
				t.Fatal(err)
			}
			w.t.Cleanup(func() { two.Close() })
			return one, two
		}
		a1, a2 := process("A")
		b1, b2 := process("B")
		la, lb := mustLock(t, a1, "a"), mustLock(t, b2, "b")
		first := async(func() (*Lease, error) { return a2.With(anHour).Lock(la.Context(), "b") })
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		second := async(func() (*Lease, error) { return b1.With(anHour).Lock(lb.Context(), "a") })
		o := <-second
		var e *DeadlockError
		if !errors.As(o.err, &e) || len(e.Cycle) != 2 || !e.Cycle[0].Claim.Owner.Holds[0].Elsewhere {
			t.Fatal(o.err)
		}
		mustUnlock(t, lb)
		mustUnlock(t, (<-first).l)
		mustUnlock(t, la)
	})
}

// The youngest of three has one engine in its context, and sees no cycle: one of
// the two who do gives up.
func TestTheVictimOfACycleThroughTwoEnginesSeesIt(t *testing.T) {
	bubble(t, func(w *world) {
		other := memlock.NewStore(&memlock.Options{Clock: w.clock})
		process := func(label string) (one, two *Client) {
			one, _ = w.client(&Options{Label: label})
			two, err := New(w.timed(other.Engine()), &Options{Label: label})
			if err != nil {
				t.Fatal(err)
			}
			w.t.Cleanup(func() { two.Close() })
			return one, two
		}
		a1, a2 := process("A")
		b1, b2 := process("B")
		c1, _ := w.client(&Options{Label: "C"})
		la, lb, lc := mustLock(t, a1, "a"), mustLock(t, b2, "b"), mustLock(t, c1, "c")
		wait := func(c *Client, l *Lease, name string) chan outcome {
			o := async(func() (*Lease, error) { return c.With(LockOptions{Wait: time.Minute}).Lock(l.Context(), name) })
			synctest.Wait()
			time.Sleep(100 * time.Millisecond)
			return o
		}
		first, second, third := wait(a2, la, "b"), wait(b1, lb, "c"), wait(c1, lc, "a")
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if len(second) == 0 {
			t.Fatalf("nobody, or the wrong one, gave up: %d %d", len(first), len(third))
		}
		if o := <-second; !errors.Is(o.err, ErrDeadlock) || len(first)+len(third) > 0 {
			t.Error(o.err)
		}
		mustUnlock(t, lb)
		mustUnlock(t, (<-first).l)
		mustUnlock(t, la)
		mustUnlock(t, (<-third).l)
		mustUnlock(t, lc)
	})
}

// What an engine holds that shows nobody waiting keeps nobody in a cycle that could be
// seen: that it does not answer is no reason not to see others.
func TestAnEngineThatShowsNoWaitersIsNotRead(t *testing.T) {
	bubble(t, func(w *world) {
		blind := &faulty{Engine: memlock.NewStore(&memlock.Options{Clock: w.clock}).Engine()}
		blind.line = func(context.Context, func() (engine.Queue, error)) (engine.Queue, error) {
			return engine.Queue{}, errCut
		}
		outer, err := New(w.timed(promising{blind, func(g *engine.Guarantees) { g.SeesWaiters = false }}), &Options{})
		if err != nil {
			t.Fatal(err)
		}
		w.t.Cleanup(func() { outer.Close() })
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		o := mustLock(t, outer, "o")
		la, err := a.Lock(o.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		lb := mustLock(t, b, "b")
		first := async(func() (*Lease, error) { return b.With(anHour).Lock(lb.Context(), "a") })
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		if o := <-async(func() (*Lease, error) { return a.With(LockOptions{Wait: time.Minute}).Lock(la.Context(), "b") }); !errors.Is(o.err, ErrDeadlock) {
			t.Errorf("%v, and %d queues of an engine were read that shows no waiters", o.err, blind.looks())
		}
		mustUnlock(t, la)
		mustUnlock(t, (<-first).l)
		mustUnlock(t, lb)
		mustUnlock(t, o)
	})
}

// A caller that holds something of another client does not queue where nobody sees
// it.
func TestAHolderOfAnotherClientQueuesForItself(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{Label: "A"})
		b, _ := w.client(&Options{Label: "B"})
		la, lb := mustLock(t, a, "a"), mustLock(t, b, "b")
		got := async(func() (*Lease, error) { return b.With(anHour).Lock(la.Context(), "b") })
		synctest.Wait()
		w.wantQueue("b", []string{"B"}, []string{"B"})
		mustUnlock(t, lb)
		mustUnlock(t, (<-got).l)
		mustUnlock(t, la)
	})
}

// What a caller holds in another process is what it says.
func TestHoldsOfAnotherProcessCount(t *testing.T) {
	bubble(t, func(w *world) {
		outer1, _ := w.client(nil)
		outer2, _ := w.client(nil)
		inner1, _ := w.client(nil)
		inner2, _ := w.client(nil)
		la, lb := mustLock(t, outer1, "a"), mustLock(t, outer2, "b")
		under := func(l *Lease) context.Context {
			return door.WithHolds(context.Background(), []engine.Hold{{Name: l.Name(), Ticket: l.Token().Ticket()}})
		}
		first := async(func() (*Lease, error) { return inner1.With(anHour).Lock(under(la), "b") })
		time.Sleep(100 * time.Millisecond)
		_, err := inner2.With(anHour).Lock(under(lb), "a")
		if !errors.Is(err, ErrDeadlock) {
			t.Fatal(err)
		}
		mustUnlock(t, lb)
		mustUnlock(t, (<-first).l)
		mustUnlock(t, la)

		// It waits for what it holds itself, which the core cannot know.
		l := mustLock(t, outer1, "x")
		if _, err := inner1.With(anHour).Lock(under(l), "x"); !errors.Is(err, ErrDeadlock) {
			t.Error(err)
		}
		mustUnlock(t, l)
	})
}

func TestALockAllThatIsTheVictimHoldsNothing(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{Label: "A"})
		b, _ := w.client(&Options{Label: "B"})
		l := mustLock(t, a, "z")
		m := mustLock(t, a, "m")
		all := make(chan error, 1)
		go func() {
			_, err := b.LockAll(context.Background(), "a", "m", "z") // has "a", and waits
			all <- err
		}()
		synctest.Wait()
		got := async(func() (*Lease, error) { return a.With(anHour).Lock(l.Context(), "a") })
		synctest.Wait()
		mustUnlock(t, m) // and closes the cycle when it asks for "z"
		if err := <-all; !errors.Is(err, ErrDeadlock) {
			t.Fatal(err)
		}
		mustUnlock(t, (<-got).l) // what it had it gave up by itself
		mustUnlock(t, l)
		synctest.Wait()
		w.wantQueue("m", nil, nil)
	})
}

// Many who hold something wait for one name, and nobody waits for what they hold.
// Each reads its own queue and that of what it holds, not what all behind it hold.
func TestManyWhoHoldBehindOneNameReadLittle(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		const n = 100
		top := mustLock(t, c, "top")
		var all []chan outcome
		for i := range n {
			all = append(all, async(func() (*Lease, error) {
				own, err := c.Lock(context.Background(), fmt.Sprint("own", i))
				if err != nil {
					return nil, err
				}
				l, err := c.Lock(own.Context(), "top")
				if err != nil {
					return nil, err
				}
				return own, errors.Join(l.Unlock(), own.Unlock())
			}))
		}
		synctest.Wait()
		time.Sleep(deadlockAfter * 2)
		synctest.Wait()
		if looks := f.looks(); looks != 2*n {
			t.Errorf("%d queues were read in %d looks at two", looks, n)
		}
		mustUnlock(t, top)
		for _, o := range all {
			if err := (<-o).err; err != nil {
				t.Error(err)
			}
		}
	})
}

// A lease that was lost, by MaxHold here, runs out by itself: who waits for it does not
// wait for a caller that did not notice.
func TestALostLeaseIsNoPartOfACycle(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		la, err := a.With(LockOptions{MaxHold: deadlockAfter / 2}).Lock(context.Background(), "a")
		if err != nil {
			t.Fatal(err)
		}
		lb := mustLock(t, b, "b")
		unaware := async(func() (*Lease, error) { return a.Lock(context.WithoutCancel(la.Context()), "b") })
		synctest.Wait()
		time.Sleep(deadlockAfter / 10)
		o := <-async(func() (*Lease, error) { return b.With(anHour).Lock(lb.Context(), "a") })
		if o.err != nil {
			t.Fatal(o.err)
		}
		mustUnlock(t, o.l)
		mustUnlock(t, lb)
		mustUnlock(t, (<-unaware).l)
		if err := la.Unlock(); !errors.Is(err, ErrMaxHold) {
			t.Error(err)
		}
	})
}

// What a waiting claim says is held may be unlocked by another goroutine, under a
// context that does not end with the lease, and handed off by its client: nobody is to
// take the waiter for its holder then.
func TestAHoldThatEndedWhileItsCallerWaitsIsNotCounted(t *testing.T) {
	t.Run("of the same client", func(t *testing.T) { endedWhileItsCallerWaits(t, false) })
	t.Run("of another client", func(t *testing.T) { endedWhileItsCallerWaits(t, true) })
}

func endedWhileItsCallerWaits(t *testing.T, another bool) {
	bubble(t, func(w *world) {
		a, _ := w.client(&Options{Label: "A"})
		waits := a
		if another {
			waits, _ = w.client(&Options{Label: "A too"})
		}
		b, _ := w.client(&Options{Label: "B"})
		la, lb := mustLock(t, a, "a"), mustLock(t, b, "b")
		inner := async(func() (*Lease, error) { return waits.Lock(context.WithoutCancel(la.Context()), "b") })
		next := async(func() (*Lease, error) { return a.Lock(context.Background(), "a") }) // is handed the claim
		synctest.Wait()
		time.Sleep(900 * time.Millisecond)
		mustUnlock(t, la)
		ln := (<-next).l
		if ln.Token().Ticket() != la.Token().Ticket() {
			t.Fatal("void: the claim was not handed off")
		}
		// B waits for "a", which is in use, by somebody who waits for nothing.
		outer := async(func() (*Lease, error) { return b.Lock(lb.Context(), "a") })
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(outer)+len(inner) > 0 {
			t.Fatalf("somebody was answered: %v", (<-outer).err)
		}
		mustUnlock(t, ln)
		lo := (<-outer).l
		mustUnlock(t, lo)
		mustUnlock(t, lb)
		mustUnlock(t, (<-inner).l)
	})
}

func TestWhatHappensDuringALook(t *testing.T) {
	slow := func(ctx context.Context, real func() (engine.Queue, error)) (engine.Queue, error) {
		select {
		case <-time.After(3 * time.Second):
			return real()
		case <-ctx.Done():
			return engine.Queue{}, ctx.Err()
		}
	}
	setup := func(t *testing.T, w *world, line func(context.Context, func() (engine.Queue, error)) (engine.Queue, error)) (b *Client, lb *Lease, unlock func()) {
		a, _ := w.client(nil)
		b, f := w.client(nil)
		f.set(func(f *faulty) { f.line = line })
		la := mustLock(t, a, "a")
		return b, mustLock(t, b, "b"), func() { mustUnlock(t, la) }
	}
	t.Run("the caller is answered at once", func(t *testing.T) {
		bubble(t, func(w *world) {
			b, lb, unlock := setup(t, w, slow)
			got := async(func() (*Lease, error) { return b.Lock(lb.Context(), "a") })
			time.Sleep(2 * time.Second)
			start := w.clock()
			unlock()
			mustUnlock(t, (<-got).l)
			if d := w.clock() - start; d != 0 {
				t.Errorf("it took %v", d)
			}
			mustUnlock(t, lb)
		})
	})
	t.Run("the caller's time ends", func(t *testing.T) {
		bubble(t, func(w *world) {
			b, lb, unlock := setup(t, w, slow)
			start := w.clock()
			_, err := b.With(LockOptions{Wait: 2 * time.Second}).Lock(lb.Context(), "a")
			if !errors.Is(err, ErrHeld) || w.clock()-start != 2*time.Second+sayBound { // a moment more, to see who holds it
				t.Errorf("%v after %v", err, w.clock()-start)
			}
			mustUnlock(t, lb)
			unlock()
		})
	})
	t.Run("the client closes", func(t *testing.T) {
		bubble(t, func(w *world) {
			b, lb, unlock := setup(t, w, slow)
			got := async(func() (*Lease, error) { return b.Lock(context.WithoutCancel(lb.Context()), "a") })
			time.Sleep(2 * time.Second)
			start := w.clock()
			b.Close()
			if o := <-got; !errors.Is(o.err, ErrClosed) || w.clock() != start {
				t.Errorf("%v after %v", o.err, w.clock()-start)
			}
			unlock()
		})
	})
	t.Run("the engine does not answer", func(t *testing.T) {
		bubble(t, func(w *world) {
			n := 0
			b, lb, unlock := setup(t, w, func(_ context.Context, real func() (engine.Queue, error)) (engine.Queue, error) {
				n++
				return engine.Queue{}, errCut
			})
			got := async(func() (*Lease, error) { return b.Lock(lb.Context(), "a") })
			time.Sleep(10 * time.Second)
			synctest.Wait()
			if n != 5 || len(got) > 0 {
				t.Errorf("%d looks", n)
			}
			unlock()
			mustUnlock(t, (<-got).l)
			mustUnlock(t, lb)
		})
	})
}

// An engine that does not answer one look is asked again: the cycle may have come
// since.
func TestALookThatHangsIsNotTheLast(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, f := w.client(nil)
		la, lb := mustLock(t, a, "a"), mustLock(t, b, "b")
		first := async(func() (*Lease, error) { return a.With(anHour).Lock(la.Context(), "b") })
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		hung := 0
		f.set(func(f *faulty) {
			f.line = func(ctx context.Context, real func() (engine.Queue, error)) (engine.Queue, error) {
				if hung++; hung == 1 {
					<-ctx.Done()
					return engine.Queue{}, ctx.Err()
				}
				return real()
			}
		})
		if o := <-async(func() (*Lease, error) { return b.With(LockOptions{Wait: time.Minute}).Lock(lb.Context(), "a") }); !errors.Is(o.err, ErrDeadlock) {
			t.Errorf("after %d looks: %v", hung, o.err)
		}
		mustUnlock(t, lb)
		mustUnlock(t, (<-first).l)
		mustUnlock(t, la)
	})
}

// Readers, a writer and permits in one cycle.
func TestACycleOfAllModesIsFound(t *testing.T) {
	bubble(t, func(w *world) {
		var clients []*Client
		for range 3 {
			c, _ := w.client(nil)
			clients = append(clients, c)
		}
		r, err := clients[0].RLock(context.Background(), "r")
		if err != nil {
			t.Fatal(err)
		}
		p, err := clients[1].Acquire(context.Background(), "p", 2, 3)
		if err != nil {
			t.Fatal(err)
		}
		x := mustLock(t, clients[2], "x")
		waits := []chan outcome{
			async(func() (*Lease, error) { return clients[0].Acquire(r.Context(), "p", 2, 3) }),
			async(func() (*Lease, error) { return clients[1].RLock(p.Context(), "x") }),
		}
		time.Sleep(100 * time.Millisecond)
		if _, err := clients[2].Lock(x.Context(), "r"); !errors.Is(err, ErrDeadlock) {
			t.Fatal(err)
		}
		mustUnlock(t, x)
		mustUnlock(t, (<-waits[1]).l)
		mustUnlock(t, p)
		mustUnlock(t, (<-waits[0]).l)
		mustUnlock(t, r)
	})
}

// One caller that asks through another client for what it holds waits for itself alone:
// that is a cycle of one step, though its claim is read through both clients.
func TestACallerThatWaitsForItself(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		_, err := b.Lock(mustLock(t, a, "x").Context(), "x")
		var cycle *DeadlockError
		if !errors.As(err, &cycle) || len(cycle.Cycle) != 1 {
			t.Fatalf("%v, want a cycle of one step", err)
		}
		if text := err.Error(); strings.Count(text, "waits for") != 1 || !strings.Contains(text, "of this caller;") {
			t.Error(text)
		}
	})
}

// A call that is to ask anew, since what its claim names is not held any more, says that
// it gave up if its context has ended by then.
func TestACallThatEndsBeforeItAsksAnewGivesUp(t *testing.T) {
	bubble(t, func(w *world) {
		h := &received{}
		var end func()
		trace := func(s door.Step) {
			if s.Name == "b" && s.Text == "in: give up" {
				end()
			}
		}
		a, err := New(&door.Engine{Engine: w.store.Engine(), Clock: w.clock, Trace: trace}, &Options{Observer: h.observe})
		if err != nil {
			t.Fatal(err)
		}
		w.t.Cleanup(func() { a.Close() })
		b, _ := w.client(nil)
		la, lb := mustLock(t, a, "a"), mustLock(t, b, "b")
		ctx, cancel := context.WithCancel(context.WithoutCancel(la.Context()))
		defer cancel()
		end = cancel
		waits := async(func() (*Lease, error) { return a.Lock(ctx, "b") })
		synctest.Wait()
		mustUnlock(t, la)
		if o := <-waits; !errors.Is(o.err, context.Canceled) {
			t.Error(o.err)
		}
		began, gaveUp := h.of(EventWaiting), h.of(EventGaveUp)
		if len(began) != 1 || len(gaveUp) != 1 || gaveUp[0].Call != began[0].Call || !errors.Is(gaveUp[0].Err, context.Canceled) ||
			gaveUp[0].Name != "b" || gaveUp[0].Context == nil || gaveUp[0].Waited != deadlockAfter {
			t.Errorf("got %+v and %+v, want that one call waits and gives up", began, gaveUp)
		}
		mustUnlock(t, lb)
	})
}

// The engine of a closed client answers nobody any more. A lease of that client in the
// context hides no deadlock.
func TestAClosedClientInTheContextHidesNoDeadlock(t *testing.T) {
	bubble(t, func(w *world) {
		elsewhere := func(name string) (*Client, *Lease) {
			c, err := New(w.timed(memlock.NewStore(&memlock.Options{Clock: w.clock}).Engine()), nil)
			if err != nil {
				t.Fatal(err)
			}
			w.t.Cleanup(func() { c.Close() })
			return c, mustLock(t, c, name)
		}
		under := func(outer *Lease, name string) (*Client, *Lease) {
			c, _ := w.client(nil)
			l, err := c.Lock(outer.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			return c, l
		}
		closes, outerA := elsewhere("o")
		_, outerB := elsewhere("p")
		a, la := under(outerA, "a")
		b, lb := under(outerB, "b")
		closes.Close()
		first := async(func() (*Lease, error) { return b.With(anHour).Lock(lb.Context(), "a") }) // says that it holds "p" elsewhere
		synctest.Wait()
		time.Sleep(100 * time.Millisecond)
		if _, err := a.With(LockOptions{Wait: time.Minute}).Lock(la.Context(), "b"); !errors.Is(err, ErrDeadlock) {
			t.Errorf("error %v, want ErrDeadlock", err)
		}
		mustUnlock(t, la)
		mustUnlock(t, (<-first).l)
		mustUnlock(t, lb)
	})
}
