package sqllock

import (
	"context"
	"errors"
	"math"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

var errFull, errBroken = errors.New("too many connections"), errors.New("broken")

// few is a pool of a server that has so many connections and no more.
type few struct {
	mu      sync.Mutex
	free    []int
	left    int // that can be made
	made    int
	refused chan struct{}
	fallen  map[int]bool
	says    error // to who is refused
}

func newFew(most int) *few {
	return &few{left: most, refused: make(chan struct{}, 1000), fallen: map[int]bool{}, says: errFull}
}

func (f *few) Take(context.Context) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch n := len(f.free); {
	case n > 0:
		c := f.free[n-1]
		f.free = f.free[:n-1]
		return c, nil
	case f.left == 0:
		f.refused <- struct{}{}
		return 0, f.says
	}
	f.left--
	f.made++
	return f.made, nil
}

func (f *few) Give(c int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fallen[c] {
		f.left++
		return
	}
	f.free = append(f.free, c)
}

func (f *few) Sound(c int, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if errors.Is(err, errBroken) {
		f.fallen[c] = true
	}
	return !f.fallen[c]
}

func (f *few) Stands(_ context.Context, c int, _ time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.fallen[c]
}

func (f *few) Full(err error) bool { return errors.Is(err, errFull) }

func (f *few) idle() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.free)
}

// used makes a call, and is the connection that it had.
func used(t *testing.T, p *Pool[int], k Kind) (had int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one that is never given back is waited for in vain
	defer cancel()
	if err := p.Do(ctx, k, func(c int) error { had = c; return nil }); err != nil {
		t.Fatal(err)
	}
	return had
}

// under is a call that has a connection until end is called.
func under(t *testing.T, p *Pool[int], k Kind, err error) (end func()) {
	t.Helper()
	began, ends, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		if got := p.Do(t.Context(), k, func(int) error { close(began); <-ends; return err }); !errors.Is(got, err) {
			t.Errorf("a call says %v, want %v", got, err)
		}
	}()
	<-began
	return func() { close(ends); <-done }
}

// The connection of the first Join is for renewals, again and again, and nobody else has it.
func TestOneConnectionIsForRenewals(t *testing.T) {
	p := NewPool[int](newFew(3), true)
	claims(p, 2)
	kept := used(t, p, Joining)
	for range 3 {
		for _, k := range []Kind{Other, Joining} {
			if used(t, p, k) == kept {
				t.Fatalf("another call has the connection of renewals")
			}
		}
		if had := used(t, p, Renewing); had != kept {
			t.Fatalf("a renewal has connection %d, not %d", had, kept)
		}
	}
	// Two at once: the second goes beside, and one is kept after both.
	end := under(t, p, Renewing, nil)
	if used(t, p, Renewing) == kept {
		t.Error("two renewals have one connection")
	}
	end()
	if used(t, p, Other) == used(t, p, Renewing) {
		t.Error("after two renewals at once none is kept")
	}
}

// A client that has one claim at a time, or none, needs one connection of the server's: nothing
// is renewed while it joins or leaves. What takes the kept one keeps no other from a lease.
func TestAClientOfOneClaimTakesOneConnection(t *testing.T) {
	f := newFew(3)
	p := NewPool[int](f, true)
	for range 3 {
		claims(p, 1)
		used(t, p, Joining)
		used(t, p, Renewing)
		claims(p, 0)
		used(t, p, Other)
	}
	if f.made != 1 {
		t.Fatalf("it took %d connections", f.made)
	}
	claims(p, 1)
	kept := used(t, p, Joining)
	if used(t, p, Other) == kept {
		t.Error("a call has the connection of renewals while there is a claim")
	}
	claims(p, 2)
	if used(t, p, Joining) == kept {
		t.Error("a Join has the connection of renewals while there is another claim")
	}
	// A Leave that hangs has it: then the next Join keeps its own.
	claims(p, 0)
	end := under(t, p, Other, nil)
	claims(p, 1)
	next := used(t, p, Joining)
	if had := used(t, p, Renewing); next == kept || had != next {
		t.Errorf("beside a Leave on connection %d a Join has %d, and a renewal %d", kept, next, had)
	}
	end()
}

// The kept connection that fell while nobody used it is no call's.
func TestAKeptConnectionThatFellIsNoCalls(t *testing.T) {
	f := newFew(2)
	p := NewPool[int](f, true)
	fell := used(t, p, Joining)
	f.mu.Lock()
	f.fallen[fell] = true
	f.mu.Unlock()
	if used(t, p, Other) == fell {
		t.Error("a call has a connection that fell")
	}
}

// claims has a client have so many claims.
func claims(p *Pool[int], n byte) {
	for i := range byte(3) {
		if p.Claims.drop(engine.ID{i}); i < n {
			p.Claims.keep(engine.ID{i}, time.Hour)
		}
	}
}

// A renewal that comes while another is under way waits for its connection, for a moment: it
// does not take one more of the server's.
func TestTwoRenewalsTakeOneConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFew(3)
		p := NewPool[int](f, true)
		kept := used(t, p, Joining)
		end := under(t, p, Renewing, nil)
		had := make(chan int)
		go func() { had <- used(t, p, Renewing) }()
		synctest.Wait()
		end()
		if second := <-had; second != kept || f.made != 1 {
			t.Errorf("the second has connection %d of %d, want %d", second, f.made, kept)
		}
	})
}

// A pool that keeps none gives every connection back.
func TestAPoolThatKeepsNone(t *testing.T) {
	f := newFew(2)
	p := NewPool[int](f, false)
	used(t, p, Joining)
	used(t, p, Renewing)
	if f.idle() != 1 {
		t.Errorf("%d connections are back, want one", f.idle())
	}
}

// What broke is not kept, whether its call said so or it fell while nobody used it.
func TestWhatBrokeIsNotKept(t *testing.T) {
	f := newFew(2)
	p := NewPool[int](f, true)
	kept := used(t, p, Joining)
	if err := p.Do(t.Context(), Renewing, func(int) error { return errBroken }); !errors.Is(err, errBroken) {
		t.Error(err)
	}
	again := used(t, p, Renewing)
	if again == kept {
		t.Error("a renewal has a connection that broke")
	}
	f.mu.Lock()
	f.fallen[again] = true
	f.left = 0 // but for the one that the pool is given back
	f.mu.Unlock()
	if used(t, p, Renewing) == again {
		t.Error("a renewal has a connection that fell while nobody used it")
	}
	// An error that is no fault of the connection's leaves it where it was.
	errOther := errors.New("deadlock")
	if err := p.Do(t.Context(), Renewing, func(int) error { return errOther }); !errors.Is(err, errOther) {
		t.Error(err)
	}
	if f.idle() != 0 {
		t.Error("the connection of renewals went to others after an error")
	}
}

// Who is refused a connection is handed the next that is free: renewals first, and who
// gives up is told why.
func TestWhoIsRefusedGetsTheNextThatIsFree(t *testing.T) {
	t.Run("in words", func(t *testing.T) { refusedGetNext(t, errFull) })
	t.Run("by a cut", func(t *testing.T) {
		refusedGetNext(t, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNRESET)})
	})
}

func refusedGetNext(t *testing.T, says error) {
	synctest.Test(t, func(t *testing.T) {
		f := newFew(1)
		f.says = says
		p := NewPool[int](f, false)
		end := under(t, p, Other, nil)
		order := make(chan Kind, 2)
		var all sync.WaitGroup
		for _, k := range []Kind{Other, Renewing} {
			all.Go(func() {
				if err := p.Do(t.Context(), k, func(int) error { order <- k; return nil }); err != nil {
					t.Error(err)
				}
			})
			<-f.refused
		}
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() { gaveUp <- p.Do(ctx, Other, func(int) error { return nil }) }()
		<-f.refused
		cancel()
		if err := <-gaveUp; !errors.Is(err, says) {
			t.Errorf("who gives up is told %v", err)
		}
		synctest.Wait() // both wait
		end()
		all.Wait()
		if first := <-order; first != Renewing {
			t.Error("another call came before a renewal")
		}
	})
}

// An error that is not the server's fullness is the answer, at once.
func TestOtherErrorsOfConnectingAreTheAnswer(t *testing.T) {
	p := NewPool[int](refusing{newFew(0)}, true)
	if err := p.Do(t.Context(), Renewing, func(int) error { return nil }); !errors.Is(err, errBroken) {
		t.Error(err)
	}
}

type refusing struct{ *few }

func (refusing) Take(context.Context) (int, error) { return 0, errBroken }

// Close gives back what is kept, and what a call that was under way would keep.
func TestAClosedPoolKeepsNothing(t *testing.T) {
	f := newFew(3)
	p := NewPool[int](f, true)
	claims(p, 2)
	used(t, p, Joining)
	end := under(t, p, Joining, nil)
	p.Close()
	end()
	if f.idle() != 2 {
		t.Errorf("%d connections are back, want two", f.idle())
	}
}

func TestRoom(t *testing.T) {
	for connections, want := range map[int]int{1: 1, 2: 1, 3: 2, 4: 3, 9: 6, 10: 7} {
		if got := cap(capacityOf(connections)); got != want {
			t.Errorf("%d connections have room for %d calls that are not renewals, want %d", connections, got, want)
		}
	}
	if capacityOf(0) != nil {
		t.Error("a pool without a bound has one")
	}
}

// What rows say is believed only as far as it can be.
func TestAnswersThatCannotBe(t *testing.T) {
	fine := engine.Claim{Name: "a", State: engine.Held, Ticket: 1, Permits: 1, Limit: 2, TTL: time.Second}
	if err := sound(&fine); err != nil {
		t.Error(err)
	}
	gone := engine.Claim{Name: "a", State: engine.Gone, Permits: -1, TTL: -1}
	if err := sound(&gone); err != nil {
		t.Errorf("one that is gone: %v", err)
	}
	for what, f := range map[string]func(*engine.Claim){
		"no state":       func(c *engine.Claim) { c.State = 0 },
		"no such state":  func(c *engine.Claim) { c.State = 9 },
		"a huge ticket":  func(c *engine.Claim) { c.Ticket = engine.MaxTicket + 1 },
		"no permits":     func(c *engine.Claim) { c.Permits = 0 },
		"above limit":    func(c *engine.Claim) { c.Permits = 3 },
		"a past TTL":     func(c *engine.Claim) { c.TTL = -1 },
		"more than ever": func(c *engine.Claim) { c.TTL = engine.MaxTTL + 1 },
	} {
		c := fine
		f(&c)
		if err := sound(&c); !errors.Is(err, ErrRows) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, n := range []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 / 999} {
		if got := Micros(n); (got < 0) != (n < 0) || got.Abs() < 290*365*24*time.Hour {
			t.Errorf("%d microseconds are %v", n, got)
		}
	}
}

// rowless is a database whose Join says what cannot be.
type rowless struct{ Database }

func (rowless) Join(context.Context, *engine.Request) (Joined, error) {
	return Joined{Claim: engine.Claim{Name: "a", State: engine.Held, Permits: -1, Limit: 1}}, nil
}

func TestAJoinThatCannotBe(t *testing.T) {
	e := New(rowless{}, new(Claims), 0, 0, Guarantees(false, false))
	if _, err := e.Join(t.Context(), engine.Request{Name: "a", ID: engine.NewID(), Permits: 1, Limit: 1, WaitTTL: time.Second}); !errors.Is(err, ErrRows) {
		t.Error(err)
	}
}

// picky is a database that cannot read the rows of one name.
type picky struct {
	Database
	calls []int
}

func (d *picky) Batch(_ context.Context, rs []engine.Renewal) (cs []engine.Claim, err error) {
	d.calls = append(d.calls, len(rs))
	for _, r := range rs {
		if r.Name == "bad" {
			return nil, ErrRows
		}
		cs = append(cs, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Held, Permits: 1, Limit: 1})
	}
	return cs, nil
}

// One name that cannot be read costs others of its batch nothing but calls.
func TestOneBadNameCostsNoOther(t *testing.T) {
	d := &picky{}
	e := New(d, new(Claims), 0, 0, Guarantees(false, false))
	rs := []engine.Renewal{{Name: "a", Want: time.Second}, {Name: "bad", Want: time.Second}, {Name: "b", Want: time.Second}}
	cs, err := e.Renew(t.Context(), rs)
	if !errors.Is(err, ErrRows) || len(cs) != 2 || len(d.calls) != 4 {
		t.Errorf("%v, %v, in calls of %v", cs, err, d.calls)
	}
}

// Calls are cut by what a statement may have, and one claim is a call at least.
func TestCallsAreCutByBytes(t *testing.T) {
	d := &picky{}
	e := New(d, new(Claims), 0, 400, Guarantees(false, false))
	rs := make([]engine.Renewal, 11)
	for i := range rs {
		rs[i] = engine.Renewal{Name: "a", Want: time.Second} // 80 of an answer
	}
	rs[10].Name = strings.Repeat("x", 300) // more than one statement may have
	if cs, err := e.Renew(t.Context(), rs); err != nil || len(cs) != len(rs) {
		t.Errorf("%d, %v", len(cs), err)
	}
	if len(d.calls) != 3 || d.calls[0] != 5 || d.calls[1] != 5 || d.calls[2] != 1 {
		t.Errorf("calls of %v", d.calls)
	}
}
