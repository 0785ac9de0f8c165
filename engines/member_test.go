package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"leasehold"
	"leasehold/engine"
)

// A member is a process that holds and waits as it is told, by orders on its
// standard input, and says on its standard output what came of each.

const (
	memberURL    = "LEASEHOLD_TEST_MEMBER"
	memberPeriod = "LEASEHOLD_TEST_PERIOD"
)

type order struct {
	ID             int
	Do             string // hold; wait, under what the order of the same ID holds; storm
	Name           string
	Permits, Limit int32
	Seed           uint64 // of a storm
	Waits          int    // how many contended waits a storm has
}

type reply struct {
	ID    int
	What  string // held, got, deadlock, stormed, or an error
	Cycle int    // members of the cycle that was shown
	Waits int
}

// memberTTL is short, so that what a killed or stopped member leaves behind is over
// soon, and longer than a busy machine keeps one from renewing.
const memberTTL = 5 * time.Second

func beMember(url string) error {
	period, err := time.ParseDuration(os.Getenv(memberPeriod))
	if err != nil {
		return err
	}
	eng, err := Open(context.Background(), url)
	if err != nil {
		return err
	}
	locks, err := leasehold.New(eng, &leasehold.Options{TTL: memberTTL, DeadlockAfter: period})
	if err != nil {
		return err
	}
	defer locks.Close()
	var (
		mu   sync.Mutex
		out  = json.NewEncoder(os.Stdout)
		held = map[int]*leasehold.Lease{}
		wg   sync.WaitGroup
	)
	answer := func(r reply) {
		mu.Lock()
		defer mu.Unlock()
		_ = out.Encode(r) // nobody reads any more: the orders end as well
	}
	in := json.NewDecoder(os.Stdin)
	for {
		var o order
		if in.Decode(&o) != nil {
			locks.Close() // answers who waits
			wg.Wait()
			return nil
		}
		wg.Go(func() {
			mu.Lock()
			outer := held[o.ID]
			mu.Unlock()
			r := reply{ID: o.ID}
			switch o.Do {
			case "hold":
				l, err := o.obtain(context.Background(), locks)
				r.What = "held"
				if err != nil {
					r.What = err.Error()
				}
				mu.Lock()
				held[o.ID] = l
				mu.Unlock()
			case "wait":
				l, err := o.obtain(outer.Context(), locks)
				var cycle *leasehold.DeadlockError
				switch {
				case errors.As(err, &cycle):
					r.What, r.Cycle = "deadlock", len(cycle.Cycle)
				case err != nil:
					r.What = err.Error()
				default:
					r.What = "got"
					l.Unlock()
				}
				answer(r)
				outer.Unlock()
				return
			case "storm":
				r.What, r.Waits = storm(locks, period, &o)
			}
			answer(r)
		})
	}
}

func (o *order) obtain(ctx context.Context, locks *leasehold.Client) (*leasehold.Lease, error) {
	switch {
	case o.Limit != engine.Max:
		return locks.Acquire(ctx, o.Name, o.Permits, o.Limit)
	case o.Permits == 1:
		return locks.RLock(ctx, o.Name)
	}
	return locks.Lock(ctx, o.Name)
}

// storm has callers nest locks round rings of names, where there is always one
// caller too few for a cycle: before its first name each takes a permit of the
// ring's gate, of which there are fewer than a cycle has members. It ends when as
// many waits of holders as ordered have lasted for longer than the period, so that
// each was looked into. Some give up, so that queues change while they are read.
func storm(locks *leasehold.Client, period time.Duration, o *order) (what string, waits int) {
	const rings, callers = 6, 16
	locks = locks.With(leasehold.LockOptions{TTL: leasehold.DefaultTTL}) // nobody loses a permit here
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	what = "stormed"
	more := func(err error, waited time.Duration) bool {
		mu.Lock()
		defer mu.Unlock()
		if err != nil && !errors.Is(err, leasehold.ErrHeld) && !errors.Is(err, leasehold.ErrUnavailable) {
			what = err.Error()
		}
		if waited > period {
			waits++
		}
		return what == "stormed" && waits < o.Waits
	}
	for i := range callers {
		rng := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		wg.Go(func() {
			for going := true; going; {
				ring, ctx := rng.IntN(rings), context.Background()
				var nested []*leasehold.Lease
				for _, one := range round(rng, ring) {
					view := locks
					if len(nested) == 2 && rng.IntN(3) == 0 {
						view = locks.With(leasehold.LockOptions{Wait: time.Duration(1+rng.IntN(10)) * period})
					}
					start := time.Now()
					l, err := one.obtain(ctx, view)
					waited := time.Since(start)
					if len(nested) == 0 {
						waited = 0 // it held nothing
					}
					if going = more(err, waited); err != nil {
						break
					}
					nested = append(nested, l)
					ctx = l.Context()
				}
				hold := time.Duration(rng.IntN(int(period)))
				if rng.IntN(4) == 0 {
					hold *= 20 // what is in the queue stays so for several looks
				}
				time.Sleep(hold)
				for _, l := range slices.Backward(nested) {
					l.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return what, waits
}

// round is what one caller takes of a ring of 3 or 4 names, one after the other.
func round(rng *rand.Rand, ring int) []order {
	size := 3 + ring/3
	one, seats := order{Permits: engine.Max, Limit: engine.Max}, size
	switch ring % 3 {
	case 1: // readers, with writers between them that hold nothing else
		if rng.IntN(4) > 0 {
			one.Permits = 1
		}
	case 2: // two permits of each name: a cycle of as many as the ring has names is no deadlock
		one.Permits, one.Limit, seats = 1, 2, 2*size
	}
	at := rng.IntN(size)
	var names []order
	for i := range 2 {
		one.Name = fmt.Sprintf("ring%d-%d", ring, (at+i)%size)
		names = append(names, one)
	}
	if ring%3 == 1 && one.Permits > 1 {
		return names[:1]
	}
	return append([]order{{Name: fmt.Sprintf("gate%d", ring), Permits: 1, Limit: int32(seats - 1)}}, names...)
}
