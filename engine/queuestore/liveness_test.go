package queuestore_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/queue"
	"leasehold/engine/queuestore"
)

// silently: the client dies, and nobody is told of it.
func (w *world) silently(e *queuestore.Engine) {
	died := w.of(e).name
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead[died] = true
}

func living() *world {
	w := newWorld()
	w.mortal = true
	return w
}

// awaited is whom a client awaits in n.
func (w *world) awaited(e *queuestore.Engine, by ...*queuestore.Engine) string {
	c, s := w.of(e), ""
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, other := range by {
		for _, o := range w.clients {
			if o.engine == other && c.awaits[o.name]["n"] > w.now {
				s += fmt.Sprint(i)
			}
		}
	}
	return s
}

func TestADeadHolderKeepsTheName(t *testing.T) {
	limited := want("n")
	limited.Permits, limited.Limit = 1, 3
	nowait := want("n")
	nowait.NoWait = true
	for what, r := range map[string]engine.Request{"who would wait": want("n"), "who does not wait": nowait, "another limit": limited} {
		t.Run(what, func(t *testing.T) {
			w := living()
			a, b := w.open(), open(t, w)
			join(t, a, want("n"), engine.Held)
			w.silently(a)
			join(t, b, r, engine.Held)
		})
	}
}

// A process that is killed may leave as many claims as a queue can have.
func TestTheDeadFillAQueue(t *testing.T) {
	w := living()
	a, b := w.open(), open(t, w)
	client := w.of(a).name
	full := queue.Queue{Last: engine.MaxQueue, Limit: engine.Max}
	for i := range uint64(engine.MaxQueue) {
		full.Places = append(full.Places, queue.Place{
			ID: engine.NewID(), Ticket: i + 1, Client: client, Permits: engine.Max, Held: i == 0,
			Deadline: w.now + time.Minute, Asked: time.Minute,
		})
	}
	w.records["n"], _ = full.AppendBinary(nil)
	if _, err := b.Join(t.Context(), want("n")); !errors.Is(err, engine.ErrRefused) {
		t.Fatalf("a queue is full of the claims of the living, and Join says %v", err)
	}
	w.silently(a)
	join(t, b, want("n"), engine.Held)
}

// A holder that knows that somebody wants the name is told nothing, so that is
// no reason to ask after it.
func TestADeadHolderThatWasToldKeepsTheName(t *testing.T) {
	for _, patient := range []bool{false, true} {
		w := living()
		a, b := w.open(), open(t, w)
		join(t, a, want("n"), engine.Held)
		r := want("n")
		r.NoWait = true
		join(t, b, r, engine.Gone)
		w.silently(a)
		r.ID, r.NoWait = engine.NewID(), !patient
		join(t, b, r, engine.Held)
	}
}

// The end of a client is heard by who waits behind it, without a renewal; and
// who looks then asks after everybody, for more may have died.
func TestTheEndOfAClientGoesUnheard(t *testing.T) {
	w := living()
	a, b, c := w.open(), w.open(), open(t, w)
	received := notified(t, c)
	join(t, a, want("n"), engine.Held)
	join(t, b, want("n"), engine.Waiting)
	third := join(t, c, want("n"), engine.Waiting)
	w.silently(a)
	w.kill(b)
	receives(t, received, third.ID, engine.Held)

	d := w.open()
	join(t, d, want("m"), engine.Held)
	second := want("m")
	join(t, c, second, engine.Waiting)
	w.kill(d)
	receives(t, received, second.ID, engine.Held)
}

// A refusal stands although somebody dead has left the queue for it, and what
// the dead one's leaving has changed counts and is told.
func TestARefusedRequestUndoesADeath(t *testing.T) {
	w := living()
	a, b, c := w.open(), open(t, w), open(t, w)
	received := notified(t, b)
	join(t, a, want("n"), engine.Held)
	waits := join(t, b, want("n"), engine.Waiting)
	w.silently(a)
	r := want("n")
	r.Permits, r.Limit = 1, 3
	if _, err := c.Join(t.Context(), r); err == nil {
		t.Fatal("two limits in one queue")
	}
	receives(t, received, waits.ID, engine.Held)
	drop(t, b, waits, engine.Held)
}

// Who becomes held must be alive: a hand-over passes the dead by.
func TestTheDeadAreHandedTheName(t *testing.T) {
	w := living()
	a, b, c := open(t, w), w.open(), open(t, w)
	received := notified(t, c)
	first := join(t, a, want("n"), engine.Held)
	join(t, b, want("n"), engine.Waiting)
	third := join(t, c, want("n"), engine.Waiting)
	w.silently(b)
	drop(t, a, first, engine.Held)
	receives(t, received, third.ID, engine.Held)
}

// A waiter is renewed: it then asks after several of those ahead of it.
func TestARenewalAsksAfterNobody(t *testing.T) {
	w := living()
	a, b, c := w.open(), w.open(), open(t, w)
	join(t, a, shared("n"), engine.Held)
	join(t, b, shared("n"), engine.Held)
	waits := join(t, c, want("n"), engine.Waiting)
	w.silently(a)
	w.silently(b)
	cs, err := c.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: waits.ID, Want: time.Minute}})
	if err != nil || cs[0].State != engine.Held {
		t.Fatalf("both holders are dead, and the waiter is %v, %v", cs, err)
	}
}

// A holder for whom nobody alive waits is not contended.
func TestTheDeadContend(t *testing.T) {
	w := living()
	a, b := open(t, w), w.open()
	holds := join(t, a, want("n"), engine.Held)
	join(t, b, want("n"), engine.Waiting)
	w.silently(b)
	cs, err := a.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: holds.ID, Want: time.Minute}})
	if err != nil || cs[0].State != engine.Held || cs[0].Contended {
		t.Fatalf("only a dead client waits, and the holder hears %+v, %v", cs, err)
	}
}

// A name nobody waits for costs no question.
func TestAnUncontendedNameAsksAfterItsClients(t *testing.T) {
	w := living()
	a, b := open(t, w), open(t, w)
	held := join(t, a, shared("n"), engine.Held)
	other := join(t, b, shared("n"), engine.Held)
	if _, err := a.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: held.ID, Want: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	drop(t, a, held, engine.Held)
	drop(t, b, other, engine.Held)
	if len(w.asked) > 0 {
		t.Fatalf("asked %v", w.asked)
	}
}

// One who waits asks after a few, however long the queue.
func TestOneWaiterAsksAfterEverybody(t *testing.T) {
	w := living()
	a := open(t, w)
	for range 100 {
		join(t, open(t, w), shared("n"), engine.Held)
	}
	waits := join(t, a, want("n"), engine.Waiting) // tells a hundred, and asks after them
	for _, times := range w.asked {
		if times > 1 {
			t.Fatalf("one Join asked %d times after one client", times)
		}
	}
	clear(w.asked)
	if _, err := a.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: waits.ID, Want: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	if n := len(w.asked); n == 0 || n > 20 {
		t.Fatalf("a hundred hold, and one that waits asked after %d", n)
	}
}

// The first waiter awaits the holders, the others the next one ahead.
func TestNobodyAwaitsThoseAhead(t *testing.T) {
	w := living()
	a, b, c, d := open(t, w), open(t, w), open(t, w), open(t, w)
	join(t, a, shared("n"), engine.Held)
	join(t, b, shared("n"), engine.Held)
	join(t, c, want("n"), engine.Waiting)
	join(t, d, want("n"), engine.Waiting)
	if got := w.awaited(c, a, b, c, d); got != "01" {
		t.Errorf("the first waiter awaits %q, want both holders", got)
	}
	if got := w.awaited(d, a, b, c, d); got != "2" {
		t.Errorf("the second waiter awaits %q, want the first", got)
	}
	if got := w.awaited(a, a, b, c, d); got != "" {
		t.Errorf("a holder awaits %q", got)
	}
}

// Whoever comes to have others ahead of it is asked to look, and awaits them.
func TestAWaiterAwaitsOneWhoLeft(t *testing.T) {
	w := living()
	a, b, c, d := open(t, w), open(t, w), open(t, w), open(t, w)
	notified(t, d)
	join(t, a, shared("n"), engine.Held)
	join(t, b, want("n"), engine.Waiting)
	middle := join(t, c, want("n"), engine.Waiting)
	join(t, d, want("n"), engine.Waiting)
	if got := w.awaited(d, a, b, c); got != "2" {
		t.Fatalf("the last awaits %q", got)
	}
	drop(t, c, middle, engine.Waiting)
	for range 10_000 {
		if w.awaited(d, a, b, c) == "12" { // 2 until its time has passed
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("the one it awaited has left, and it awaits %q", w.awaited(d, a, b, c))
}

// A hand-over in a queue of exclusive claims asks nobody to look.
func TestAHandOverWakesThoseBehind(t *testing.T) {
	w := living()
	a, b, c := open(t, w), open(t, w), open(t, w)
	received := notified(t, b)
	first := join(t, a, want("n"), engine.Held)
	second := join(t, b, want("n"), engine.Waiting)
	join(t, c, want("n"), engine.Waiting)
	join(t, open(t, w), want("n"), engine.Waiting)
	w.mu.Lock()
	w.calls = 0
	w.mu.Unlock()
	drop(t, a, first, engine.Held)
	receives(t, received, second.ID, engine.Held)
	w.polls.Wait()
	_ = c.Close() // waits for whatever it was asked to look at; who is behind it looks then
	w.polls.Wait()
	if w.calls != 2 {
		t.Fatalf("a hand-over and the end of a client cost %d changes", w.calls)
	}
}

// Who died may have made others hold and told nobody: a look tells them again.
func TestWhatTheDeadDidNotSayIsNeverSaid(t *testing.T) {
	w := living()
	a, b, c := w.open(), open(t, w), open(t, w)
	received := notified(t, b)
	first := join(t, a, want("n"), engine.Held)
	second := join(t, b, want("n"), engine.Waiting)
	third := join(t, c, want("n"), engine.Waiting)
	w.mute = true // a leaves, and dies before it has told anybody
	drop(t, a, first, engine.Held)
	w.mute = false
	w.kill(a)
	if n := receives(t, received, second.ID, engine.Held); !n.Contended {
		t.Fatal("somebody waits behind it, and it was not told")
	}
	w.polls.Wait()
	if err := b.Revoke(t.Context(), "n", second.Ticket, false); err != nil {
		t.Fatal(err)
	}
	receives(t, received, second.ID, engine.Gone)
	if err := c.PollAfter(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	if n := receives(t, received, second.ID, engine.Gone); !n.Revoked {
		t.Fatal("a look tells a marked holder that it is gone, and not why")
	}
	drop(t, c, third, engine.Waiting)
}

func TestInspectionShowsTheDead(t *testing.T) {
	w := living()
	a, b := w.open(), open(t, w)
	join(t, a, want("n"), engine.Held)
	r := want("n")
	r.Owner.Label = "alive"
	join(t, b, r, engine.Waiting)
	r.ID, r.Name, r.Detached = engine.NewID(), "m", true
	join(t, a, r, engine.Held)
	w.silently(a)
	l, err := b.Queue(t.Context(), "n")
	if err != nil || len(l.Claims) != 1 || l.Claims[0].Owner.Label != "alive" || l.Claims[0].State != engine.Held {
		t.Fatalf("the queue is %+v, %v", l, err)
	}
	if got := fmt.Sprint(names(t, b, "")); got != "[m1 n1]" {
		t.Fatalf("queues: %v; a detached claim outlives its client", got)
	}
}

func TestAnEngineThatIsClosedLooks(t *testing.T) {
	w := living()
	a := w.open()
	_ = a.Close()
	a.Post(engine.Claim{Name: "n"})
	a.PostAll()
	if err := a.PollAfter(t.Context(), "n"); err != engine.ErrClosed {
		t.Fatalf("Look says %v", err)
	}
	if w.calls > 0 {
		t.Fatal("a closed engine used its store")
	}
}

// A detached claim outlives its client, whose end is then nothing to wait for:
// who awaited it would look again and again for as long as the claim lasts.
func TestWhoWaitsBehindADetachedClaimOfTheDeadLooksForEver(t *testing.T) {
	w := living()
	a, b := w.open(), open(t, w)
	r := want("n")
	r.Detached = true
	holds := join(t, a, r, engine.Held)
	w.silently(a)
	waits := join(t, b, want("n"), engine.Waiting)
	if _, err := b.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: waits.ID, Want: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	if got := w.awaited(b, a); got != "" {
		t.Error("its end is awaited")
	}
	drop(t, b, holds, engine.Held) // ends the looking, if there is any
	w.polls.Wait()
	if w.calls > 5 {
		t.Fatalf("%d changes", w.calls)
	}
}

// Whether the client of a detached claim lives changes nothing, so nobody asks.
func TestAfterTheClientOfADetachedClaimNobodyAsks(t *testing.T) {
	w := living()
	a, b := open(t, w), open(t, w)
	r := want("n")
	r.Detached = true
	holds := join(t, a, r, engine.Held)
	waits := join(t, b, want("n"), engine.Waiting) // tells a that somebody waits, if it lives
	w.mu.Lock()
	clear(w.asked)
	w.mu.Unlock()
	if _, err := b.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: waits.ID, Want: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	if err := b.PollAfter(t.Context(), "n"); err != nil {
		t.Fatal(err)
	}
	client := w.of(a).name
	w.mu.Lock()
	if n := w.asked[client]; n > 0 {
		t.Errorf("asked %d times", n)
	}
	w.mu.Unlock()
	drop(t, b, waits, engine.Waiting)
	drop(t, a, holds, engine.Held)
}

// Who died in the middle of a queue is found by those behind, though the next ahead
// lives and sleeps: by their renewals.
func TestARenewalInTheMiddleOfAQueueAsksAfterSeveralAhead(t *testing.T) {
	w := living()
	a, b, c, d := open(t, w), w.open(), open(t, w), open(t, w)
	join(t, a, want("n"), engine.Held)
	join(t, b, want("n"), engine.Waiting)
	join(t, c, want("n"), engine.Waiting)
	last := join(t, d, want("n"), engine.Waiting)
	client := w.of(b).name
	w.silently(b)
	w.mu.Lock()
	clear(w.asked)
	w.mu.Unlock()
	if _, err := d.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: last.ID, Want: time.Minute}}); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.asked[client] == 0 {
		t.Errorf("nobody asked after the dead one: %v", w.asked)
	}
}

// Who was found dead by a request that is refused all the same, and whose going tells
// nobody anything, is found once and not by every request.
func TestWhoIsFoundDeadByARefusedRequestIsFoundAgain(t *testing.T) {
	w := living()
	a, b, c := w.open(), open(t, w), open(t, w)
	join(t, a, shared("n"), engine.Held)
	join(t, b, shared("n"), engine.Held)
	client := w.of(a).name
	w.silently(a)
	r := want("n")
	r.Permits, r.Limit = 1, 3
	for range 2 {
		if _, err := c.Join(t.Context(), r); !errors.Is(err, engine.ErrLimit) {
			t.Fatalf("two limits in one queue: %v", err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.asked[client]; n != 1 {
		t.Errorf("asked after it %d times; want once", n)
	}
}

// The renewals of a waiter ask after a few of many holders at a time, and go on where the
// last one ended, in each name by itself.
func TestOneOfManyHoldersIsNeverAskedAfter(t *testing.T) {
	const holders, renewals = 40, 3 // 16 at a time
	permit := func(name string) engine.Request {
		r := want(name)
		r.Permits, r.Limit = 1, holders
		return r
	}
	w := living()
	var all []*queuestore.Engine
	for range holders {
		e := open(t, w)
		join(t, e, permit("m"), engine.Held)
		join(t, e, permit("n"), engine.Held)
		all = append(all, e)
	}
	a := open(t, w)
	waits := []engine.Claim{join(t, a, permit("m"), engine.Waiting), join(t, a, permit("n"), engine.Waiting)}
	w.silently(all[29]) // none of the first, whose ends are awaited
	for range renewals {
		for i, c := range waits {
			if c.State == engine.Held {
				continue
			}
			w.mu.Lock()
			clear(w.asked)
			w.mu.Unlock()
			cs, err := a.Renew(t.Context(), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: time.Minute}})
			if err != nil {
				t.Fatal(err)
			}
			waits[i] = cs[0]
			w.mu.Lock()
			if n := len(w.asked); n > 20 && cs[0].State == engine.Waiting {
				t.Errorf("a renewal asked after %d", n)
			}
			w.mu.Unlock()
		}
	}
	for _, c := range waits {
		if c.State != engine.Held {
			t.Errorf("%s: one of %d holders is dead, and after %d renewals who waits is %v", c.Name, holders, renewals, c.State)
		}
	}
}
