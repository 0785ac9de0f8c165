package leasehold

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// checking is an engine whose server's settings a test changes.
type checking struct {
	*faulty
	mu      sync.Mutex
	err     error
	checks  int
	under   int
	most    int // at once
	hangs   chan struct{}
	bounded bool
	rough   bool // says what it found, and not that its context has ended
}

func (c *checking) Check(ctx context.Context) error {
	c.mu.Lock()
	c.checks++
	c.under++
	c.most = max(c.most, c.under)
	_, c.bounded = ctx.Deadline()
	hangs := c.hangs
	c.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.under--
	if ctx.Err() != nil && !c.rough {
		return ctx.Err()
	}
	return c.err
}

func (c *checking) now(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *checking) hang(until chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hangs = until
}

func checkingClient(w *world) (*Client, *checking, *received) {
	w.t.Helper()
	h := &received{}
	e := &checking{faulty: &faulty{Engine: w.store.Engine()}}
	c, err := New(w.timed(e), &Options{Observer: h.observe})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { c.Close() })
	synctest.Wait() // the first subscription has begun
	return c, e, h
}

var begins = engine.Claim{}

func TestSettingsAreLookedAtWhenASubscriptionBeginsAgain(t *testing.T) {
	bubble(t, func(w *world) {
		_, e, h := checkingClient(w)
		if e.checks != 0 {
			t.Errorf("%d looks, though Open has just looked", e.checks)
		}
		revokes := errors.New("maxmemory-policy is allkeys-lru: locks may be dropped; set noeviction")
		readOnly := errors.New("the server is read-only: nothing can be granted; promote it")
		for _, now := range []error{nil, revokes, revokes, readOnly, context.DeadlineExceeded, context.Canceled, nil, nil, revokes} {
			e.now(now)
			e.notify(begins)
			synctest.Wait()
		}
		if e.checks != 9 || !e.bounded {
			t.Errorf("%d looks, bounded: %v", e.checks, e.bounded)
		}
		var notified []error
		for _, ev := range h.of(EventSettings) {
			notified = append(notified, ev.Err)
		}
		if want := []error{revokes, readOnly, nil, revokes}; !slices.Equal(notified, want) {
			t.Errorf("told %v, want %v", notified, want)
		}
	})
}

func TestSettingsAreLookedAtOneCallAtATime(t *testing.T) {
	bubble(t, func(w *world) {
		c, e, h := checkingClient(w)
		e.hangs = make(chan struct{})
		for range 5 {
			e.notify(begins)
		}
		synctest.Wait()
		if e.checks != 1 {
			t.Errorf("%d looks at once", e.checks)
		}
		mustUnlock(t, mustLock(t, c, "x")) // nobody waits for it
		e.now(errors.New("read-only"))
		close(e.hangs)
		synctest.Wait()
		if e.checks != 2 || e.most != 1 {
			t.Errorf("%d looks, %d at once; want one more, for all that began meanwhile", e.checks, e.most)
		}
		if n := len(h.of(EventSettings)); n != 1 {
			t.Errorf("told %d times", n)
		}
	})
}

func TestTheSecondLookAtSettingsIsAloneToo(t *testing.T) {
	bubble(t, func(w *world) {
		_, e, _ := checkingClient(w)
		first, second := make(chan struct{}), make(chan struct{})
		e.hang(first)
		e.notify(begins)
		synctest.Wait()
		e.notify(begins)
		e.hang(second) // what began meanwhile has another look
		close(first)
		synctest.Wait()
		e.notify(begins)
		synctest.Wait()
		if e.checks != 2 {
			t.Errorf("%d looks; want the second to be under way alone", e.checks)
		}
		close(second)
		synctest.Wait()
		if e.checks != 3 || e.most != 1 {
			t.Errorf("%d looks, %d at once; want 3, one at a time", e.checks, e.most)
		}
	})
}

// What an engine that is being closed says of its server is no news.
func TestALookThatCloseEndedSaysNothing(t *testing.T) {
	bubble(t, func(w *world) {
		c, e, h := checkingClient(w)
		e.hangs, e.rough = make(chan struct{}), true
		e.now(errors.New("use of closed connection"))
		e.notify(begins)
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if told := h.of(EventSettings); e.checks != 1 || len(told) != 0 {
			t.Errorf("after %d looks told %+v, want nothing of one", e.checks, told)
		}
	})
}

func TestCloseDoesNotWaitForALookAtSettings(t *testing.T) {
	bubble(t, func(w *world) {
		c, e, h := checkingClient(w)
		e.hangs = make(chan struct{})
		e.notify(begins)
		synctest.Wait()
		start := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if d := time.Since(start); d != 0 || len(h.of(EventSettings)) != 0 {
			t.Errorf("Close took %v, told %v", d, h.of(EventSettings))
		}
	})
}
