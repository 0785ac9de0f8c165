package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"leasehold/engine"
	"leasehold/internal/checked"
)

// client is one client of the store, watched from birth. Around its engine stands
// what stands around it in package leasehold: what cannot be never reaches it, and a
// Watch that breaks begins again.
type client struct {
	*checked.Engine
	t    *trial
	dead bool // killed: Close may complain

	telling atomic.Bool // changed runs

	mu            sync.Mutex
	notifications []engine.Claim
	more          chan struct{} // closed and replaced when a notification arrives
}

// client makes one more client and waits until its Watch has begun.
func (t *trial) client() *client {
	t.Helper()
	a := &client{Engine: checked.New(t.h.New(t.TB)), t: t, more: make(chan struct{})}
	t.clients = append(t.clients, a)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.KeepWatching(ctx, a.receive, func(error) {})
	}()
	t.Cleanup(func() {
		cancel()
		if err := a.Close(); err != nil && !a.dead {
			t.Errorf("Close: %v", err)
		}
		select {
		case <-ended:
		case <-time.After(t.h.Patience):
			t.Error("Watch goes on after its context ended and the engine was closed")
		}
	})
	if !a.receives(func(c engine.Claim) bool { return c.Name == "" && c.ID == engine.ID{} }) {
		t.Fatal("Watch did not say changed(Claim{}) when it began")
	}
	return a
}

func (a *client) receive(c engine.Claim) {
	if a.telling.Swap(true) {
		a.t.Error("changed is called by two goroutines at once")
	}
	defer a.telling.Store(false)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notifications = append(a.notifications, c)
	close(a.more)
	a.more = make(chan struct{})
}

// hears waits for a notification, one that came before included.
func (a *client) receives(match func(engine.Claim) bool) bool {
	late := time.After(a.t.h.Patience)
	for {
		a.mu.Lock()
		found, more := slices.ContainsFunc(a.notifications, match), a.more
		a.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-more:
		case <-late:
			return false
		}
	}
}

// heard is what has been heard of a claim so far.
func (a *client) received(id engine.ID) []engine.Claim {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(a.notifications), func(c engine.Claim) bool { return c.ID != id })
}

// told waits for a notification of that claim in that state, or fails.
func (a *client) notified(c engine.Claim, s engine.State, why string) {
	a.t.Helper()
	if !a.receives(func(n engine.Claim) bool { return n.ID == c.ID && n.Name == c.Name && n.State == s }) {
		a.t.Fatalf("%s, but Watch did not say %v; it said %v", why, s, a.received(c.ID))
	}
}

// notifiedContended waits for the notice that somebody waits behind c.
func (a *client) notifiedContended(c engine.Claim, why string) {
	a.t.Helper()
	if !a.receives(func(n engine.Claim) bool { return n.ID == c.ID && n.Name == c.Name && n.Contended }) {
		a.t.Fatalf("%s, but Watch did not say that the claim is contended; it said %v", why, a.received(c.ID))
	}
}

// flush waits until whatever was sent to this client before has most likely
// arrived: it makes two notifications of other names, one of each kind, and waits for
// either. Notifications may be reordered, so this can overlook an unwanted notification, but
// never blames an innocent engine. If neither comes that is not its business.
func (a *client) flush(by *client) {
	a.t.Helper()
	mine, theirs := a.t.name(), a.t.name()
	held := a.join(a.t.exclusive(mine))
	by.join(a.t.exclusive(mine))
	before := by.join(a.t.exclusive(theirs))
	waiting := a.join(a.t.exclusive(theirs))
	by.leave(before)
	a.receives(func(n engine.Claim) bool {
		return n.ID == held.ID && n.Contended || n.ID == waiting.ID && n.State == engine.Held
	})
	a.leave(held)
	a.leave(waiting)
}

// join joins or fails, and checks what every reply must say.
func (a *client) join(r engine.Request) engine.Claim {
	a.t.Helper()
	start := a.t.h.Now()
	c, err := a.Join(a.t.ctx(), r)
	if err != nil {
		if short := a.t.short(); r.WaitTTL == short && !errors.Is(err, engine.ErrRefused) && a.t.h.Now()-start >= short/2 {
			a.t.tooSlow("Join: ", err) // a session as short as that may have ended with its client away
		}
		a.t.Fatalf("Join: %v", err)
	}
	if _, again := a.t.mortal[r.ID]; !again && r.WaitTTL == a.t.short() {
		a.t.mortal[r.ID] = start + c.TTL
	}
	switch {
	case c.Name != r.Name || c.ID != r.ID:
		a.t.Fatalf("Join of %q answered for another claim, of %q", r.Name, c.Name)
	case c.State != engine.Waiting && c.State != engine.Held && !(c.State == engine.Gone && r.NoWait):
		a.t.Fatalf("Join answered %v", c.State)
	case c.State != engine.Gone && c.TTL < r.WaitTTL:
		a.t.Fatalf("Join granted %v, less than the %v it was asked for", c.TTL, r.WaitTTL)
	}
	return c
}

// hold joins and must hold at once.
func (a *client) hold(r engine.Request) engine.Claim {
	a.t.Helper()
	c := a.join(r)
	if c.State == engine.Waiting && a.t.g.Order == engine.OrderNone {
		return a.awaits(c)
	}
	if c.State != engine.Held {
		a.t.Fatalf("Join with room in the queue: %v, want held", c.State)
	}
	return c
}

// wait joins and must wait.
func (a *client) wait(r engine.Request) engine.Claim {
	a.t.Helper()
	c := a.join(r)
	if c.State != engine.Waiting {
		a.t.Fatalf("Join without room: %v, want waiting", c.State)
	}
	return c
}

// taken checks that nobody else can hold the name.
func (a *client) taken(name, why string) {
	a.t.Helper()
	c := a.join(a.t.exclusive(name))
	if c.State == engine.Held {
		a.t.Fatalf("%s, and another client holds as well", why)
	}
	a.leave(c)
}

// free checks that the name can be held at once.
func (a *client) free(name, why string) {
	a.t.Helper()
	c := a.join(a.t.exclusive(name))
	if c.State == engine.Waiting && a.t.g.Order == engine.OrderNone {
		c = a.awaits(c)
	}
	if c.State != engine.Held {
		a.t.Fatalf("%s, and the name is not free", why)
	}
	a.leave(c)
}

// try joins without waiting, and leaves again if that succeeds.
func (a *client) try(r engine.Request) engine.State {
	a.t.Helper()
	r.NoWait = true
	c := a.join(r)
	if c.State == engine.Held {
		a.leave(c)
	}
	return c.State
}

// renew renews one claim.
func (a *client) renew(c engine.Claim, want time.Duration) engine.Claim {
	a.t.Helper()
	start := a.t.h.Now()
	got, err := a.Renew(a.t.ctx(), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: want}})
	if err != nil {
		a.t.Fatalf("Renew: %v", err)
	}
	if len(got) != 1 || got[0].ID != c.ID || got[0].Name != c.Name || got[0].State == engine.Unknown {
		a.t.Fatalf("Renew of one claim without an error answered %v", got)
	}
	if _, brief := a.t.mortal[c.ID]; brief && got[0].State != engine.Gone {
		a.t.mortal[c.ID] = max(a.t.mortal[c.ID], start+got[0].TTL)
	}
	return got[0]
}

// is asks what a claim is by now, for long, and checks its state.
func (a *client) is(c engine.Claim, want engine.State, why string) engine.Claim {
	a.t.Helper()
	var got engine.Claim
	if c.State == engine.Waiting && a.t.g.Order == engine.OrderNone {
		got = a.join(a.t.again(c))
	} else {
		got = a.renew(c, a.t.long())
	}
	if got.State != want {
		a.t.Fatalf("%s: Renew says %v, want %v", why, got.State, want)
	}
	return got
}

// Join joins, and has it known what was asked for.
func (a *client) Join(ctx context.Context, r engine.Request) (engine.Claim, error) {
	a.t.requests.Store(r.ID, r)
	return a.Engine.Join(ctx, r)
}

// again is the Join of a claim once more, as the core repeats it where there is no order.
func (t *trial) again(c engine.Claim) engine.Request {
	r, _ := t.requests.Load(c.ID)
	again := r.(engine.Request)
	again.Replaces = engine.ID{} // done
	return again
}

// look asks what became of a claim that waited: it is renewed, and where there is no
// order asked for again.
func (a *client) pollAfter(ctx context.Context, c engine.Claim) (engine.Claim, error) {
	if a.t.g.Order == engine.OrderNone {
		return a.Join(ctx, a.t.again(c))
	}
	cs, err := a.Renew(ctx, a.t.renewals(c))
	if err == nil && len(cs) != 1 {
		err = fmt.Errorf("one claim was renewed, and %d are answered", len(cs))
	}
	if err != nil {
		return engine.Claim{}, err
	}
	return cs[0], nil
}

// awaits looks at a waiting claim until it is held: the fallback under every lost
// notification, and the way things go where there is no order.
func (a *client) awaits(c engine.Claim) engine.Claim {
	a.t.Helper()
	got, ok := a.eventually(c)
	if !ok {
		a.t.Fatalf("there is room, but the claim is not held within %v; its last answer: %v", a.t.h.Patience, got.State)
	}
	return got
}

// eventually is awaits for any goroutine: it ends no case.
func (a *client) eventually(c engine.Claim) (got engine.Claim, held bool) {
	late := time.Now().Add(a.t.h.Patience)
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		a.mu.Lock()
		more := a.more // taken before asking: a notification that comes meanwhile counts
		a.mu.Unlock()
		if now, err := a.pollAfter(a.t.ctx(), c); err == nil {
			got = now
		}
		if got.State == engine.Held || got.State == engine.Gone || time.Now().After(late) {
			return got, got.State == engine.Held
		}
		select {
		case <-more:
		case <-time.After(pause):
		}
	}
}

// leave gives one claim up and answers in which state it was found.
func (a *client) leave(c engine.Claim) engine.Claim {
	a.t.Helper()
	got, err := a.Leave(a.t.ctx(), []engine.Claim{c})
	if err != nil {
		a.t.Fatalf("Leave: %v", err)
	}
	if len(got) != 1 || got[0].ID != c.ID || got[0].Name != c.Name || got[0].State == engine.Unknown {
		a.t.Fatalf("Leave of one claim without an error answered %v", got)
	}
	return got[0]
}

func (a *client) line(name string) engine.Queue {
	a.t.Helper()
	l, err := a.Queue(a.t.ctx(), name)
	if err != nil {
		a.t.Fatalf("Queue: %v", err)
	}
	return l
}
