package metrics_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/metrics"
)

// configured is an engine whose server's settings the test changes.
type configured struct {
	engine.Engine
	changed func(engine.Claim)
	wrong   error
}

func (c *configured) Watch(ctx context.Context, changed func(engine.Claim)) error {
	c.changed = changed
	return c.Engine.Watch(ctx, changed)
}

func (c *configured) Check(context.Context) error { return c.wrong }

// set has the settings read again, as a new subscription does.
func (c *configured) set(wrong error) {
	c.wrong = wrong
	c.changed(engine.Claim{})
	synctest.Wait()
}

// One client that has learned of wrong settings is enough, and one that is closed is not:
// nobody would ever say that all is well again.
func TestMisconfiguredIsWhatOpenClientsHaveLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Options{})
		first, second := &configured{Engine: memlock.New()}, &configured{Engine: memlock.New()}
		a, b := client(t, m, inBubble(first), nil), client(t, m, inBubble(second), nil)
		defer b.Close()
		synctest.Wait()
		is := func(want float64) {
			t.Helper()
			if got := values(m)["leasehold.engine.misconfigured memory"]; got != want {
				t.Errorf("misconfigured is %v, want %v", got, want)
			}
		}
		is(0)
		wrong := errors.New("the server is read-only: nothing can be granted; promote it")
		first.set(wrong)
		is(1)
		second.set(wrong)
		second.set(nil)
		is(1)
		first.set(nil)
		is(0)
		first.set(wrong)
		is(1)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		is(0)
	})
}

// The gauges of several clients: sums of what they do, and the worst of what they have.
func TestGaugesOfSeveralClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Options{})
		sick := &silent{Engine: memlock.New()}
		options := &leasehold.Options{TTL: 10 * time.Second}
		one := client(t, m, inBubble(memlock.New()), options)
		other := client(t, m, inBubble(sick), options)
		last := client(t, m, inBubble(memlock.New()), &leasehold.Options{TTL: time.Minute})
		all := []*leasehold.Client{one, other, last}
		for _, key := range []string{"leasehold.trust memory", "leasehold.trust.remaining memory"} {
			if v, is := values(m)[key]; is {
				t.Errorf("%s is %v, without a lease", key, v)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		for _, c := range all {
			if _, err := c.Lock(ctx, "x"); err != nil {
				t.Fatal(err)
			}
			go func() { _, err := c.Lock(ctx, "x"); gaveUp <- err }()
		}
		synctest.Wait()
		if got := values(m); got["leasehold.held memory"] != 3 || got["leasehold.waiting memory"] != 3 {
			t.Errorf("got %v, want three leases, and three calls that wait", got)
		}
		time.Sleep(4 * time.Second)
		sick.fails.Store(true)
		time.Sleep(7 * time.Second)
		if got := values(m); got["leasehold.trust memory"] >= 0.4 || got["leasehold.trust memory"] <= 0 || got["leasehold.trust.remaining memory"] >= 4 || got["leasehold.engine.up memory"] != 0 {
			t.Errorf("got %v, want what the client in the middle has, whose engine does not answer", got)
		}
		cancel()
		for _, c := range all {
			<-gaveUp
			_ = c.Close() // one of them has lost its lease
		}
	})
}

func TestHandoffsAndRevocationsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Options{})
		c := client(t, m, inBubble(memlock.New()), nil)
		l, err := c.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		leases := make(chan *leasehold.Lease)
		go func() {
			l, err := c.Lock(t.Context(), "x")
			if err != nil {
				t.Error(err)
			}
			leases <- l
		}()
		synctest.Wait()
		if err := l.Unlock(); err != nil {
			t.Fatal(err)
		}
		l = <-leases
		if err := c.RevokeNow(t.Context(), "x", l.Token().Ticket()); err != nil {
			t.Fatal(err)
		}
		<-l.Context().Done()
		synctest.Wait()
		got := values(m)
		for key, want := range map[string]float64{
			"leasehold.granted memory claim": 1, "leasehold.granted memory handoff": 1,
			"leasehold.revoked memory": 1, "leasehold.lost memory revoked": 1, "leasehold.lost memory expired": 0,
		} {
			if got[key] != want {
				t.Errorf("%s is %v, want %v", key, got[key], want)
			}
		}
		c.Close()
	})
}

// A program that makes a client for each job, and is never read, keeps none of them.
func TestClosedClientsAreNotKept(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	var closed []weak.Pointer[leasehold.Client]
	for range 20 {
		c, err := m.Client(memlock.New(), "memory", nil)
		if err != nil {
			t.Fatal(err)
		}
		closed = append(closed, weak.Make(c))
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	kept := len(closed)
	for range 100 {
		runtime.GC()
		kept = 0
		for _, c := range closed {
			if c.Value() != nil {
				kept++
			}
		}
		if kept <= 2 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	if kept > 2 { // the last one leaves with the next that is made
		t.Errorf("%d of %d closed clients are kept", kept, len(closed))
	}
	runtime.KeepAlive(m)
}
