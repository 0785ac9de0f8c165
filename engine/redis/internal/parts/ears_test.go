package parts

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/testutil"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/lab/servers"
)

// listener is one that subscribes to nothing, and says what it would have.
type listener struct {
	*testing.T
	ears    *Ears
	listens map[string]bool
}

func (l *listener) changes(when string, more, less []string) {
	l.Helper()
	gotMore, gotLess := l.ears.changes(l.listens)
	if !slices.Equal(gotMore, more) || !slices.Equal(gotLess, less) {
		l.Errorf("%s: got %q more and %q less, want %q and %q", when, gotMore, gotLess, more, less)
	}
	for _, channel := range gotMore {
		l.listens[channel] = true
	}
	for _, channel := range gotLess {
		delete(l.listens, channel)
	}
}

func TestEars(t *testing.T) {
	e := NewEars(func(name string) string { return "of " + name })
	l := &listener{t, e, map[string]bool{}}
	a, b := engine.NewID(), engine.NewID()
	began := e.Expect(a, "a", time.Minute)
	l.changes("nobody waits yet", nil, nil)
	if cs := e.On("of a"); len(cs) != 1 || cs[0].ID != a || cs[0].Name != "a" || cs[0].State != engine.Waiting {
		t.Errorf("who may have to wait is not told: %v", cs)
	}
	more := make(chan struct{}, 1)
	e.subscriptions[more] = nil
	if e.Listening("a", nil) {
		t.Error("it listens to what nobody waits for")
	}
	e.Waits(a)
	select {
	case <-more:
	default:
		t.Error("a subscription is not told what is wanted")
	}
	l.changes("one waits", []string{"of a"}, nil)
	if !e.Listening("a", nil) {
		t.Error("it does not listen")
	}
	time.Sleep(time.Millisecond)
	if again := e.Expect(a, "a", time.Minute); again != began {
		t.Errorf("asked again it has been asking since %v, not %v", again, began)
	}
	e.Expect(b, "a", time.Minute)
	e.Waits(b)
	l.changes("a second one", nil, nil)
	if cs := e.On("of a"); len(cs) != 2 {
		t.Errorf("%d are told, want 2", len(cs))
	}
	e.Forget(a)
	e.Forget(b)
	e.Forget(b)
	l.changes("nobody waits any more", nil, nil)
	now := e.channels["of a"].last
	e.prune(now + linger)
	e.Expect(a, "a", time.Minute)
	e.Forget(a)
	l.changes("a busy name stays listened to", nil, nil)
	e.prune(e.channels["of a"].last + linger + 1)
	l.changes("a name that nobody waits for is left", nil, []string{"of a"})
	e.Expect(a, "a", time.Minute)
	e.Waits(a)
	l.changes("waited for once more", []string{"of a"}, nil)
	l.listens = map[string]bool{}
	l.changes("a new connection listens to nothing by itself", []string{"of a"}, nil)
}

// What is never left does not stay for ever, nor does what nobody told was over.
func TestEarsForget(t *testing.T) {
	silent := NewEars(func(string) string { return "" })
	for _, e := range []*Ears{NewEars(func(string) string { return "one" }), silent} {
		for range 5000 {
			id := engine.NewID()
			e.Expect(id, "a", -time.Minute)
			e.Waits(id)
		}
		if n := len(e.claims); n > 1024 {
			t.Errorf("%d claims that are over are known", n)
		}
		for id := range e.claims {
			e.Forget(id)
		}
		e.prune(1 << 62)
		if len(e.claims)+len(e.channels) > 0 {
			t.Errorf("%d claims, %d channels", len(e.claims), len(e.channels))
		}
	}
}

// A server counts a subscription until it has left the channel, and a holder must know for as
// long that it is its own.
func TestWhoUnsubscribesListensUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	p := servers.ProxyTo(t, servers.Redis(t, nil).Addr)
	target, err := redisconn.ParseURL("redis://" + p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := redisconn.Dial(testutil.Within(t), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	e := NewEars(func(name string) string { return "of " + name })
	free := make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		over <- e.Listen(ctx, c, "own", Listener{
			Began: func() {}, Notified: func(string) {}, Tuned: func(_, _ []string) {},
			Free: func(_, _ string) { free <- struct{}{} },
		})
	}()
	a := engine.NewID()
	e.Expect(a, "a", time.Minute)
	e.Waits(a)
	<-free // it is subscribed
	p.HoldReply("UNSUBSCRIBE")
	e.Forget(a)
	testutil.Until(t, "it does not unsubscribe", func() bool { return p.Commands()["UNSUBSCRIBE"] > 0 })
	if !e.Listening("a", c) {
		t.Error("the server has not answered, and it is said not to listen")
	}
	p.ReleaseReply()
	testutil.Until(t, "it is said to listen for ever", func() bool { return !e.Listening("a", c) })
	e.Expect(a, "a", time.Minute)
	e.Waits(a)
	<-free
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if e.Listening("a", c) {
		t.Error("it listens without a subscription")
	}
}

func TestATellerThatHasEndedTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var notified int
		teller := NewTeller(func(engine.Claim) { notified++ })
		teller.Notify(engine.Claim{}, engine.Claim{})
		go teller.Notify(engine.Claim{})
		synctest.Wait()
		teller.End()
		teller.Notify(engine.Claim{})
		if notified != 3 {
			t.Errorf("told %d times, want 3", notified)
		}
	})
}

func TestTries(t *testing.T) {
	var tries Tries
	id := engine.NewID()
	says := func(when string, indeterminate bool) {
		t.Helper()
		if got := tries.Indeterminate(id); got != indeterminate {
			t.Errorf("%s: in doubt: %v, want %v", when, got, indeterminate)
		}
	}
	says("never tried", false)
	tries.Begin(id, time.Minute)
	says("under way", true)
	tries.Answered(id)
	says("answered", false)
	tries.Begin(id, time.Minute) // and is cut off
	tries.Begin(id, time.Minute)
	tries.Answered(id)
	says("one was cut off", true)
	tries.Left(id)
	says("left", false)
	tries.Answered(id)
	says("left, and then answered", false)
	for range 5000 {
		tries.Begin(engine.NewID(), -time.Hour)
	}
	if n := len(tries.open); n > 1024 {
		t.Errorf("%d tries that are long over are known", n)
	}
}
