package elect_test

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

	"leasehold"
	"leasehold/elect"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
	"leasehold/leaseholdtest"
)

func candidate(t *testing.T, locks *leasehold.Client, o elect.Options) *elect.Election {
	t.Helper()
	e, err := elect.New(locks, "mail", o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// untilEnd leads until its context ends.
func untilEnd(ctx context.Context, _ leasehold.Token) error {
	<-ctx.Done()
	return nil
}

// runs starts e, which ends with the test.
func runs(t *testing.T, e *elect.Election, lead func(context.Context, leasehold.Token) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- e.Run(ctx, lead) }()
	t.Cleanup(func() {
		cancel()
		if err := <-over; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
	})
}

func bubble(t *testing.T, f func(t *testing.T, locks *leaseholdtest.Locks)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, leaseholdtest.New(t)) })
}

func TestTheNextLeaderBeginsAfterTheFunctionHasReturned(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		var leading atomic.Int32
		var stopping atomic.Bool
		defer stopping.Store(true)
		var mu sync.Mutex
		var terms string
		lead := func(who string) func(context.Context, leasehold.Token) error {
			return func(ctx context.Context, _ leasehold.Token) error {
				if leading.Add(1) != 1 {
					t.Error("two lead")
				}
				mu.Lock()
				terms += who
				mu.Unlock()
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, elect.ErrResigned) && !stopping.Load() {
					t.Errorf("the context ended with %v", cause)
				}
				time.Sleep(time.Second) // it takes its time
				leading.Add(-1)
				return errors.New("nobody is to see this")
			}
		}
		a := candidate(t, locks.Client, elect.Options{Value: "a"})
		b := candidate(t, locks.Other(), elect.Options{Value: "b"})
		runs(t, a, lead("a"))
		synctest.Wait()
		runs(t, b, lead("b"))
		synctest.Wait()
		for range 3 {
			for _, e := range []*elect.Election{a, b} {
				if err := e.IsLeader(); err != nil {
					t.Fatal(err)
				}
				if err := e.Resign(); err != nil {
					t.Fatal(err)
				}
				if err := e.IsLeader(); !errors.Is(err, elect.ErrNotLeader) {
					t.Errorf("it was asked to return, and leads: %v", err)
				}
				time.Sleep(2 * time.Second)
			}
		}
		mu.Lock()
		if terms != "abababa" {
			t.Errorf("led: %s", terms)
		}
		mu.Unlock()
		if err := b.IsLeader(); !errors.Is(err, elect.ErrNotLeader) {
			t.Errorf("who waits leads: %v", err)
		}
		if err := b.Resign(); !errors.Is(err, elect.ErrNotLeader) {
			t.Errorf("who waits resigns: %v", err)
		}
	})
}

func TestALossEndsTheFunctionAndTheCandidateStandsAgain(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		causes := make(chan error, 9)
		tokens := make(chan leasehold.Token, 9)
		e := candidate(t, locks.Client, elect.Options{})
		runs(t, e, func(ctx context.Context, token leasehold.Token) error {
			tokens <- token
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return ctx.Err()
		})
		first := <-tokens
		locks.Lose("mail")
		if err := <-causes; !errors.Is(err, leasehold.ErrLost) {
			t.Errorf("the function's context ended with %v", err)
		}
		select {
		case second := <-tokens:
			if second <= first {
				t.Errorf("the token %v came after %v", second, first)
			}
		case <-time.After(time.Hour):
			t.Fatal("it did not stand again")
		}
	})
}

// The call that finds the lease over calls the Observer itself, as on a machine that slept.
func TestTheObserverOfALossMayAskTheElection(t *testing.T) {
	for name, ask := range map[string]func(*elect.Election) error{"IsLeader": (*elect.Election).IsLeader, "Resign": (*elect.Election).Resign} {
		t.Run(name, func(t *testing.T) {
			var slept atomic.Int64
			start := time.Now()
			clock := func() time.Duration { return time.Since(start) + time.Hour + time.Duration(slept.Load()) }
			var e *elect.Election
			told := make(chan error, 9)
			observe := func(event leasehold.Event) {
				if event.Kind == leasehold.EventLost {
					told <- ask(e)
				}
			}
			store := memlock.NewStore(&memlock.Options{Clock: clock})
			locks, err := leasehold.New(&door.Engine{Engine: store.Engine(), Clock: clock}, &leasehold.Options{Observer: observe})
			if err != nil {
				t.Fatal(err)
			}
			defer locks.Close()
			e = candidate(t, locks, elect.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			leads, end, over := make(chan bool), make(chan bool), make(chan error, 1)
			go func() {
				over <- e.Run(ctx, func(context.Context, leasehold.Token) error {
					leads <- true
					<-end // the lead lasts until the answers are there
					return nil
				})
			}()
			<-leads
			slept.Store(int64(time.Hour))
			go func() { told <- ask(e) }()
			for range 2 {
				select {
				case err := <-told:
					if !errors.Is(err, elect.ErrNotLeader) {
						t.Errorf("%v; want ErrNotLeader", err)
					}
				case <-time.After(30 * time.Second): // a mutex that waits for itself: nothing else takes so long
					t.Fatal("the Observer waits for the call that called it")
				}
			}
			cancel()
			close(end)
			if err := <-over; !errors.Is(err, context.Canceled) {
				t.Errorf("Run ended with %v", err)
			}
		})
	}
}

func TestAnEngineThatFailsIsTriedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		locks.FailEngine(errors.New("down"))
		e := candidate(t, locks.Client, elect.Options{})
		runs(t, e, untilEnd)
		time.Sleep(10 * time.Minute)
		if e.IsLeader() == nil {
			t.Fatal("it leads without an engine")
		}
		locks.FailEngine(nil)
		time.Sleep(time.Minute)
		if err := e.IsLeader(); err != nil {
			t.Error(err)
		}
	})
}

func TestRunEndsWithItsFunction(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		e := candidate(t, locks.Client, elect.Options{})
		mine := errors.New("mine")
		bounded, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		for _, want := range []error{nil, mine} {
			calls := 0
			err := e.Run(bounded, func(ctx context.Context, _ leasehold.Token) error {
				if calls++; calls > 1 {
					t.Error("it stood again")
					<-ctx.Done()
				}
				return want
			})
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("Run returned %v, the function %v", err, want)
			}
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			_ = e.Run(bounded, func(context.Context, leasehold.Token) error { panic("mine") })
		}()
		if locks.Held("mail") || e.IsLeader() == nil {
			t.Error("it leads after a panic")
		}

		ctx, cancel := context.WithCancel(bounded)
		err := e.Run(ctx, func(ctx context.Context, _ leasehold.Token) error {
			cancel()
			<-ctx.Done()
			if err := e.Run(t.Context(), untilEnd); !errors.Is(err, elect.ErrRunning) {
				t.Errorf("Run inside of Run: %v", err)
			}
			if err := e.Resign(); err != nil { // with the context cancelled
				t.Error(err)
			}
			return mine
		})
		if !errors.Is(err, context.Canceled) || !errors.Is(err, mine) {
			t.Errorf("Run returned %v", err)
		}
		if locks.Held("mail") {
			t.Error("the name is held after Run")
		}
		if err := e.Run(ctx, untilEnd); !errors.Is(err, context.Canceled) {
			t.Errorf("Run with a context that has ended: %v", err)
		}
	})
}

// All come at once and see nobody; those behind the second leave again.
func TestOnlyStandbyCandidatesWait(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		locks.FailEngine(errors.New("down")) // nobody can read the queue, and so all join it
		for i := range 100 {
			runs(t, candidate(t, locks.Client, elect.Options{Value: fmt.Sprint("10.0.0.", i)}), untilEnd)
		}
		synctest.Wait()
		locks.FailEngine(nil)
		time.Sleep(10 * time.Second)
		if queue, err := locks.Queue(t.Context(), "mail"); err != nil || len(queue.Claims) < 3 {
			t.Fatalf("%d claims, %v", len(queue.Claims), err)
		}
		for range 20 {
			time.Sleep(time.Minute)
			queue, err := locks.Queue(t.Context(), "mail")
			if err != nil || len(queue.Claims) != 3 {
				t.Fatalf("%d claims, %v", len(queue.Claims), err)
			}
		}
		// Each that leads ends; others take the free places.
		for range 5 {
			queue, _ := locks.Queue(t.Context(), "mail")
			if err := locks.Revoke(t.Context(), "mail", queue.Claims[1].Ticket); err != nil {
				t.Fatal(err)
			}
			locks.Lose("mail")
			time.Sleep(2 * time.Minute)
			if queue, err := locks.Queue(t.Context(), "mail"); err != nil || len(queue.Claims) != 3 {
				t.Fatalf("%d claims, %v", len(queue.Claims), err)
			}
		}
	})
}

// A candidate without a Value shows the label of its client, and finds itself all the same.
func TestACandidateWithoutAValueMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := leaseholdtest.NewOptions(t, &leasehold.Options{Label: "billing"})
		for i := range 3 { // a leader, and two who wait
			runs(t, candidate(t, locks.Client, elect.Options{Value: fmt.Sprint("10.0.0.", i)}), untilEnd)
			time.Sleep(10 * time.Second)
		}
		locks.FailEngine(errors.New("down")) // nobody can read the queue, and so it joins
		runs(t, candidate(t, locks.Client, elect.Options{}), untilEnd)
		synctest.Wait()
		locks.FailEngine(nil)
		time.Sleep(time.Minute)
		if queue, err := locks.Queue(t.Context(), "mail"); err != nil || len(queue.Claims) != 3 {
			t.Errorf("%d claims, %v", len(queue.Claims), err)
		}
	})
}

// It does not wait for its next look, which is in a minute or more.
func TestARevokedCandidateStandsAgainSoon(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		for range 2 {
			runs(t, candidate(t, locks.Client, elect.Options{}), untilEnd)
			time.Sleep(10 * time.Second)
		}
		queue, err := locks.Queue(t.Context(), "mail")
		if err != nil || len(queue.Claims) != 2 {
			t.Fatalf("%d claims, %v", len(queue.Claims), err)
		}
		revoked := queue.Claims[1].Ticket
		if err := locks.Revoke(t.Context(), "mail", revoked); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		queue, err = locks.Queue(t.Context(), "mail")
		if err != nil || len(queue.Claims) != 2 || queue.Claims[1].Ticket <= revoked {
			t.Errorf("5 s later: %v, %v; want two claims, the second with a new ticket", queue.Claims, err)
		}
	})
}

func TestWhoDoesNotStandSeesWhoLeads(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		watcher := candidate(t, locks.Client, elect.Options{})
		if _, err := watcher.Leader(t.Context()); !errors.Is(err, elect.ErrNoLeader) {
			t.Errorf("nobody stands: %v", err)
		}
		var mu sync.Mutex
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			for l, err := range watcher.Observe(ctx) {
				mu.Lock()
				switch {
				case err != nil:
					seen = append(seen, "error")
				case l.Ticket == 0:
					seen = append(seen, "nobody")
				default:
					seen = append(seen, l.Value)
				}
				mu.Unlock()
			}
		}()
		time.Sleep(time.Minute)
		for _, value := range []string{"a", "b"} {
			during, end := context.WithTimeout(t.Context(), time.Minute)
			e := candidate(t, locks.Other(), elect.Options{Value: value})
			_ = e.Run(during, untilEnd)
			end()
		}
		time.Sleep(time.Minute)
		locks.FailEngine(errors.New("down"))
		time.Sleep(time.Minute)
		locks.FailEngine(nil)
		time.Sleep(time.Minute)
		cancel()
		<-over
		mu.Lock()
		defer mu.Unlock()
		got := strings.Join(seen, " ")
		got = strings.Replace(got, "a nobody b", "a b", 1) // if it looked between the two
		if got != "nobody a b nobody error nobody" {
			t.Errorf("seen: %s", got)
		}
	})
}

func TestTwoCandidatesOfOneClientPublishTheirOwnValues(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		a := candidate(t, locks.Client, elect.Options{Value: "a"})
		b := candidate(t, locks.Client, elect.Options{Value: "b"})
		runs(t, a, untilEnd)
		synctest.Wait()
		runs(t, b, untilEnd)
		synctest.Wait()
		candidates := map[string]*elect.Election{"a": a, "b": b}
		for _, want := range []string{"a", "b", "a"} {
			l, err := a.Leader(t.Context())
			if err != nil || l.Value != want {
				t.Errorf("%+v leads, %v; it is %s", l, err, want)
			}
			if err := candidates[want].Resign(); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Second)
		}
	})
}

func TestATTLThatIsLeftOutIsTheClients(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		lease, err := candidate(t, locks.With(leasehold.LockOptions{TTL: 5 * time.Minute}), elect.Options{}).Campaign(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Unlock()
		time.Sleep(time.Minute) // by then it was renewed
		queue, err := locks.Queue(t.Context(), "mail")
		if err != nil || len(queue.Claims) != 1 || queue.Claims[0].TTL < time.Minute {
			t.Errorf("the queue: %+v, %v; want what is left of 5 min", queue.Claims, err)
		}
	})
}

func TestOptionsOutOfTheirBoundsAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, locks *leaseholdtest.Locks) {
		for want, o := range map[string]elect.Options{
			"at most":       {Value: strings.Repeat("x", elect.MaxValue+1)},
			"not printable": {Value: "a\x1b[2J"},
			"is negative":   {Standby: -1},
			"Look -1ns":     {Look: -1},
			"Every -1ns":    {Every: -1},
			"Look 99ms":     {Look: 99 * time.Millisecond},
			"Every 99ms":    {Every: 99 * time.Millisecond},
			"1ns":           {TTL: 1},
		} {
			if _, err := elect.New(locks.Client, "mail", o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		if _, err := elect.New(locks.Client, "", elect.Options{}); !errors.Is(err, engine.ErrName) {
			t.Errorf("no name: %v", err)
		}
		if _, err := elect.New(nil, "mail", elect.Options{}); err == nil {
			t.Error("no client was accepted")
		}
		// The longest value that JSON writes longest still fits.
		e := candidate(t, locks.Client, elect.Options{Value: strings.Repeat("<", elect.MaxValue)})
		if err := e.Run(t.Context(), func(context.Context, leasehold.Token) error { return nil }); err != nil {
			t.Error(err)
		}
	})
}
