package zklock

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"leasehold/engine"
)

// crowd is how many callers share requests in these tests.
const crowd = 32

// vacated is the names of queues that a client is sure to have left empty.
func vacated(t *testing.T, a client) (names []string) {
	t.Helper()
	for i := range crowd {
		names = append(names, fmt.Sprint("n", i))
	}
	for range 3 {
		all(names, func(_ int, name string) { a.leave1(t, a.hold(t, exclusive(name))) })
	}
	for _, name := range names {
		if _, sure := a.vacant("/" + name); !sure {
			t.Fatalf("after three claims nothing is known of %s", name)
		}
	}
	return names
}

// all calls f for each at once.
func all[T any](of []T, f func(i int, one T)) {
	var calls sync.WaitGroup
	for i, one := range of {
		calls.Go(func() { f(i, one) })
	}
	calls.Wait()
}

// jam holds back the next write of a client until so many steps are under way.
func (c client) jam(t *testing.T, steps int) {
	var jammed atomic.Bool
	c.wire.before(func(int32) {
		if !jammed.Swap(true) {
			eventually(t, "the callers make no steps", func() bool { return c.group.Busy() >= steps })
		}
	})
	t.Cleanup(func() { c.wire.before(nil) })
}

func TestTheStepsOfManyCallersShareRequests(t *testing.T) {
	a := open(t, on(zooKeeper(t)))
	names := vacated(t, a)
	claims := make([]engine.Claim, crowd)
	for _, step := range []func(i int, name string){
		func(i int, name string) { claims[i] = a.hold(t, exclusive(name)) },
		func(i int, _ string) { a.leave1(t, claims[i]) },
	} {
		a.jam(t, crowd)
		a.wire.requests()
		all(names, step)
		sent := a.wire.requests()
		if n := sent[opMulti] + sent[opDelete]; n > many+maxSenders || n == 0 || sent[opList] > 0 {
			t.Errorf("%d calls took %v", crowd, sent)
		}
	}
	tickets := map[uint64]int{}
	for _, c := range claims {
		tickets[c.Ticket]++
	}
	if len(tickets) == crowd {
		t.Error("no two claims were made in one transaction")
	}
}

// A multi fails as a whole. One claim whose node somebody has removed keeps no other's.
func TestAStepThatFailsFailsNoOther(t *testing.T) {
	s := zooKeeper(t)
	a, conn := open(t, on(s)), peer(t, s)
	names := vacated(t, a)
	claims := make([]engine.Claim, crowd)
	all(names, func(i int, name string) { claims[i] = a.hold(t, exclusive(name)) })
	a.mu.Lock()
	removed := a.m.Claims[claims[7].ID].Key
	a.mu.Unlock()
	a.jam(t, crowd)
	var once sync.Once
	all(claims, func(i int, c engine.Claim) {
		once.Do(func() {
			if err := conn.Delete(removed, -1); err != nil {
				t.Error(err)
			}
		})
		if got := a.leave1(t, c); (got.State == engine.Held) != (i != 7) {
			t.Errorf("Leave of claim %d found it %v", i, got.State)
		}
	})
	// The same of Joins: the node of one name has gone, and its vacancy is believed.
	a.wire.before(nil)
	all(names, func(_ int, name string) { a.leave1(t, a.hold(t, exclusive(name))) })
	all(names, func(_ int, name string) { a.leave1(t, a.hold(t, exclusive(name))) })
	if err := conn.Delete("/n5", -1); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the node is not heard of", func() bool { v, _ := a.vacant("/n5"); return v == nil })
	a.mu.Lock()
	a.vacancies["/n5"] = &vacancy{last: 3, empty: true, sure: true}
	a.mu.Unlock()
	a.jam(t, crowd)
	all(names, func(_ int, name string) { a.hold(t, exclusive(name)) })
}

func TestASharedAnswerThatIsLost(t *testing.T) {
	s := zooKeeper(t)
	a, b := open(t, on(s)), open(t, on(s))
	names := vacated(t, a)
	a.jam(t, crowd)
	lost := a.wire.loseMulti()
	claims := make([]engine.Claim, crowd)
	all(names, func(i int, name string) {
		r := a.lasts(exclusive(name))
		for range 3 { // whether it was made is found out, and the call made anew where it was not
			var err error
			if claims[i], err = a.Join(within(t), r); err == nil {
				return
			}
		}
		t.Errorf("%s was not joined", name)
	})
	if !lost() {
		t.Fatal("no answer was lost")
	}
	for i, name := range names {
		if q, err := b.Queue(within(t), name); err != nil || len(q.Claims) != 1 || q.Claims[0].Ticket != claims[i].Ticket {
			t.Errorf("%s: %v, %v; the Join said %v", name, q, err, claims[i])
		}
	}
}
