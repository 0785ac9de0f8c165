package zklock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/internal/testutil"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	testutil.HoldIfAsked(func(ctx context.Context, url string) (engine.Engine, error) { return Open(ctx, url) })
	goleak.VerifyTestMain(shared.Around(m))
}

// A holder with a TTL of two seconds is killed: the next holds after twice that, which is
// its session, and two ticks of the server.
func TestTheNextHoldsSoonAfterAHolderWasKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	rounds := 4
	if testing.Short() {
		rounds = 3
	}
	s := beside(t)
	const most = 2*testutil.KilledTTL + 2*servers.DefaultTick
	// On a busy machine the server may be late for most of a set.
	var took time.Duration
	for range 3 {
		took = testutil.Killed(t, open(t, on(s)).Engine, "zookeeper://"+s.Addr, rounds, testutil.KilledTTL/12) // anywhere between two proofs
		if took <= most {
			return
		}
	}
	t.Errorf("the next held after %v, want at most %v", took, most)
}

// Each TTL has a session of its own, which all claims with it share, and is what they are
// granted.
func TestATTLIsGrantedAsItWasAskedFor(t *testing.T) {
	s := ownZooKeeper(t)
	a := open(t, on(s))
	// Those of opening, and of who waited for the server, may be open for a moment yet.
	connections := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("the server has not %d connections", want), func() bool {
			n, err := s.Monitored("zk_num_alive_connections")
			return err == nil && n == want
		})
	}
	const before = 1 + 1 // its own, and that which asks for the number
	connections(before)
	sessions := map[int64]time.Duration{}
	for i, ttl := range []time.Duration{2 * time.Second, 2 * time.Second, 1900 * time.Millisecond, 5 * time.Second, a.usual} {
		r := exclusive(fmt.Sprint(i))
		r.TTL = ttl
		c, err := a.Join(within(t), r)
		if err != nil || c.TTL != ttl {
			t.Fatalf("%v are granted for %v, %v", c.TTL, ttl, err)
		}
		got, err := a.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: a.usual}})
		if err != nil || got[0].TTL != ttl {
			t.Errorf("renewed, %v are granted for %v, %v", got, ttl, err)
		}
		l, err := a.Queue(within(t), c.Name)
		if err != nil || l.Claims[0].TTL != ttl {
			t.Errorf("shown are %v of %v, %v", l.Claims, ttl, err)
		}
		of, _ := a.find(c.Name, c.ID)
		now, _ := of.link.current()
		sessions[now.id] = now.timeout
	}
	var each []time.Duration
	for _, timeout := range sessions {
		each = append(each, timeout)
	}
	if slices.Sort(each); !slices.Equal(each, []time.Duration{4 * time.Second, 10 * time.Second, 2 * a.usual}) {
		t.Errorf("sessions of %v", each)
	}
	connections(before + 2)
}

// As many TTLs as there may be sessions; one more is refused in words, and goes once one of
// them is not used any more, whose session ends.
func TestOneTTLTooMany(t *testing.T) {
	a := open(t, on(zooKeeper(t))) // one, which nobody uses yet: the longest
	a.hold(t, exclusive("longest"))
	asksIn := func(ctx context.Context, i int) (engine.Claim, error) {
		r := exclusive(fmt.Sprint(i))
		r.TTL = time.Duration(i) * time.Second
		return a.Join(ctx, r)
	}
	asks := func(i int) (engine.Claim, error) { return asksIn(within(t), i) }
	var held []engine.Claim
	for i := range session.MaxClasses - 1 {
		c, err := asks(i + 2) // a session of four seconds at least, which no short absence ends
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	if _, err := asks(9); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "different TTLs") {
		t.Fatalf("one more TTL: %v", err)
	}
	// While a claim is given up another TTL waits for its class.
	of, c := a.find(held[2].Name, held[2].ID)
	a.mu.Lock()
	of.m.Leave(c)
	a.mu.Unlock()
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := asksIn(soon, 9); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrRefused) {
		t.Errorf("while one is given up: %v", err)
	}
	a.mu.Lock()
	a.spawn(func() { of.remove(c) })
	a.mu.Unlock()
	if _, err := asks(9); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a session that nobody uses goes on", func() bool { return of.life.Err() != nil })
}

// However a claim goes, or does not come to be, what it used of its class goes with it: else
// the session would be kept alive, and in the way of other TTLs, for as long as the client
// lives.
func TestNobodyUsesAClassAfterItsClaims(t *testing.T) {
	s := zooKeeper(t)
	other, a := open(t, on(s)), open(t, on(s))
	other.hold(t, exclusive("taken"))
	const ttl = 2 * time.Second
	brief := func(r engine.Request) engine.Request {
		r.TTL = ttl
		return r
	}
	for what, use := range map[string]func() error{
		"left": func() error {
			a.leave1(t, testutil.Joins(t, a, brief(exclusive("a")), engine.Held))
			return nil
		},
		"joined twice, and left": func() error {
			r := brief(exclusive("b"))
			testutil.Joins(t, a, r, engine.Held)
			a.leave1(t, testutil.Joins(t, a, r, engine.Held))
			return nil
		},
		"joined twice at once, and left": func() error {
			r := brief(exclusive("c"))
			c := testutil.Joins(t, a, r, engine.Held)
			class, err := a.use(within(t), ttl) // as a call does that has not found it
			if err != nil {
				return err
			}
			if _, err := class.Session.join(within(t), r, ttl, class); err != nil {
				return err
			}
			a.leave1(t, c)
			return nil
		},
		"refused room": func() error {
			r := brief(exclusive("taken"))
			r.NoWait = true
			testutil.Joins(t, a, r, engine.Gone)
			return nil
		},
		"refused for its limit": func() error {
			_, err := a.Join(within(t), brief(want("taken", 1, 3)))
			if !errors.Is(err, engine.ErrLimit) {
				return fmt.Errorf("got %v, want %v", err, engine.ErrLimit)
			}
			return nil
		},
		"refused for its limit, in the place of another": func() error {
			r := brief(want("taken", 1, 3))
			r.Replaces = engine.NewID()
			if _, err := a.Join(within(t), r); !errors.Is(err, engine.ErrLimit) {
				return fmt.Errorf("got %v, want %v", err, engine.ErrLimit)
			}
			return nil
		},
		"not waited for": func() error {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r := exclusive("e")
			r.TTL = 2 * ttl // whose session has not begun
			if _, err := a.Join(ctx, r); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("got %v, want %v", err, context.Canceled)
			}
			return nil
		},
		"replaced": func() error {
			next := a.lasts(exclusive("d"))
			next.Replaces = testutil.Joins(t, a, brief(exclusive("d")), engine.Held).ID
			a.leave1(t, testutil.Joins(t, a, next, engine.Held))
			return nil
		},
	} {
		if err := use(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		a.mu.Lock()
		a.classes.Sweep(boottime.Now() + session.Idle)
		for _, c := range a.classes.Opened() {
			t.Errorf("%s: the class of %v is used still", what, c.TTL)
			a.classes.Discard(c) // of the next
		}
		a.mu.Unlock()
	}
}

// A session that the servers refuse may be had later: who asks for that TTL again is not
// told the same for ever.
func TestASessionThatWasRefusedIsTriedAnew(t *testing.T) {
	a := open(t, on(zooKeeper(t)))
	const ttl = 2 * time.Second
	c, err := a.use(within(t), ttl)
	if err != nil {
		t.Fatal(err)
	}
	refused := engine.Refuse("not now")
	a.mu.Lock()
	c.Session.failed = refused
	a.mu.Unlock()
	if _, err := a.use(within(t), ttl); !errors.Is(err, refused) {
		t.Fatalf("got %v, want %v", err, refused)
	}
	again, err := a.use(within(t), ttl)
	if err != nil || again == c {
		t.Errorf("asked for once more: %v, the same: %v; want another session", err, again == c)
	}
}

// One session may be without a server while another has one, as behind a proxy. Whoever looks
// does so by the other.
func TestWhoLooksDoesSoByASessionThatIsServed(t *testing.T) {
	a := open(t, on(zooKeeper(t)))
	held := a.hold(t, exclusive("x"))
	a.wire.mu.Lock()
	before := maps.Clone(a.wire.conns)
	a.wire.mu.Unlock()
	class, err := a.use(within(t), 5*time.Second) // the latest
	if err != nil {
		t.Fatal(err)
	}
	defer a.done(class)
	a.wire.mu.Lock()
	a.wire.dead = true // for those that connect
	for c := range a.wire.conns {
		if _, ok := before[c]; !ok {
			c.Conn.Close()
		}
	}
	a.wire.mu.Unlock()
	defer a.wire.revive()
	eventually(t, "a server serves it still", func() bool {
		_, up := class.Session.link.current()
		return !up
	})
	ctx := within(t)
	if l, err := a.Queue(ctx, "x"); err != nil || len(l.Claims) != 1 {
		t.Errorf("Queue: %v, %v", l.Claims, err)
	}
	for _, err := range a.Queues(ctx, "") {
		if err != nil {
			t.Errorf("Queues: %v", err)
		}
	}
	if err := a.Check(ctx); err != nil {
		t.Errorf("Check: %v", err)
	}
	if err := a.Revoke(ctx, "x", held.Ticket, false); err != nil {
		t.Errorf("Revoke: %v", err)
	}
}

// What a node says that it is granted is shown, unless it cannot be.
func TestATTLThatCannotBeIsNotShown(t *testing.T) {
	for ms, want := range map[int64]time.Duration{
		1: time.Millisecond, 1500: 1500 * time.Millisecond, 60_000: time.Minute,
		0: time.Minute, -1: time.Minute, 60_001: time.Minute, 1 << 62: time.Minute,
	} {
		if got := (&content{TTL: ms}).ttl(time.Minute); got != want {
			t.Errorf("of %d ms shown are %v, want %v", ms, got, want)
		}
	}
}

// Servers that keep a session for longer than it was asked for would keep the claims of a
// dead client for as long: there is no such session.
func TestASessionThatTheServersRaiseIsRefused(t *testing.T) {
	a := open(t, on(zooKeeper(t)))
	a.mu.Lock()
	of := a.newClaimant(a.shortest / 3) // two thirds of the shortest session: as if the servers had been set anew
	a.mu.Unlock()
	if err := of.ready(within(t)); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "open this client anew") {
		t.Errorf("got %v, want a refusal", err)
	}
	if err := of.close(); err != nil {
		t.Error(err)
	}
}
