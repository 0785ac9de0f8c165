package queuestore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
	"leasehold/engine/queuestore"
)

// once has the next Change make one attempt first.
func (w *world) once(kept, indeterminate bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.before = func(_ string, try func(kept, indeterminate bool) error) {
		w.before = nil
		_ = try(kept, indeterminate)
	}
}

func TestALeaveThatMayHaveHappenedSaysItFoundNothing(t *testing.T) {
	w := newWorld()
	a, b := open(t, w), open(t, w)
	received := notified(t, b)
	first := join(t, a, want("n"), engine.Held)
	second := join(t, b, want("n"), engine.Waiting)
	w.once(true, true)
	drop(t, a, first, engine.Held)
	receives(t, received, second.ID, engine.Held) // the attempt that left told nobody
	// A conflict is another matter: that attempt never happened.
	w.once(false, false)
	drop(t, b, second, engine.Held)
	drop(t, b, second, engine.Gone)
}

// Somebody revokes a claim between an attempt to leave it that came to nothing and the
// one that counts: who leaves must learn that it has lost its lease.
func TestALeaveThatDidNotHappenDoesNotHideARevocation(t *testing.T) {
	w := newWorld()
	a, b := open(t, w), open(t, w)
	first := join(t, a, want("n"), engine.Held)
	w.mu.Lock()
	held := slices.Clone(w.records["n"])
	w.mu.Unlock()
	if err := b.Revoke(t.Context(), "n", first.Ticket, false); err != nil {
		t.Fatal(err)
	}
	w.mu.Lock()
	marked := slices.Clone(w.records["n"])
	w.records["n"] = held
	w.before = func(_ string, try func(kept, indeterminate bool) error) {
		w.before = nil
		_ = try(false, true)
		w.records["n"] = marked
	}
	w.mu.Unlock()
	cs, err := a.Leave(t.Context(), []engine.Claim{first})
	if err != nil || len(cs) != 1 || cs[0].State != engine.Gone || !cs[0].Revoked {
		t.Fatalf("it was revoked before it left, and Leave says %+v, %v", cs, err)
	}
}

func TestARevokeThatMayHaveHappenedFindsNoClaim(t *testing.T) {
	for _, now := range []bool{false, true} {
		w := newWorld()
		a, b := open(t, w), open(t, w)
		receivedA, receivedB := notified(t, a), notified(t, b)
		first := join(t, a, want("n"), engine.Held)
		second := join(t, b, want("n"), engine.Waiting)
		w.once(true, true)
		if err := b.Revoke(t.Context(), "n", first.Ticket, now); err != nil {
			t.Fatalf("at once %v: %v", now, err)
		}
		if c := receives(t, receivedA, first.ID, engine.Gone); !c.Revoked {
			t.Fatal("told that it is gone, and not that it was revoked")
		}
		if now {
			receives(t, receivedB, second.ID, engine.Held)
		}
		if err := b.Revoke(t.Context(), "n", first.Ticket+1000, now); !errors.Is(err, engine.ErrNoClaim) {
			t.Fatalf("no claim has that ticket, and Revoke says %v", err)
		}
	}
}

// One call renews several claims of a name. What each of them brought about is told.
func TestEveryRenewalOfABatchIsNotified(t *testing.T) {
	w := newWorld()
	a, b := open(t, w), open(t, w)
	received := notified(t, b)
	permit := func() engine.Request {
		r := want("n")
		r.Permits, r.Limit = 1, 2
		return r
	}
	brief := permit()
	brief.WaitTTL = time.Second
	join(t, a, brief, engine.Held)
	lasting := join(t, a, permit(), engine.Held)
	waits := join(t, b, permit(), engine.Waiting)
	w.mu.Lock()
	w.now += 2 * time.Second
	w.mu.Unlock()
	// The first renewal finds the brief one expired, the second nothing more.
	same := engine.Renewal{Name: "n", ID: lasting.ID, Want: time.Minute}
	if cs, err := a.Renew(t.Context(), []engine.Renewal{same, same}); err != nil || len(cs) != 2 {
		t.Fatal(cs, err)
	}
	b.PostAll() // comes after whatever was told
	for n := range received {
		if n.Name == "" {
			t.Fatal("who waits was not told that it holds")
		}
		if n.ID == waits.ID && n.State == engine.Held {
			break
		}
	}
}

// What a claim was told for an attempt that never happened would be untrue.
func TestAnAttemptThatWasNotStoredIsNotified(t *testing.T) {
	w := newWorld()
	a, b, c := open(t, w), open(t, w), open(t, w)
	received := notified(t, b)
	first := join(t, a, want("n"), engine.Held)
	second := join(t, b, want("n"), engine.Waiting)
	w.mu.Lock()
	w.before = func(_ string, try func(kept, indeterminate bool) error) {
		w.before = nil
		_ = try(false, true) // leaves, so that the second holds; but is lost
	}
	w.refuse = func(string) error { w.refuse = nil; return errBroken }
	w.mu.Unlock()
	if _, err := a.Leave(t.Context(), []engine.Claim{first}); !errors.Is(err, errBroken) {
		t.Fatalf("Leave says %v", err)
	}
	join(t, c, want("other"), engine.Held)
	b.PostAll() // comes after whatever was told
	for {
		n := <-received
		if n.Name == "" {
			break
		}
		if n.ID == second.ID {
			t.Fatalf("told %v by a call that came to nothing", n.State)
		}
	}
	drop(t, a, first, engine.Held)
	receives(t, received, second.ID, engine.Held)
}

func TestARefusalIsStored(t *testing.T) {
	w := newWorld()
	a := open(t, w)
	join(t, a, want("n"), engine.Held)
	w.mu.Lock()
	before := w.records["n"]
	w.mu.Unlock()
	r := want("n")
	r.Permits, r.Limit = 1, 3
	if _, err := a.Join(t.Context(), r); !errors.Is(err, engine.ErrLimit) {
		t.Fatalf("another limit: %v", err)
	}
	if err := a.Revoke(t.Context(), "m", 1, false); !errors.Is(err, engine.ErrNoClaim) {
		t.Fatalf("Revoke of nothing: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.Equal(w.records["n"], before) || len(w.records) != 1 || w.stores != 1 {
		t.Fatal("a refused call left something")
	}
}

// An error of the store is "nothing learned", whatever the attempts came to, of the
// name that it is about.
func TestAnErrorOfTheStoreIsAnAnswer(t *testing.T) {
	w := newWorld()
	a := open(t, w)
	w.refuse = func(name string) error {
		if name == "b" {
			return errBroken
		}
		return nil
	}
	var rs []engine.Renewal
	for _, name := range []string{"a", "b", "c", "a"} {
		rs = append(rs, engine.Renewal{Name: name, ID: engine.NewID(), Want: time.Second})
	}
	cs, err := a.Renew(t.Context(), rs)
	if !errors.Is(err, errBroken) || len(cs) != 3 || cs[0].ID != rs[0].ID || cs[1].ID != rs[3].ID || cs[2].ID != rs[2].ID {
		t.Fatalf("Renew of a, b, c, a says %v, %v; want what was learned of a and c", cs, err)
	}
	if _, err := a.Join(t.Context(), want("b")); !errors.Is(err, errBroken) {
		t.Fatalf("Join says %v", err)
	}
}

func TestABatchCostsAChangePerClaim(t *testing.T) {
	w := newWorld()
	a := open(t, w)
	var rs []engine.Renewal
	var cs []engine.Claim
	for i := range 1000 {
		r := shared(fmt.Sprint("n", i%2))
		cs = append(cs, join(t, a, r, engine.Held))
		rs = append(rs, engine.Renewal{Name: r.Name, ID: r.ID, Want: time.Minute})
	}
	w.calls = 0
	got, err := a.Renew(t.Context(), rs)
	if err != nil || len(got) != len(rs) || w.calls != 2 {
		t.Fatalf("1,000 renewals of two names: %d answers, %d changes, %v", len(got), w.calls, err)
	}
	gone, err := a.Leave(t.Context(), cs)
	if err != nil || len(gone) != len(cs) || w.calls != 4 {
		t.Fatalf("1,000 claims of two names left: %d answers, %d changes, %v", len(gone), w.calls, err)
	}
}

// Where nobody is told, the first waiter looks often and the others seldom.
func TestAWaiterIsNeitherToldNorAdvised(t *testing.T) {
	w := newWorld()
	w.mute = true
	a := open(t, w)
	held := join(t, a, want("n"), engine.Held)
	first, second := join(t, a, want("n"), engine.Waiting), join(t, a, want("n"), engine.Waiting)
	if held.PollAfter != 0 || first.PollAfter != 10*time.Millisecond || second.PollAfter != 200*time.Millisecond {
		t.Fatalf("told to look after %v, %v and %v", held.PollAfter, first.PollAfter, second.PollAfter)
	}
	w.Sleep(time.Minute - time.Millisecond)
	cs, err := a.Renew(t.Context(), []engine.Renewal{{Name: "n", ID: first.ID, Want: time.Minute}})
	if err != nil || cs[0].PollAfter != time.Millisecond {
		t.Fatalf("the holder ends in a millisecond, and Look is %v, %v", cs[0].PollAfter, err)
	}
}

func TestInspectionReadsOnePageOnly(t *testing.T) {
	w := newWorld()
	w.page = 2
	a := open(t, w)
	for _, name := range []string{"a", "b1", "b2", "b3", "b4", "b5", "c"} {
		join(t, a, want(name), engine.Held)
	}
	if got := fmt.Sprint(names(t, a, "b")); got != "[b11 b21 b31 b41 b51]" {
		t.Fatalf("queues that begin with b: %v", got)
	}
	for range a.Queues(t.Context(), "") {
		_ = a.Close() // must not wait for this loop
		break
	}
}

func TestTheStoreMayDenyWhatTheQueueHas(t *testing.T) {
	g := open(t, newWorld()).Guarantees()
	if g.Order != engine.FIFO || g.Modes != engine.Exclusive|engine.Shared|engine.Permits || !g.SeesWaiters {
		t.Fatalf("declared: %+v", g)
	}
}

func TestClientsHaveOneName(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		c := queuestore.NewClient()
		if len(c) != 13 || seen[c] {
			t.Fatalf("client %q", c)
		}
		seen[c] = true
	}
}

// The store is not closed under a call that uses it.
func TestCloseWaitsForAJoinUnderWay(t *testing.T) {
	w := newWorld()
	a := w.open()
	entered, go_ := make(chan struct{}), make(chan struct{})
	w.enter = func() {
		close(entered)
		<-go_
	}
	joined := make(chan error, 1)
	go func() {
		_, err := a.Join(context.Background(), want("n"))
		joined <- err
	}()
	<-entered
	closed := make(chan error, 1)
	go func() { closed <- a.Close() }()
	select {
	case <-closed:
		t.Fatal("Close did not wait for a Join under way")
	case <-time.After(50 * time.Millisecond): // what it would need to be too early
	}
	close(go_)
	if err := <-joined; err != nil {
		t.Fatalf("Join: %v", err)
	}
	if err := <-closed; err != nil {
		t.Fatalf("Close: %v", err)
	}
}

// One batch, one name: what a Leave gives to a claim that the next one leaves
// is said in the answer.
func TestABatchTellsWhatItsAnswerSays(t *testing.T) {
	for _, mortal := range []bool{false, true} {
		w := newWorld()
		w.mortal = mortal
		a := open(t, w)
		received := notified(t, a)
		first, second, third := join(t, a, want("n"), engine.Held), join(t, a, want("n"), engine.Waiting), join(t, a, want("n"), engine.Waiting)
		receives(t, received, first.ID, engine.Held) // contended
		if cs, err := a.Leave(t.Context(), []engine.Claim{first, second}); err != nil || cs[0].State != engine.Held || cs[1].State != engine.Held {
			t.Fatalf("Leave: %v, %v", cs, err)
		}
		for n := range received {
			if n.ID == second.ID {
				t.Fatal("told of a claim that has left")
			}
			if n.ID == third.ID {
				break
			}
		}
	}
}
