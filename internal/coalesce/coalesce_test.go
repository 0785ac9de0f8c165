package coalesce_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/internal/coalesce"
)

// store is what requests go to. Each waits until the test answers it.
type store struct {
	group coalesce.Group[string, string]

	mu       sync.Mutex
	requests [][]string
	gates    []chan struct{}
}

// newStore is a store whose calls are sent together, however few there are.
func newStore(most int) *store {
	s := &store{}
	s.group.Many, s.group.Most, s.group.Send = 1, most, s.send
	return s
}

func (s *store) send(calls []string) (answers []string) {
	gate := make(chan struct{})
	s.mu.Lock()
	s.requests, s.gates = append(s.requests, slices.Clone(calls)), append(s.gates, gate)
	s.mu.Unlock()
	<-gate
	for _, c := range calls {
		answers = append(answers, "re "+c)
	}
	return answers
}

// answer lets the first request go that was not answered yet.
func (s *store) answer() {
	s.mu.Lock()
	close(s.gates[0])
	s.gates = s.gates[1:]
	s.mu.Unlock()
	synctest.Wait()
}

// sent is what was sent since the last time, a word for each request.
func (s *store) sent() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var words []string
	for _, r := range s.requests {
		words = append(words, strings.Join(r, "+"))
	}
	s.requests = nil
	return strings.Join(words, " ")
}

// asks has each call made, in this order, and waits until all wait for something.
func (s *store) asks(t *testing.T, all *sync.WaitGroup, calls ...string) {
	for _, c := range calls {
		all.Go(func() {
			if a, err := s.group.Do(t.Context(), c); a != "re "+c || err != nil {
				t.Errorf("%s: got %q %v", c, a, err)
			}
		})
		synctest.Wait()
	}
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What comes while a request is under way goes with the next, and each gets its own
// answer. When all are answered nothing runs: synctest.Test fails where anything does.
func TestWhatComesMeanwhileGoesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(10)
		var all sync.WaitGroup
		s.asks(t, &all, "a", "b", "c", "d")
		want(t, s.sent(), "a")
		s.answer()
		want(t, s.sent(), "b+c+d")
		s.asks(t, &all, "e")
		s.answer()
		want(t, s.sent(), "e")
		s.answer()
		all.Wait()
		if n := s.group.Busy(); n != 0 {
			t.Errorf("%d calls are under way", n)
		}
	})
}

func TestALoneCallWaitsForNoClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := coalesce.Group[int, int]{Many: 1, Most: 10, Send: func(c []int) []int { return c }}
		began := time.Now()
		for i := range 3 {
			if a, err := g.Do(t.Context(), i); a != i || err != nil {
				t.Errorf("got %d %v, want %d", a, err, i)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
	})
}

// Few calls go by themselves, in their callers' goroutines and with their contexts.
func TestFewGoAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(10)
		s.group.Many = 3
		gate := make(chan struct{})
		type key struct{}
		s.group.Alone = func(ctx context.Context, c string) string {
			<-gate
			return fmt.Sprint(ctx.Value(key{}), " ", c)
		}
		var all sync.WaitGroup
		for _, c := range []string{"a", "b"} {
			all.Go(func() {
				a, err := s.group.Do(context.WithValue(t.Context(), key{}, "alone"), c)
				if a != "alone "+c || err != nil {
					t.Errorf("%s: got %q %v", c, a, err)
				}
			})
		}
		synctest.Wait()
		s.asks(t, &all, "c")
		want(t, s.sent(), "c")
		close(gate)
		s.answer()
		all.Wait()
	})
}

// A request has a bound, and so many as fill one wait for none that is under way, as
// long as not too many requests are.
func TestFullRequestsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(3)
		s.group.Senders = 2
		var all sync.WaitGroup
		s.asks(t, &all, "a", "b", "c", "d", "e", "f", "g", "h")
		want(t, s.sent(), "a b+c+d")
		s.answer()
		want(t, s.sent(), "e+f+g")
		s.answer()
		want(t, s.sent(), "h")
		s.answer()
		s.answer()
		all.Wait()

		s.group.Senders = 0
		s.asks(t, &all, "a", "b", "c", "d", "e", "f", "g", "h")
		want(t, s.sent(), "a b+c+d e+f+g")
		s.answer()
		want(t, s.sent(), "h")
		s.answer()
		s.answer()
		s.answer()
		all.Wait()
	})
}

// A request that is just full waits for none that is under way.
func TestARequestThatIsJustFullDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(3)
		var all sync.WaitGroup
		s.asks(t, &all, "a", "b", "c")
		want(t, s.sent(), "a")
		s.asks(t, &all, "d")
		want(t, s.sent(), "b+c+d")
		s.answer()
		s.answer()
		all.Wait()
	})
}

func TestKeysAreApartAndSomeGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(3)
		s.group.Senders = 1
		s.group.Key = func(c string) string { return c[:1] }
		s.group.First = func(c string) bool { return strings.HasSuffix(c, "!") }
		var all sync.WaitGroup
		s.asks(t, &all, "z", "a1", "a2", "b1", "c1", "d1", "b2!", "a3!", "a4!")
		for _, sent := range []string{"z", "b2!+a3!+c1", "a4!+b1+d1", "a1", "a2"} {
			want(t, s.sent(), sent)
			s.answer()
		}
		all.Wait()
	})
}

// Calls that go first fill a request, and wait for one that hangs no longer than others do.
func TestWhatGoesFirstIsNotLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(3)
		s.group.Senders, s.group.Patience = 2, time.Second
		s.group.First = func(c string) bool { return strings.HasSuffix(c, "!") }
		var all sync.WaitGroup
		s.asks(t, &all, "a", "b!", "c!", "d!")
		want(t, s.sent(), "a b!+c!+d!")
		s.asks(t, &all, "e!")
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, s.sent(), "e!")
		for range 3 {
			s.answer()
		}
		all.Wait()
	})
}

// Who gives up gives up its own waiting: what was not sent never is, what was is
// answered to the others all the same.
func TestACallEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(10)
		var all sync.WaitGroup
		ctx, cancel := context.WithCancelCause(t.Context())
		cancelled := func(c string, unsent bool) {
			all.Go(func() {
				_, err := s.group.Do(ctx, c)
				if !errors.Is(err, context.Canceled) || errors.Is(err, coalesce.ErrNotSent) != unsent {
					t.Errorf("%s: %v", c, err)
				}
			})
			synctest.Wait()
		}
		s.asks(t, &all, "under way")
		cancelled("sent", false)
		s.asks(t, &all, "beside")
		s.answer()
		want(t, s.sent(), "under way sent+beside")
		cancelled("gathered", true)
		s.asks(t, &all, "after")
		cancel(nil)
		synctest.Wait()
		cancelled("late", true)
		s.answer()
		want(t, s.sent(), "after")
		s.answer()
		all.Wait()
	})
}

// So does one that would go before the others.
func TestACallThatGoesFirstEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(10)
		s.group.First = func(c string) bool { return strings.HasSuffix(c, "!") }
		var all sync.WaitGroup
		s.asks(t, &all, "under way")
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() {
			if _, err := s.group.Do(ctx, "first!"); !errors.Is(err, context.Canceled) || !errors.Is(err, coalesce.ErrNotSent) {
				t.Errorf("got %v, want that it was cancelled and not sent", err)
			}
		})
		synctest.Wait()
		cancel()
		s.asks(t, &all, "after")
		s.answer()
		want(t, s.sent(), "under way after")
		s.answer()
		all.Wait()
	})
}

// A crowd of which many give up at any moment: each that does not has its own answer,
// what was withdrawn is not carried out, and everything ends.
func TestACrowd(t *testing.T) {
	const callers, rounds = 64, 200
	done := map[int]bool{}
	var mu sync.Mutex
	g := coalesce.Group[int, int]{Many: 8, Most: 16}
	carryOut := func(c int) int {
		mu.Lock()
		defer mu.Unlock()
		if done[c] {
			t.Errorf("%d was carried out twice", c)
		}
		done[c] = true
		return -c
	}
	g.Alone = func(_ context.Context, c int) int { return carryOut(c) }
	g.Send = func(calls []int) []int {
		if len(calls) == 0 || len(calls) > g.Most {
			t.Errorf("a request of %d calls", len(calls))
		}
		answers := make([]int, len(calls))
		for i, c := range calls {
			answers[i] = carryOut(c)
		}
		return answers
	}
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			for n := range rounds {
				c := 1 + i*rounds + n
				ctx, cancel := context.WithCancel(t.Context())
				if rand.N(4) == 0 {
					go cancel()
				}
				a, err := g.Do(ctx, c)
				cancel()
				switch {
				case err == nil && a != -c:
					t.Errorf("%d: the answer is %d", c, a)
				case errors.Is(err, coalesce.ErrNotSent):
					mu.Lock()
					if done[c] {
						t.Errorf("%d was not sent, and carried out", c)
					}
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
}

// Calls that wait for a request which hangs go with another after the group's patience, and
// the first still answers its own. Then requests are as many at once as before.
func TestARequestThatHangsDelaysCallsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(8)
		s.group.Senders, s.group.Patience = 1, time.Second
		var all sync.WaitGroup
		s.asks(t, &all, "a", "b", "c")
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		want(t, s.sent(), "a")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		want(t, s.sent(), "b+c")
		for range 2 {
			s.answer()
		}
		s.asks(t, &all, "d", "e")
		want(t, s.sent(), "d")
		time.Sleep(time.Second)
		synctest.Wait()
		want(t, s.sent(), "e")
		time.Sleep(time.Second) // nobody waits when the second hangs as well
		synctest.Wait()
		s.asks(t, &all, "f")
		want(t, s.sent(), "f")
		for range 3 {
			s.answer()
		}
		s.asks(t, &all, "g", "h")
		want(t, s.sent(), "g")
		s.answer()
		want(t, s.sent(), "h")
		s.answer()
		all.Wait()
	})
}
