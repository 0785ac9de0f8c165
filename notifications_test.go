package leasehold

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// What is heard while a call for the same claim is under way: the server may
// have answered that call before what the notification tells of, and the answer arrives
// after the notification.

// aside is a Join or Renew that the server has run, while between happens before
// its answer arrives. Only the first one.
type aside struct {
	ran     bool
	between func(found engine.Claim)
}

func (a *aside) join(_ context.Context, _ engine.Request, real func() (engine.Claim, error)) (engine.Claim, error) {
	got, err := real()
	a.once(got)
	return got, err
}

func (a *aside) renew(_ context.Context, _ []engine.Renewal, real func() ([]engine.Claim, error)) ([]engine.Claim, error) {
	got, err := real()
	if len(got) > 0 {
		a.once(got[0])
	}
	return got, err
}

func (a *aside) once(found engine.Claim) {
	if !a.ran {
		a.ran = true
		a.between(found)
	}
}

// There is room, and the notification of it was lost: b's subscription began after it,
// or the engine has no order and tells that now is a good moment to try. Both
// say "look", and the answer under way, "you wait", is older than that.
func TestAReasonToLookIsNotForgottenOverAnOlderAnswer(t *testing.T) {
	begins := func(engine.Claim) engine.Claim { return engine.Claim{} }
	moment := func(c engine.Claim) engine.Claim {
		return engine.Claim{Name: c.Name, ID: c.ID, Ticket: c.Ticket, State: engine.Waiting}
	}
	for name, notification := range map[string]func(engine.Claim) engine.Claim{
		"a subscription began": begins, "a good moment to try": moment,
	} {
		for _, call := range []string{"Join", "Renew"} {
			t.Run(name+" during "+call, func(t *testing.T) {
				// Whether the answer or what the notification leads to comes first is chance.
				for range 20 {
					bubble(t, func(w *world) { pollDuring(t, w, call, notification) })
				}
			})
		}
	}
}

func pollDuring(t *testing.T, w *world, call string, notification func(engine.Claim) engine.Claim) {
	a, _ := w.client(nil)
	b, fb := w.client(nil)
	synctest.Wait() // what Watch tells when it begins is over
	l := mustLock(t, a, "x")
	fb.set(func(f *faulty) { f.deaf = true })
	var room time.Duration
	during := &aside{between: func(found engine.Claim) {
		if found.State != engine.Waiting {
			t.Errorf("found %v, want waiting", found.State)
		}
		mustUnlock(t, l)
		room = w.clock()
		fb.notify(notification(found))
	}}
	if call == "Join" {
		fb.set(func(f *faulty) { f.join = during.join })
	} else {
		fb.set(func(f *faulty) { f.renew = during.renew })
	}
	o := <-async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
	if o.err != nil {
		t.Fatal(o.err)
	}
	if d := w.clock() - room; d != 0 {
		t.Errorf("held %v after there was room and b was told to look", d)
	}
	if _, renews, _ := fb.calls(); renews > 3 {
		t.Errorf("%d renewals: it does not stop looking", renews)
	}
	mustUnlock(t, o.l)
}

// "You hold" arrives before the answer "you wait" of a Renew that began at the
// same moment, as far as the clock can tell.
func TestAnOlderAnswerDoesNotTakeBackWhatANotificationGave(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, fb := w.client(nil)
		synctest.Wait()
		l := mustLock(t, a, "x")
		during := &aside{between: func(engine.Claim) {
			mustUnlock(t, l)
			synctest.Wait() // b has heard that it holds
		}}
		fb.set(func(f *faulty) { f.renew = during.renew })
		o := <-async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		if o.err != nil {
			t.Fatal(o.err)
		}
		time.Sleep(time.Minute)
		if !o.l.Valid() {
			t.Errorf("lost: %v", context.Cause(o.l.Context()))
		}
		mustUnlock(t, o.l)
	})
}

// Somebody waits behind a claim, and the notification of it arrives before the answer
// that the claim holds.
func TestContendedBeforeTheAnswerOfJoin(t *testing.T) {
	bubble(t, func(w *world) {
		a, fa := w.client(&Options{IdleTimeout: time.Minute})
		b, _ := w.client(nil)
		synctest.Wait()
		var got chan outcome
		during := &aside{between: func(engine.Claim) {
			got = async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
			synctest.Wait()
		}}
		fa.set(func(f *faulty) { f.join = during.join })
		l := mustLock(t, a, "x")
		select {
		case <-l.Contended():
		default:
			t.Error("nobody is told that somebody waits")
		}
		start := w.clock()
		mustUnlock(t, l)
		mustUnlock(t, (<-got).l)
		if d := w.clock() - start; d != 0 {
			t.Errorf("the name was kept for %v while somebody waited", d)
		}
	})
}

// A notification of a former life of the claim says nothing of the one that is there.
func TestANotificationOfAFormerLifeIsVoid(t *testing.T) {
	bubble(t, func(w *world) {
		a, fa := w.client(nil)
		synctest.Wait()
		l := mustLock(t, a, "x")
		c := engine.Claim{Name: "x", ID: fa.joins[0].ID, Ticket: l.Token().Ticket() - 1}
		for _, state := range []engine.State{engine.Gone, engine.Waiting, engine.Held} {
			c.State, c.Revoked, c.Contended = state, true, true
			fa.notify(c)
		}
		select {
		case <-l.Contended():
			t.Error("contended")
		default:
		}
		if !l.Valid() {
			t.Error("lost")
		}
		mustUnlock(t, l)
	})
}

// A server that came back may have forgotten everything, and who subscribes
// anew asks at once: for the time until its next renewal two would hold.
func TestHoldersLookToWhenASubscriptionBegins(t *testing.T) {
	bubble(t, func(w *world) {
		a, fa := w.client(nil)
		synctest.Wait()
		l := mustLock(t, a, "x")
		time.Sleep(time.Second) // its full TTL was granted
		e := w.store.Engine()
		defer e.Close()
		id := fa.joins[0].ID
		if _, err := e.Leave(context.Background(), []engine.Claim{{Name: "x", ID: id}}); err != nil {
			t.Fatal(err)
		}
		b, _ := w.client(nil)
		next := mustLock(t, b, "x")
		fa.notify(engine.Claim{})
		synctest.Wait()
		if l.Valid() {
			t.Error("valid, although another holds and the subscription began anew")
		}
		if err := l.Unlock(); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		mustUnlock(t, next)
	})
}

// One that was just granted is asked about soon anyway: a program that locks for
// a moment while its subscription begins makes no third request.
func TestASubscriptionThatBeginsCostsAShortHoldNothing(t *testing.T) {
	bubble(t, func(w *world) {
		a, fa := w.client(nil)
		synctest.Wait()
		fa.set(func(f *faulty) {
			f.join = (&aside{between: func(engine.Claim) { fa.notify(engine.Claim{}) }}).join
		})
		l := mustLock(t, a, "x")
		fa.notify(engine.Claim{})
		synctest.Wait()
		mustUnlock(t, l)
		if _, renews, _ := fa.calls(); renews > 0 {
			t.Errorf("%d renewals", renews)
		}
	})
}
