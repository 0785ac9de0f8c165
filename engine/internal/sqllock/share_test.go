package sqllock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// sharer is a database whose calls take a second, alone or together. Those of the name
// "busy" are made alone only.
type sharer struct {
	Database
	alone, together atomic.Int32
	under, most     atomic.Int32 // statements under way
	twice           atomic.Bool  // a statement had two calls of a name
	fails           error
	hangs, silent   bool // a shared statement never ends by itself; a batch answers nothing
}

// statement takes a second.
func (s *sharer) statement(kind *atomic.Int32) {
	kind.Add(1)
	now := s.under.Add(1)
	for most := s.most.Load(); now > most && !s.most.CompareAndSwap(most, now); most = s.most.Load() {
	}
	time.Sleep(time.Second)
	s.under.Add(-1)
}

func (s *sharer) Join(_ context.Context, r *engine.Request) (Joined, error) {
	s.statement(&s.alone)
	return Joined{Claim: held(r.Name)}, nil
}

func (s *sharer) Batch(_ context.Context, rs []engine.Renewal) ([]engine.Claim, error) {
	s.statement(&s.alone)
	if s.silent {
		return nil, nil
	}
	return []engine.Claim{held(rs[0].Name)}, nil
}

func (s *sharer) Share(ctx context.Context, calls []Call, answer func(int, engine.Claim)) error {
	s.statement(&s.together)
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	names := map[string]bool{}
	for i, c := range calls {
		if names[c.Name] {
			s.twice.Store(true)
		}
		names[c.Name] = true
		if c.Name != "busy" {
			answer(i, held(c.Name))
		}
	}
	return s.fails
}

// held is an answer. That for a name that begins with "wrong" says what cannot be.
func held(name string) engine.Claim {
	c := engine.Claim{Name: name, State: engine.Held, Permits: 1, Limit: 1}
	if strings.HasPrefix(name, "wrong") {
		c.Ticket = engine.MaxTicket + 1
	}
	return c
}

// storm has 40 callers join at once, and 40 leave, with 4 connections.
func storm(t *testing.T, s *sharer) (answers, failures int32) {
	t.Helper()
	e := New(s, new(Claims), 4, 0, Guarantees(false, false))
	var all sync.WaitGroup
	var right, wrong atomic.Int32
	count := func(c engine.Claim, name string, err error) {
		if err != nil {
			wrong.Add(1)
		} else if c.Name == name && c.State == engine.Held {
			right.Add(1)
		}
	}
	for i := range 40 {
		name := fmt.Sprint(i)
		if i == 30 {
			name = "busy"
		}
		all.Go(func() {
			c, err := e.Join(t.Context(), engine.Request{Name: name, ID: engine.NewID(), Permits: 1, Limit: 1})
			count(c, name, err)
		})
		all.Go(func() {
			cs, err := e.Leave(t.Context(), []engine.Claim{{Name: "left " + name, ID: engine.NewID()}})
			count(append(cs, engine.Claim{})[0], "left "+name, err)
		})
	}
	all.Wait()
	return right.Load(), wrong.Load()
}

// Calls of many callers share statements, and each gets its own answer. One that is not
// answered together is made alone.
func TestCallsOfManyShareStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharer
		if answers, failures := storm(t, &s); answers != 80 || failures != 0 {
			t.Errorf("%d were answered, and %d failed", answers, failures)
		}
		// Three find a connection free, and busy goes alone at last.
		if alone, together := s.alone.Load(), s.together.Load(); alone > 4 || together > 6 {
			t.Errorf("%d were made alone, and others in %d statements", alone, together)
		}
		// The fourth connection is for renewals.
		if most := s.most.Load(); most > 3 {
			t.Errorf("%d statements were under way at once", most)
		}
	})
}

// Of a shared statement that fails nobody has learned anything.
func TestASharedStatementThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sharer{fails: errors.New("cut off")}
		if answers, failures := storm(t, &s); answers+failures != 80 || int(answers) != int(s.alone.Load()) || failures < 70 {
			t.Errorf("%d were answered, of which %d alone, and %d failed", answers, s.alone.Load(), failures)
		}
	})
}

// A Join that replaces a claim is never shared: nor is any call of a database that cannot.
func TestWhatIsNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharer
		e := New(&s, new(Claims), 4, 0, Guarantees(false, false))
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				_, _ = e.Join(t.Context(), engine.Request{Name: fmt.Sprint(i), ID: engine.NewID(), Permits: 1, Limit: 1, Replaces: engine.NewID()})
			})
		}
		all.Wait()
		if alone, together := s.alone.Load(), s.together.Load(); alone != 40 || together != 0 {
			t.Errorf("%d were made alone, and others in %d statements", alone, together)
		}
		if e := New(database{}, new(Claims), 4, 0, Guarantees(false, false)); e.group != nil {
			t.Error("calls of a database that cannot share are to")
		}
	})
}

// joins are callers with these names, at once: how many got each error.
func joins(t *testing.T, s *sharer, names ...string) map[string]error {
	t.Helper()
	e := New(s, new(Claims), 4, 0, Guarantees(false, false))
	errs := map[string]error{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			_, err := e.Join(t.Context(), engine.Request{Name: name, ID: engine.NewID(), Permits: 1, Limit: 1})
			mu.Lock()
			defer mu.Unlock()
			if errs[name] == nil {
				errs[name] = err
			}
		})
	}
	all.Wait()
	return errs
}

// numbers are n names.
func numbers(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprint(i))
	}
	return names
}

// A statement changes a name once.
func TestCallsOfOneNameAreInDifferentStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharer
		joins(t, &s, append(numbers(20), numbers(20)...)...)
		if s.together.Load() == 0 || s.twice.Load() {
			t.Error("they are not")
		}
	})
}

// A shared answer that cannot be is refused, as one to a call alone is, and costs no other call.
func TestASharedAnswerThatCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := numbers(10)
		for _, name := range names { // more than are alone
			names = append(names, "wrong "+name)
		}
		for name, err := range joins(t, new(sharer), names...) {
			if wrong := errors.Is(err, ErrRows); wrong != strings.HasPrefix(name, "wrong") || err != nil && !wrong {
				t.Errorf("%q: %v", name, err)
			}
		}
	})
}

// A shared statement belongs to no caller. So it ends by itself where the database hangs.
func TestASharedStatementThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, failed := time.Now(), 0
		for _, err := range joins(t, &sharer{hangs: true}, numbers(20)...) {
			if errors.Is(err, context.DeadlineExceeded) {
				failed++
				// Its own context goes on, so the error says whose time was up.
				if text := err.Error(); !strings.Contains(text, "no answer in 10s") || !strings.Contains(text, "ask again") {
					t.Errorf("a caller is told %q", text)
				}
			}
		}
		if took := time.Since(began); failed < 10 || took > 3*shareBound {
			t.Errorf("%d failed, and it took %v", failed, took)
		}
	})
}

// stuck is a sharer whose first shared statement hangs.
type stuck struct {
	sharer
	shared atomic.Int32
	hangs  atomic.Int32 // calls in that statement
}

func (s *stuck) Share(ctx context.Context, calls []Call, answer func(int, engine.Claim)) error {
	if s.shared.Add(1) == 1 {
		s.hangs.Store(int32(len(calls)))
		<-ctx.Done()
		return ctx.Err()
	}
	return s.sharer.Share(ctx, calls, answer)
}

// A shared statement that hangs, perhaps for its connection alone, costs those that are in it
// their time, and others a second.
func TestOneStatementThatHangsHoldsUpOthersForASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s stuck
		e, began := New(&s, new(Claims), 4, 0, Guarantees(false, false)), time.Now()
		var all sync.WaitGroup
		var late atomic.Int32
		for _, name := range numbers(20) {
			all.Go(func() {
				_, err := e.Join(t.Context(), engine.Request{Name: name, ID: engine.NewID(), Permits: 1, Limit: 1})
				if err != nil || time.Since(began) > 5*time.Second {
					late.Add(1)
				}
			})
		}
		all.Wait()
		if n, want := late.Load(), s.hangs.Load(); n != want || want == 0 {
			t.Errorf("%d calls waited, want the %d of the statement that hangs", n, want)
		}
	})
}

// telling is a sharer that looks whose context a Join alone has.
type telling struct {
	sharer
	whose sync.Map // by name
}

func (s *telling) Join(ctx context.Context, r *engine.Request) (Joined, error) {
	s.whose.Store(r.Name, ctx.Value(s))
	return s.sharer.Join(ctx, r)
}

// A call that no shared statement could answer ends with its caller's context as well.
func TestACallThatIsMadeAloneAtLastIsItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s telling
		e := New(&s, new(Claims), 4, 0, Guarantees(false, false))
		var all sync.WaitGroup
		for _, name := range append(numbers(10), "busy") {
			ctx := context.WithValue(t.Context(), &s, name)
			all.Go(func() { _, _ = e.Join(ctx, engine.Request{Name: name, ID: engine.NewID(), Permits: 1, Limit: 1}) })
			synctest.Wait()
		}
		all.Wait()
		if whose, _ := s.whose.Load("busy"); whose != "busy" || s.together.Load() == 0 {
			t.Errorf("its context is that of %v", whose)
		}
	})
}

// A call alone gives back its place among those that leave a connection to renewals. An
// answer without the claim says nothing of it.
func TestALeaveAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(&sharer{silent: true}, new(Claims), 4, 0, Guarantees(false, false))
		for range 5 {
			if cs, err := e.Leave(t.Context(), []engine.Claim{{Name: "a", ID: engine.NewID()}}); len(cs) > 0 || err != nil {
				t.Errorf("Leave: %v %v", cs, err)
			}
		}
		if n := len(e.capacity); n > 0 {
			t.Errorf("%d places are taken", n)
		}
	})
}
