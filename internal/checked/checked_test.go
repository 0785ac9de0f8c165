package checked

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
)

// asked is an engine that keeps what it was asked.
type asked struct {
	grants engine.Guarantees
	joins  []engine.Request
	renews [][]engine.Renewal
	leaves [][]engine.Claim
	other  []string
	err    error // what it says
	closes int
	checks int
}

var errSaid = errors.New("said by the engine")

func (a *asked) Join(_ context.Context, r engine.Request) (engine.Claim, error) {
	a.joins = append(a.joins, r)
	return engine.Claim{Name: r.Name, ID: r.ID, State: engine.Held}, a.err
}

func (a *asked) Renew(_ context.Context, rs []engine.Renewal) (got []engine.Claim, _ error) {
	a.renews = append(a.renews, rs)
	for _, r := range rs {
		got = append(got, engine.Claim{Name: r.Name, ID: r.ID, State: engine.Held})
	}
	return got, a.err
}

func (a *asked) Leave(_ context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	a.leaves = append(a.leaves, cs)
	return cs, a.err
}

func (a *asked) Watch(ctx context.Context, changed func(engine.Claim)) error {
	a.other = append(a.other, "Watch")
	changed(engine.Claim{})
	<-ctx.Done()
	return ctx.Err()
}

func (a *asked) Queue(context.Context, string) (engine.Queue, error) {
	a.other = append(a.other, "Line")
	return engine.Queue{}, a.err
}

func (a *asked) Queues(context.Context, string) iter.Seq2[engine.Queue, error] {
	a.other = append(a.other, "Lines")
	return func(yield func(engine.Queue, error) bool) {
		for range 3 {
			if !yield(engine.Queue{Name: "a"}, nil) {
				return
			}
		}
	}
}

func (a *asked) Revoke(context.Context, string, uint64, bool) error {
	a.other = append(a.other, "Evict")
	return a.err
}

func (a *asked) Guarantees() engine.Guarantees { return a.grants }

func (a *asked) Close() error { a.closes++; return a.err }

// calls is how many calls reached it.
func (a *asked) calls() int { return len(a.joins) + len(a.renews) + len(a.leaves) + len(a.other) }

// everything is what an engine may grant.
var everything = engine.Guarantees{Modes: engine.Exclusive | engine.Shared | engine.Permits, Detach: true}

func request() engine.Request {
	return engine.Request{Name: "x", ID: engine.NewID(), Permits: engine.Max, Limit: engine.Max, WaitTTL: time.Second}
}

func renewal() engine.Renewal {
	return engine.Renewal{Name: "x", ID: engine.NewID(), Want: time.Second}
}

func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// bad are names that are none.
var bad = map[string]string{
	"empty":               "",
	"513 bytes":           strings.Repeat("n", engine.MaxName+1),
	"no UTF-8":            "x\xff\xfe",
	"a surrogate":         "x\xed\xa0\x80",
	"a NUL":               "x\x00",
	"half a character":    "x\xc3",
	"an overlong one":     "x\xc0\xaf",
	"a NUL at its begin":  "\x00x",
	"only half of a rune": "\xf0\x9f",
}

// What cannot be is answered without the engine, each thing in words of its own.
func TestJoinsThatCannotBe(t *testing.T) {
	id := engine.NewID()
	for what, c := range map[string]struct {
		change func(*engine.Request)
		grants func(*engine.Guarantees)
		want   string
		is     error
	}{
		"no ID":                   {change: func(r *engine.Request) { r.ID = engine.ID{} }, want: "the claim ID is empty"},
		"no permits":              {change: func(r *engine.Request) { r.Permits = 0 }, want: "0 permits are outside"},
		"negative permits":        {change: func(r *engine.Request) { r.Permits = -1 }, want: "-1 permits are outside"},
		"no limit":                {change: func(r *engine.Request) { r.Limit, r.Permits = 0, 0 }, want: "limit 0 is below 1"},
		"a negative limit":        {change: func(r *engine.Request) { r.Limit, r.Permits = -3, -3 }, want: "limit -3 is below 1"},
		"more than the limit":     {change: func(r *engine.Request) { r.Limit-- }, want: "permits are outside"},
		"NoWait and Replaces":     {change: func(r *engine.Request) { r.NoWait, r.Replaces = true, id }, want: "exclude each other"},
		"replacing itself":        {change: func(r *engine.Request) { r.Replaces = r.ID }, want: "cannot replace itself"},
		"a large owner":           {change: func(r *engine.Request) { r.Owner.Label = strings.Repeat("x", engine.MaxOwner) }, want: "the owner has"},
		"no WaitTTL":              {change: func(r *engine.Request) { r.WaitTTL = 0 }, want: "TTL 0s is outside"},
		"a negative WaitTTL":      {change: func(r *engine.Request) { r.WaitTTL = -time.Second }, want: "TTL -1s is outside"},
		"a WaitTTL too short":     {change: func(r *engine.Request) { r.WaitTTL = engine.MinTTL - 1 }, want: "TTL 99.999999ms is outside"},
		"a WaitTTL of a year":     {change: func(r *engine.Request) { r.WaitTTL = 365 * 24 * time.Hour }, want: "is outside"},
		"the longest WaitTTL":     {change: func(r *engine.Request) { r.WaitTTL = 1<<63 - 1 }, want: "is outside"},
		"a negative TTL":          {change: func(r *engine.Request) { r.TTL = -1 }, want: "TTL -1ns is outside"},
		"a TTL of a year":         {change: func(r *engine.Request) { r.TTL = 365 * 24 * time.Hour }, want: "is outside"},
		"a WaitTTL above its own": {grants: func(g *engine.Guarantees) { g.MaxTTL = time.Second - 1 }, want: "TTL 1s is above this engine's 999.999999ms"},
		"a TTL above its own": {
			change: func(r *engine.Request) { r.TTL = time.Minute }, grants: func(g *engine.Guarantees) { g.MaxTTL = time.Second },
			want: "TTL 1m0s is above this engine's 1s",
		},
		"a TTL below its own": {
			change: func(r *engine.Request) { r.TTL = time.Second }, grants: func(g *engine.Guarantees) { g.MinTTL = 2 * time.Second },
			want: "TTL 1s is below this engine's 2s",
		},
		"a mode": {grants: func(g *engine.Guarantees) { g.Modes = engine.Shared }, want: "no exclusive claims", is: errors.ErrUnsupported},
		"detached": {
			change: func(r *engine.Request) { r.Detached = true }, grants: func(g *engine.Guarantees) { g.Detach = false },
			want: "no detached claims", is: errors.ErrUnsupported,
		},
	} {
		t.Run(what, func(t *testing.T) {
			a := &asked{grants: everything}
			if c.grants != nil {
				c.grants(&a.grants)
			}
			r := request()
			if c.change != nil {
				c.change(&r)
			}
			_, err := New(a).Join(t.Context(), r)
			if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want engine.ErrRefused and %q", err, c.want)
			}
			if a.calls() > 0 {
				t.Error("the engine was asked")
			}
		})
	}
}

// What is no name is refused by every call that has one.
func TestWhatIsNoName(t *testing.T) {
	for what, name := range bad {
		a := &asked{grants: everything}
		e := New(a)
		r := request()
		r.Name = name
		_, join := e.Join(t.Context(), r)
		_, renew := e.Renew(t.Context(), []engine.Renewal{{Name: name, ID: r.ID, Want: time.Second}})
		_, leave := e.Leave(t.Context(), []engine.Claim{{Name: name, ID: r.ID}})
		_, line := e.Queue(t.Context(), name)
		for call, err := range map[string]error{"Join": join, "Renew": renew, "Leave": leave, "Line": line, "Evict": e.Revoke(t.Context(), name, 1, true)} {
			if !errors.Is(err, engine.ErrName) || !errors.Is(err, engine.ErrRefused) {
				t.Errorf("%s of a name with %s says %v, want engine.ErrName", call, what, err)
			}
		}
		if a.calls() > 0 {
			t.Errorf("the engine was asked of a name with %s", what)
		}
	}
}

// What is right reaches the engine as it is, and its answer the caller.
func TestWhatIsRightGoesThrough(t *testing.T) {
	a := &asked{grants: everything}
	e := New(a)
	r := request()
	r.TTL = time.Minute
	if c, err := e.Join(t.Context(), r); err != nil || c.ID != r.ID {
		t.Error(c, err)
	}
	if len(a.joins) != 1 || a.joins[0].ID != r.ID || a.joins[0].WaitTTL != r.WaitTTL || a.joins[0].TTL != r.TTL {
		t.Errorf("the engine was asked for %+v", a.joins)
	}
	rs := []engine.Renewal{renewal(), renewal()}
	if got, err := e.Renew(t.Context(), rs); err != nil || len(got) != 2 {
		t.Error(got, err)
	}
	if len(a.renews) != 1 || &a.renews[0][0] != &rs[0] {
		t.Error("a batch in which nothing is wrong was copied")
	}
	a.err = errSaid
	for call, err := range outcomes(t.Context(), e) {
		if call != "Watch" && call != "Lines" && !errors.Is(err, errSaid) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if New(e) != e || e.Unwrap() != engine.Engine(a) {
		t.Error("one stands around another")
	}
}

// outcomes is what each call says when nothing is wrong with its arguments.
func outcomes(ctx context.Context, e *Engine) map[string]error {
	m := map[string]error{}
	_, m["Join"] = e.Join(ctx, request())
	_, m["Renew"] = e.Renew(ctx, []engine.Renewal{renewal()})
	_, m["Leave"] = e.Leave(ctx, []engine.Claim{{Name: "x", ID: engine.NewID()}})
	_, m["Line"] = e.Queue(ctx, "x")
	m["Evict"] = e.Revoke(ctx, "x", 1, true)
	stop, cancel := context.WithCancel(ctx)
	m["Watch"] = e.Watch(stop, func(engine.Claim) { cancel() })
	cancel()
	for _, err := range e.Queues(ctx, "") {
		m["Lines"] = err
	}
	return m
}

// After Close there is one error, whatever is asked; before, that of a context that
// has ended. Neither reaches the engine.
func TestAfterCloseAndAfterTheContext(t *testing.T) {
	for _, c := range []struct {
		what   string
		closed bool
		ctx    context.Context
		want   error
	}{
		{"after Close", true, context.Background(), engine.ErrClosed},
		{"after both", true, ended(), engine.ErrClosed},
		{"after the context", false, ended(), context.Canceled},
	} {
		a := &asked{grants: everything}
		e := New(a)
		if c.closed {
			if err := e.Close(); err != nil {
				t.Error(err)
			}
		}
		got := outcomes(c.ctx, e)
		if len(got) != 7 {
			t.Errorf("%s: %v", c.what, got)
		}
		for call, err := range got {
			if !errors.Is(err, c.want) {
				t.Errorf("%s %s says %v, want %v", c.what, call, err, c.want)
			}
		}
		if a.calls() > 0 {
			t.Errorf("%s the engine was asked", c.what)
		}
		if err := e.Check(c.ctx); !errors.Is(err, c.want) {
			t.Errorf("%s Check says %v, want %v", c.what, err, c.want)
		}
		r := request()
		r.Permits = 0
		if _, err := e.Join(c.ctx, r); err == nil || !strings.Contains(err.Error(), "0 permits") {
			t.Errorf("%s a Join that cannot be says %v", c.what, err)
		}
		wrong := []engine.Renewal{{Name: "", ID: engine.NewID(), Want: time.Second}}
		if _, err := e.Renew(c.ctx, wrong); !errors.Is(err, engine.ErrName) {
			t.Errorf("%s a Renew of what cannot be says %v", c.what, err)
		}
		if _, err := e.Renew(c.ctx, append(wrong, renewal())); !errors.Is(err, c.want) {
			t.Errorf("%s a Renew of that and of what can be says %v, want %v", c.what, err, c.want)
		}
	}
}

// An engine is closed once, and whoever closes it is told the same.
func TestCloseTwice(t *testing.T) {
	a := &asked{grants: everything, err: errSaid}
	e := New(a)
	for range 2 {
		if err := e.Close(); !errors.Is(err, errSaid) {
			t.Error(err)
		}
	}
	if a.closes != 1 {
		t.Errorf("closed %d times", a.closes)
	}
}

// slowToClose is an engine whose Close takes until the test has seen enough.
type slowToClose struct {
	asked
	closing, close chan struct{}
}

func (s *slowToClose) Close() error {
	close(s.closing)
	<-s.close
	return nil
}

// An engine is asked nothing more from the moment on that it is being closed.
func TestNothingIsAskedOfAnEngineThatIsBeingClosed(t *testing.T) {
	s := &slowToClose{asked{grants: everything}, make(chan struct{}), make(chan struct{})}
	e, closed := New(s), make(chan error)
	go func() { closed <- e.Close() }()
	<-s.closing
	if _, err := e.Join(t.Context(), request()); !errors.Is(err, engine.ErrClosed) || s.calls() > 0 {
		t.Errorf("a Join says %v, and %d calls reached the engine; want %v and none", err, s.calls(), engine.ErrClosed)
	}
	close(s.close)
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// In a batch what is wrong costs itself alone, and the error tells; the caller's slice
// stays as it is.
func TestOneBadItemOfABatch(t *testing.T) {
	good, other := renewal(), renewal()
	for what, wrong := range map[string]engine.Renewal{
		"a name":       {Name: "\x00", ID: good.ID, Want: time.Second},
		"no ID":        {Name: "x", Want: time.Second},
		"no TTL":       {Name: "x", ID: engine.NewID()},
		"a year":       {Name: "x", ID: engine.NewID(), Want: 365 * 24 * time.Hour},
		"its own most": {Name: "x", ID: engine.NewID(), Want: time.Hour},
	} {
		for at := range 3 {
			a := &asked{grants: everything}
			a.grants.MaxTTL = time.Minute
			e := New(a)
			rs := slices.Insert([]engine.Renewal{good, other}, at, wrong)
			before := slices.Clone(rs)
			got, err := e.Renew(t.Context(), rs)
			if !errors.Is(err, engine.ErrRefused) || len(got) != 2 || got[0].ID != good.ID || got[1].ID != other.ID {
				t.Errorf("%s at %d: %v, %v", what, at, got, err)
			}
			if len(a.renews) != 1 || len(a.renews[0]) != 2 || !slices.Equal(rs, before) {
				t.Errorf("%s at %d: the engine was asked for %v, the caller has %v", what, at, a.renews, rs)
			}
			a.err = errSaid
			if _, err := e.Renew(t.Context(), rs); !errors.Is(err, errSaid) || errors.Is(err, engine.ErrRefused) {
				t.Errorf("%s at %d: an error of the engine became %v", what, at, err)
			}
		}
	}
	a := &asked{grants: everything}
	got, err := New(a).Leave(t.Context(), []engine.Claim{{Name: "x", ID: good.ID}, {Name: "", ID: other.ID}, {Name: "x"}})
	if !errors.Is(err, engine.ErrName) || len(got) != 1 || got[0].ID != good.ID {
		t.Errorf("Leave: %v, %v", got, err)
	}
	got, err = New(a).Leave(t.Context(), []engine.Claim{{Name: "x"}})
	if !errors.Is(err, engine.ErrRefused) || len(got) != 0 || len(a.leaves) != 1 {
		t.Errorf("Leave of what is wrong alone: %v, %v, %d calls", got, err, len(a.leaves))
	}
}

// Nothing of a batch is nothing to ask, and too much of one is refused.
func TestTheBoundsOfABatch(t *testing.T) {
	a := &asked{grants: everything}
	e := New(a)
	if got, err := e.Renew(t.Context(), nil); err != nil || len(got) > 0 || a.calls() > 0 {
		t.Error(got, err, a.calls())
	}
	rs, cs := make([]engine.Renewal, engine.MaxBatch), make([]engine.Claim, engine.MaxBatch)
	for i := range rs {
		rs[i] = renewal()
		cs[i] = engine.Claim{Name: "x", ID: rs[i].ID}
	}
	if got, err := e.Renew(t.Context(), rs); err != nil || len(got) != len(rs) {
		t.Error(len(got), err)
	}
	if _, err := e.Renew(t.Context(), append(rs, rs[0])); !errors.Is(err, engine.ErrRefused) {
		t.Error(err)
	}
	if _, err := e.Leave(t.Context(), append(cs, cs[0])); !errors.Is(err, engine.ErrRefused) {
		t.Error(err)
	}
	if len(a.renews) != 1 || len(a.leaves) != 0 {
		t.Errorf("%d and %d calls, want 1 and 0", len(a.renews), len(a.leaves))
	}
}

// A first life that is shorter than an engine can grant is raised to what it can, and
// so is that of a claim that waits.
func TestShortLivesAreRaised(t *testing.T) {
	a := &asked{grants: everything}
	a.grants.MinTTL, a.grants.MaxTTL = 5*time.Second, 5*time.Second
	e := New(a)
	r := request()
	r.TTL = 5 * time.Second
	if _, err := e.Join(t.Context(), r); err != nil || a.joins[0].WaitTTL != 5*time.Second {
		t.Error(err, a.joins)
	}
	rs := []engine.Renewal{renewal(), renewal()}
	rs[0].Want = 5 * time.Second
	before := slices.Clone(rs)
	if _, err := e.Renew(t.Context(), rs); err != nil || a.renews[0][0] != rs[0] || a.renews[0][1].Want != 5*time.Second || !slices.Equal(rs, before) {
		t.Error(err, a.renews, rs)
	}
}

// A ticket that no claim can have is nobody's.
func TestATicketThatIsTooLarge(t *testing.T) {
	a := &asked{grants: everything}
	if err := New(a).Revoke(t.Context(), "x", engine.MaxTicket+1, true); !errors.Is(err, engine.ErrNoClaim) || a.calls() > 0 {
		t.Error(err)
	}
	if err := New(a).Revoke(t.Context(), "x", engine.MaxTicket, true); err != nil || a.calls() != 1 {
		t.Error(err)
	}
}

// A listing ends where the engine is closed, and where its reader has enough.
func TestAListingEndsWithTheEngine(t *testing.T) {
	e := New(&asked{grants: everything})
	var said []error
	for _, err := range e.Queues(t.Context(), "") {
		said = append(said, err)
		_ = e.Close()
	}
	if len(said) != 2 || said[0] != nil || !errors.Is(said[1], engine.ErrClosed) {
		t.Error(said)
	}
	n := 0
	for range New(&asked{grants: everything}).Queues(t.Context(), "") {
		if n++; n == 2 {
			break
		}
	}
	if n != 2 {
		t.Error(n)
	}
}

// checking is an engine.Checker.
type checking struct{ asked }

func (c *checking) Check(context.Context) error { c.checks++; return errSaid }

func TestCheckIsTheEngines(t *testing.T) {
	if e := New(&asked{}); e.Checks() || e.Check(t.Context()) != nil {
		t.Error("an engine that checks nothing says that it does")
	}
	c := &checking{}
	e := New(c)
	if err := e.Check(t.Context()); !e.Checks() || !errors.Is(err, errSaid) || c.checks != 1 {
		t.Error(err)
	}
}

// silent is an engine that answers only when its context ends, and whose Close waits for
// the calls under way.
type silent struct {
	asked
	calls sync.WaitGroup
}

func (s *silent) wait(ctx context.Context) error {
	s.calls.Add(1)
	defer s.calls.Done()
	<-ctx.Done()
	return ctx.Err()
}

func (s *silent) Queue(ctx context.Context, _ string) (engine.Queue, error) {
	return engine.Queue{}, s.wait(ctx)
}

func (s *silent) Queues(ctx context.Context, _ string) iter.Seq2[engine.Queue, error] {
	return func(yield func(engine.Queue, error) bool) { yield(engine.Queue{}, s.wait(ctx)) }
}

func (s *silent) Revoke(ctx context.Context, _ string, _ uint64, _ bool) error { return s.wait(ctx) }
func (s *silent) Check(ctx context.Context) error                              { return s.wait(ctx) }
func (s *silent) Close() error                                                 { s.calls.Wait(); return nil }

// Close ends the calls under way, also those whose callers wait for ever.
func TestCloseEndsCallsUnderWay(t *testing.T) {
	for call, f := range map[string]func(*Engine) error{
		"Queue":  func(e *Engine) error { _, err := e.Queue(context.Background(), "x"); return err },
		"Revoke": func(e *Engine) error { return e.Revoke(context.Background(), "x", 1, false) },
		"Check":  func(e *Engine) error { return e.Check(context.Background()) },
		"Queues": func(e *Engine) (last error) {
			for _, err := range e.Queues(context.Background(), "") {
				last = err
			}
			return last
		},
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := New(&silent{asked: asked{grants: everything}})
				said := make(chan error, 1)
				go func() { said <- f(e) }()
				synctest.Wait()
				if err := e.Close(); err != nil {
					t.Error(err)
				}
				if err := <-said; !errors.Is(err, engine.ErrClosed) {
					t.Errorf("it says %v, want that the engine is closed", err)
				}
			})
		})
	}
}

// free is an engine that costs nothing.
type free struct {
	asked
	claims []engine.Claim
}

func (*free) Join(context.Context, engine.Request) (engine.Claim, error) { return engine.Claim{}, nil }
func (f *free) Renew(context.Context, []engine.Renewal) ([]engine.Claim, error) {
	return f.claims, nil
}
func (f *free) Leave(_ context.Context, cs []engine.Claim) ([]engine.Claim, error) { return cs, nil }

// What is right costs no garbage.
func TestWhatIsRightCostsNothing(t *testing.T) {
	e := New(&free{asked: asked{grants: everything}})
	ctx, r, rs, cs := t.Context(), request(), []engine.Renewal{renewal(), renewal()}, []engine.Claim{{Name: "x", ID: engine.NewID()}}
	for call, f := range map[string]func(){
		"Join":  func() { _, _ = e.Join(ctx, r) },
		"Renew": func() { _, _ = e.Renew(ctx, rs) },
		"Leave": func() { _, _ = e.Leave(ctx, cs) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", call, n)
		}
	}
}

func BenchmarkPair(b *testing.B) {
	e := New(&free{asked: asked{grants: everything}})
	ctx, r, cs := b.Context(), request(), []engine.Claim{{Name: "x", ID: engine.NewID()}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = e.Join(ctx, r)
		_, _ = e.Leave(ctx, cs)
	}
}
