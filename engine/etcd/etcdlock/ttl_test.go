package etcdlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/internal/session"
	"leasehold/engine/internal/testutil"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	testutil.HoldIfAsked(func(ctx context.Context, url string) (engine.Engine, error) { return Open(ctx, url) })
	goleak.VerifyTestMain(m)
}

// A holder with a TTL of two seconds is killed: the next holds after six fifths of that,
// in whole seconds, and about one more. Etcd looks twice a second whose lease has ended.
func TestTheNextHoldsSoonAfterAHolderWasKilled(t *testing.T) {
	t.Parallel() // it mostly waits
	url := "etcd://" + servers.Etcd(t, nil).Addr
	took := testutil.KilledEach(t, opens(t, url), url, testutil.Sized(5, 3), 100*time.Millisecond) // anywhere between two keep-alives
	// The fastest: a machine that is late may take longer, and none takes less than etcd and this engine do.
	if most := testutil.KilledTTL*6/5 + time.Second; took[0] > most {
		t.Errorf("the next held after %v at the soonest, want at most %v", took[0], most)
	}
}

// Each TTL has an etcd lease of its own, which all claims with it share, and is what they
// are granted.
func TestATTLIsGrantedAsItWasAskedFor(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	admin := dial(t, clientv3.Config{}, server.Addr)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	w.counted()
	leases := map[int64]int64{} // how long each lasts
	for _, ttl := range []time.Duration{2 * time.Second, 2 * time.Second, 1900 * time.Millisecond, 10 * time.Second, time.Minute} {
		c := joins(t, e, lasting(exclusive(fmt.Sprint(ttl, len(leases), engine.NewID().Secret())), ttl), engine.Held)
		if c.TTL != ttl {
			t.Errorf("%v are granted for %v", c.TTL, ttl)
		}
		if got := renew(t, e, c); got.TTL != ttl {
			t.Errorf("renewed, %v are granted for %v", got.TTL, ttl)
		}
		r, err := admin.TimeToLive(within(t), e.table.get(c.ID).lease())
		if err != nil {
			t.Fatal(err)
		}
		leases[int64(r.ID)] = r.GrantedTTL
		l, err := e.Queue(within(t), c.Name)
		if left := l.Claims[0].TTL; err != nil || left <= 0 || left > time.Duration(r.GrantedTTL)*time.Second {
			t.Errorf("of a lease of %d s %v are left, %v", r.GrantedTTL, left, err)
		}
	}
	var each []int64
	for _, ttl := range leases {
		each = append(each, ttl)
	}
	if slices.Sort(each); !slices.Equal(each, []int64{3, 12, 72}) {
		t.Errorf("leases of %v seconds", each)
	}
	if got := w.counted()["LeaseGrant"]; got != 2 { // that of a minute was there
		t.Errorf("%d leases were made", got)
	}
}

// As many TTLs as there may be leases; one more is refused in words, and goes once one of
// them is not used any more.
func TestOneTTLTooMany(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	held := []engine.Claim{joins(t, e, exclusive("a minute"), engine.Held)}
	for i := range session.MaxClasses - 1 {
		held = append(held, joins(t, e, lasting(exclusive(fmt.Sprint(i)), 10*time.Second<<i), engine.Held))
	}
	r := lasting(exclusive("one more"), 20*time.Hour)
	if _, err := e.Join(within(t), r); !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "different TTLs") {
		t.Fatalf("one more TTL: %v", err)
	}
	last := held[len(held)-1] // whose lease would outlive this test
	given := e.table.get(last.ID).lease()
	leave(t, e, last)
	joins(t, e, r, engine.Held)
	until(t, "the lease that nobody uses is revoked", func() bool {
		r, err := e.client.TimeToLive(within(t), given)
		return err == nil && r.TTL < 0
	})
}

// A TTL below what this etcd can grant is refused by whoever asks for one.
func TestATTLThatIsTooShortIsNotRaised(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := opens(t, "etcd://"+server.Addr)
	least := e.Guarantees().MinTTL
	if _, err := leasehold.New(e, &leasehold.Options{TTL: least - time.Millisecond}); err == nil || !strings.Contains(err.Error(), "below") {
		t.Errorf("%v of at least %v: %v", least-time.Millisecond, least, err)
	}
}

// The etcd lease of a detached claim goes with it, whether it held or waited.
func TestTheLeaseOfADetachedClaimGoesWithIt(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	detached := func() engine.Request {
		r := exclusive("x")
		r.Detached = true
		return r
	}
	holds, waits := joins(t, e, detached(), engine.Held), joins(t, e, detached(), engine.Waiting)
	for _, c := range []engine.Claim{waits, holds} {
		own := e.table.get(c.ID).lease()
		leave(t, e, c)
		if r, err := e.client.TimeToLive(within(t), own); err != nil || r.TTL >= 0 {
			t.Errorf("a claim that was %v has left, and its lease has %d s left, %v", c.State, r.TTL, err)
		}
	}
}

// A Join that was not answered has a lease already. Its claim may stand by another client's key.
func TestTheLeaseOfALostJoinGoesWithItsLeave(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	for name, state := range map[string]engine.State{"a": engine.Gone, "b": engine.Held} {
		r := detached(name, time.Minute)
		w.refuse.Store(true)
		_, err := e.Join(within(t), r)
		w.refuse.Store(false)
		own := e.table.get(r.ID).lease()
		if err == nil || own == 0 {
			t.Fatalf("void: the Join has lease %d, %v", own, err)
		}
		if state == engine.Held {
			joins(t, other, r, state)
		}
		if got := leave(t, e, engine.Claim{Name: name, ID: r.ID}); got != state {
			t.Errorf("it was found %v, want %v", got, state)
		}
		if r, err := e.client.TimeToLive(within(t), own); err != nil || r.TTL >= 0 {
			t.Errorf("a claim that was %v has left, and the lease of its lost Join has %d s left, %v", state, r.TTL, err)
		}
	}
}

// However a claim goes, or does not come to be, what it used of its class goes with it: else
// the etcd lease would be kept alive, and in the way of other TTLs, for as long as the client
// lives.
func TestNobodyUsesAClassAfterItsClaims(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	other := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil)
	e := start(t, dial(t, clientv3.Config{}, server.Addr).Client, nil) // of a minute, which is used
	brief := func(r engine.Request) engine.Request { return lasting(r, 10*time.Second) }
	joins(t, other, lasting(exclusive("taken"), time.Minute), engine.Held)
	for what, use := range map[string]func() error{
		"left": func() error {
			leave(t, e, joins(t, e, brief(exclusive("a")), engine.Held))
			return nil
		},
		"joined twice, and left": func() error {
			r := brief(exclusive("b"))
			joins(t, e, r, engine.Held)
			leave(t, e, joins(t, e, r, engine.Held))
			return nil
		},
		"refused room": func() error {
			r := brief(exclusive("taken"))
			r.NoWait = true
			joins(t, e, r, engine.Gone)
			return nil
		},
		"refused for its limit": func() error {
			_, err := e.Join(within(t), brief(permits("taken", 1, 3)))
			if !errors.Is(err, engine.ErrLimit) {
				return fmt.Errorf("got %v, want %v", err, engine.ErrLimit)
			}
			return nil
		},
		"replaced": func() error {
			next := lasting(exclusive("c"), time.Minute)
			next.Replaces = joins(t, e, brief(exclusive("c")), engine.Held).ID
			leave(t, e, joins(t, e, next, engine.Held))
			return nil
		},
		"detached, and left": func() error {
			r := brief(exclusive("d"))
			r.Detached = true
			leave(t, e, joins(t, e, r, engine.Held))
			return nil
		},
		"revoked, and left": func() error {
			c := joins(t, e, brief(exclusive("e")), engine.Held)
			if err := other.Revoke(within(t), c.Name, c.Ticket, false); err != nil {
				return err
			}
			renew(t, e, c)
			_, err := e.Leave(within(t), []engine.Claim{c})
			return err
		},
	} {
		if err := use(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		e.mu.Lock()
		e.classes.Sweep(boottime.Now() + session.Idle)
		for _, c := range e.classes.Opened() {
			if c.TTL != time.Minute {
				t.Errorf("%s: the class of %v is used still", what, c.TTL)
				e.classes.Discard(c) // of the next
			}
		}
		e.mu.Unlock()
	}
}

// A claim that is being given up refuses no TTL for good: a Join waits until it is gone.
func TestATTLIsNotRefusedForAClaimThatIsGivenUp(t *testing.T) {
	t.Parallel()
	server := servers.Etcd(t, nil)
	w := dial(t, clientv3.Config{}, server.Addr)
	e := start(t, w.Client, nil)
	held := []engine.Claim{joins(t, e, exclusive("a minute"), engine.Held)}
	for i := range session.MaxClasses - 2 {
		held = append(held, joins(t, e, lasting(exclusive(fmt.Sprint(i)), 10*time.Second<<i), engine.Held))
	}
	waits := func(when string) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err := e.Join(ctx, lasting(exclusive("one more"), 20*time.Hour))
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, engine.ErrRefused) {
			t.Errorf("%s: %v", when, err)
		}
	}
	unanswered := lasting(exclusive("unanswered"), 10*time.Hour)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.before("Txn", cancel) // not earlier: the next transaction would be stuck instead
	w.stick("Txn")
	if _, err := e.Join(ctx, unanswered); err == nil {
		t.Fatal("it was answered")
	}
	waits("nobody knows whether it stands")
	if _, err := e.Leave(within(t), []engine.Claim{{Name: unanswered.Name, ID: unanswered.ID}}); err != nil {
		t.Fatal(err)
	}
	last := joins(t, e, lasting(exclusive("last"), 15*time.Hour), engine.Held)
	w.before("Txn", func() { waits("it is being left") })
	leave(t, e, last)
	joins(t, e, lasting(exclusive("one more"), 20*time.Hour), engine.Held)
	for _, c := range held {
		if got := renew(t, e, c); got.State != engine.Held {
			t.Errorf("%q is %v", c.Name, got.State)
		}
	}
}
