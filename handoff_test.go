package leasehold

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/internal/claims"
)

func TestUncontendedPairIsTwoCalls(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		for range 10 {
			mustUnlock(t, mustLock(t, c, "x"))
		}
		if j, r, l := f.calls(); j != 10 || r != 0 || l != 10 {
			t.Errorf("10 pairs cost %d joins, %d renews, %d leaves", j, r, l)
		}
	})
}

// crowd has n goroutines of c lock name rounds times each and counts what they
// add to an unprotected number.
func crowd(t *testing.T, c *Client, name string, n, rounds int) (count int, tokens []Token) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for range rounds {
				l, err := c.Lock(context.Background(), name)
				if err != nil {
					t.Error(err)
					return
				}
				count++
				tokens = append(tokens, l.Token())
				if err := l.Unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return count, tokens
}

func TestLocalHandoffPassesOneClaimAround(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		first := mustLock(t, c, "x") // so that all queue before anything moves
		go func() {
			synctest.Wait()
			mustUnlock(t, first)
		}()
		count, tokens := crowd(t, c, "x", 50, 100)
		if count != 5000 {
			t.Errorf("counted %d of 5000: two held at once", count)
		}
		for i := 1; i < len(tokens); i++ {
			if tokens[i] <= tokens[i-1] {
				t.Fatalf("token %d after %d", tokens[i], tokens[i-1])
			}
		}
		// 1,024 leases a claim, 5,001 leases: it is replaced four times while
		// others queue. (The last goroutines may run some rounds when nobody does,
		// with claims of their own, which come when the last one was left.)
		replaced := 0
		for _, r := range f.joins[1:] {
			if r.Replaces == (engine.ID{}) {
				break
			}
			replaced++
		}
		if replaced > 4 {
			t.Errorf("%d claims were replaced in 5,001 leases", replaced)
		}
	})
}

func TestLocalHandoffIsBoundedWhileAnotherProcessWaits(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		stop := make(chan struct{})
		var turns atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					l, err := a.Lock(context.Background(), "x")
					if err != nil {
						t.Error(err)
						return
					}
					turns.Add(1)
					time.Sleep(time.Microsecond)
					mustUnlock(t, l)
				}
			})
		}
		time.Sleep(time.Millisecond)
		l, err := b.Lock(context.Background(), "x")
		if err != nil {
			t.Fatal(err)
		}
		before := turns.Load()
		synctest.Wait() // a heard that b held; nothing of a may run
		if turns.Load() != before {
			t.Error("two held at once")
		}
		for range 20 {
			mustUnlock(t, l)
			before = turns.Load()
			if l, err = b.Lock(context.Background(), "x"); err != nil {
				t.Fatal(err)
			}
			if n := turns.Load() - before; n > claims.HandoffBudget+2 {
				t.Errorf("%d turns of one process while another waited, want at most %d", n, claims.HandoffBudget+2)
			}
		}
		close(stop)
		mustUnlock(t, l)
		wg.Wait()
	})
}

func TestHandoffTimeEndsLocalHandoffToo(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		l := mustLock(t, a, "x")
		var order []string
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				l := mustLock(t, a, "x")
				order = append(order, "a")
				time.Sleep(8 * time.Millisecond)
				mustUnlock(t, l)
			})
		}
		synctest.Wait()
		wg.Go(func() {
			l := mustLock(t, b, "x")
			order = append(order, "b")
			mustUnlock(t, l)
		})
		synctest.Wait()
		mustUnlock(t, l)
		wg.Wait()
		at := -1
		for i, who := range order {
			if who == "b" {
				at = i
			}
		}
		if at < 1 || at > 3 {
			t.Errorf("order %v: local handoff ends after 10 ms, each holds 8 ms", order)
		}
	})
}

func TestReadersShareOneClaim(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(nil)
		var leases []*Lease
		for range 10 {
			l, err := c.RLock(context.Background(), "x")
			if err != nil {
				t.Fatal(err)
			}
			leases = append(leases, l)
		}
		if j, _, _ := f.calls(); j != 1 {
			t.Errorf("%d joins for 10 readers", j)
		}
		for _, l := range leases {
			if l.Token() != leases[0].Token() {
				t.Error("readers of one claim with different tokens")
			}
		}
		// A local writer: later readers must not pass it.
		writer := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		late := async(func() (*Lease, error) { return c.RLock(context.Background(), "x") })
		synctest.Wait()
		if len(late) > 0 {
			t.Fatal("a reader passed a waiting writer")
		}
		for _, l := range leases {
			if len(writer) > 0 {
				t.Fatal("writer and reader at once")
			}
			mustUnlock(t, l)
		}
		o := <-writer
		if o.err != nil || len(late) > 0 {
			t.Fatal("the writer was next")
		}
		mustUnlock(t, o.l)
		if o = <-late; o.err != nil {
			t.Fatal(o.err)
		}
		mustUnlock(t, o.l)
		w.wantQueue("x", nil, nil)
	})
}

func TestReadersOfTwoProcessesLetAWriterIn(t *testing.T) {
	bubble(t, func(w *world) {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 2 {
			c, _ := w.client(nil)
			for range 8 {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						l, err := c.RLock(context.Background(), "x")
						if err != nil {
							t.Error(err)
							return
						}
						time.Sleep(3 * time.Millisecond)
						mustUnlock(t, l)
					}
				})
			}
		}
		time.Sleep(50 * time.Millisecond)
		c, _ := w.client(nil)
		for range 20 {
			start := w.clock()
			mustUnlock(t, mustLock(t, c, "x"))
			if d := w.clock() - start; d > 100*time.Millisecond {
				t.Errorf("the writer waited %v for readers of 3 ms", d)
			}
		}
		close(stop)
		wg.Wait()
	})
}

func TestHandedOffClaimThatIsLostIsRejoined(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{TTL: 3 * time.Second})
		l := mustLock(t, c, "x")
		next := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		f.set(func(f *faulty) { f.renew = cutRenew })
		time.Sleep(4 * time.Second)
		if l.Valid() {
			t.Fatal("was to be lost")
		}
		f.set(func(f *faulty) { f.renew = nil })
		o := <-next
		if o.err != nil || !o.l.Valid() {
			t.Fatalf("error %v", o.err)
		}
		if o.l.Token() <= l.Token() {
			t.Errorf("token %d after %d", o.l.Token(), l.Token())
		}
		if err := l.Unlock(); !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		if !o.l.Valid() {
			t.Error("unlocking a lost lease ended the next one")
		}
		mustUnlock(t, o.l)
	})
}

func TestKeepSavesTheRoundTrips(t *testing.T) {
	bubble(t, func(w *world) {
		c, f := w.client(&Options{IdleTimeout: 10 * time.Second, Label: "c"})
		other, _ := w.client(&Options{Label: "other"})
		for range 100 {
			mustUnlock(t, mustLock(t, c, "x"))
		}
		if j, r, l := f.calls(); j != 1 || r != 0 || l != 0 {
			t.Errorf("100 pairs cost %d joins, %d renews, %d leaves", j, r, l)
		}
		// Somebody else wants it: given back at once.
		before := w.clock()
		l := mustLock(t, other, "x")
		if d := w.clock() - before; d != 0 {
			t.Errorf("an idle claim kept another waiting for %v", d)
		}
		mustUnlock(t, l)
		// A TryLock counts as wanting it, also if it is refused (which is chance:
		// the name may have been given back by the time it looks who holds it).
		mustUnlock(t, mustLock(t, c, "x"))
		synctest.Wait()
		if l, err := other.TryLock(context.Background(), "x"); err == nil {
			mustUnlock(t, l)
		} else if !errors.Is(err, ErrHeld) {
			t.Error(err)
		}
		synctest.Wait()
		if l, err := other.TryLock(context.Background(), "x"); err != nil {
			t.Errorf("an idle claim refused a second TryLock: %v", err)
		} else {
			mustUnlock(t, l)
		}
		// Nobody wants it: given back after Keep.
		mustUnlock(t, mustLock(t, c, "x"))
		time.Sleep(9 * time.Second)
		w.wantQueue("x", []string{"c"}, nil)
		time.Sleep(2 * time.Second)
		w.wantQueue("x", nil, nil)
	})
}

func TestContendedIsNotified(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		for name, waiter := range map[string]*Client{"another process": b, "a sibling": a} {
			l := mustLock(t, a, name)
			select {
			case <-l.Contended():
				t.Errorf("%s: contended by nobody", name)
			default:
			}
			got := async(func() (*Lease, error) { return waiter.Lock(context.Background(), name) })
			synctest.Wait()
			select {
			case <-l.Contended():
			default:
				t.Errorf("%s waits and the holder was not told", name)
			}
			mustUnlock(t, l)
			mustUnlock(t, (<-got).l)
		}
	})
}

func TestSemaphore(t *testing.T) {
	bubble(t, func(w *world) {
		var in, most atomic.Int32
		var wg sync.WaitGroup
		for range 4 {
			c, _ := w.client(nil)
			for range 10 {
				wg.Go(func() {
					l, err := c.Acquire(context.Background(), "sem", 2, 7)
					if err != nil {
						t.Error(err)
						return
					}
					if n := in.Add(2); n > most.Load() {
						most.Store(n)
					}
					time.Sleep(time.Millisecond)
					in.Add(-2)
					mustUnlock(t, l)
				})
			}
		}
		wg.Wait()
		if n := most.Load(); n != 6 {
			t.Errorf("at most %d permits were held of 7, want 6", n)
		}
	})
}

func TestRevokedHolderIsNotified(t *testing.T) {
	bubble(t, func(w *world) {
		a, _ := w.client(nil)
		b, _ := w.client(nil)
		l := mustLock(t, a, "x")
		waiting := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		synctest.Wait()
		if err := b.Revoke(context.Background(), "x", l.Token().Ticket()+1); err == nil {
			queue, _ := b.Queue(context.Background(), "x")
			if len(queue.Claims) != 1 {
				t.Errorf("revoking the waiter left %v", queue)
			}
		}
		if o := <-waiting; !errors.Is(o.err, ErrRevoked) {
			t.Errorf("revoked waiter: %v", o.err)
		}
		if err := b.Revoke(context.Background(), "x", 1); !errors.Is(err, engine.ErrNoClaim) {
			t.Error(err)
		}
		if err := b.Revoke(context.Background(), "x", l.Token().Ticket()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if l.Valid() || !errors.Is(context.Cause(l.Context()), ErrRevoked) {
			t.Error("the holder was not told")
		}
		next := async(func() (*Lease, error) { return b.Lock(context.Background(), "x") })
		synctest.Wait()
		if len(next) > 0 {
			t.Fatal("a marked holder's room was given away before it left")
		}
		if err := l.Unlock(); !errors.Is(err, ErrRevoked) || !errors.Is(err, ErrLost) {
			t.Error(err)
		}
		mustUnlock(t, (<-next).l)
	})
}

// Revoke waits for a holder that does not hear of it, RevokeNow does not.
func TestRevokeNowFreesTheNameAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		a, f := w.client(nil)
		b, _ := w.client(nil)
		l := mustLock(t, a, "x")
		synctest.Wait()
		f.set(func(f *faulty) { f.deaf = true })
		if err := b.Revoke(context.Background(), "x", l.Token().Ticket()); err != nil {
			t.Fatal(err)
		}
		if got, err := b.TryLock(context.Background(), "x"); !errors.Is(err, ErrHeld) {
			t.Fatalf("after Revoke: got %v, %v, want %v", got, err, ErrHeld)
		}
		if err := b.RevokeNow(context.Background(), "x", l.Token().Ticket()); err != nil {
			t.Fatal(err)
		}
		next, err := b.TryLock(context.Background(), "x")
		if err != nil {
			t.Fatalf("after RevokeNow: got %v, want a lease", err)
		}
		mustUnlock(t, next)
		time.Sleep(DefaultTTL) // its next renewal says so
		if err := l.Unlock(); !errors.Is(err, ErrLost) {
			t.Errorf("Unlock of what was revoked: got %v, want %v", err, ErrLost)
		}
	})
}

// A lease says what kind of hold it is.
func TestALeaseSaysItsMode(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(nil)
		ctx := context.Background()
		for want, obtain := range map[engine.Modes]func() (*Lease, error){
			engine.Exclusive: func() (*Lease, error) { return c.Lock(ctx, "a") },
			engine.Shared:    func() (*Lease, error) { return c.RLock(ctx, "b") },
			engine.Permits:   func() (*Lease, error) { return c.Acquire(ctx, "c", 2, 3) },
		} {
			l, err := obtain()
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Mode(); got != want {
				t.Errorf("got the mode %v, want %v", got, want)
			}
			mustUnlock(t, l)
		}
	})
}

func TestCloseEndsEverything(t *testing.T) {
	bubble(t, func(w *world) {
		c, _ := w.client(&Options{Label: "c"})
		l := mustLock(t, c, "x")
		waiting := async(func() (*Lease, error) { return c.Lock(context.Background(), "x") })
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if o := <-waiting; !errors.Is(o.err, ErrClosed) {
			t.Error(o.err)
		}
		if l.Valid() || !errors.Is(context.Cause(l.Context()), ErrClosed) {
			t.Error("a lease outlived its client")
		}
		if err := l.Unlock(); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if _, err := c.Lock(context.Background(), "x"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		w.wantQueue("x", nil, nil)
	})
}
