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
	ID           int
	Do           string // hold; wait, under what the order of the same ID holds; storm
	Name         string
	Units, Limit int32
	Seed         uint64 // of a storm
	Waits        int    // how many contended waits a storm has
}

type reply struct {
	ID     int
	What   string // held, got, deadlock, stormed, or an error
	Circle int    // members of the circle that was shown
	Waits  int
}

// memberTTL is short, so that what a killed or stopped member leaves behind is over
// soon.
const memberTTL = 2 * time.Second

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
				var circle *leasehold.DeadlockError
				switch {
				case errors.As(err, &circle):
					r.What, r.Circle = "deadlock", len(circle.Circle)
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
		return locks.Acquire(ctx, o.Name, o.Units, o.Limit)
	case o.Units == 1:
		return locks.RLock(ctx, o.Name)
	}
	return locks.Lock(ctx, o.Name)
}

// storm has callers nest locks, readers and permits in one order of names, so that
// there is never a circle, until as many waits of holders as ordered have lasted
// for longer than the period, so that each was looked into.
func storm(locks *leasehold.Client, period time.Duration, o *order) (what string, waits int) {
	const names, callers = 24, 16
	var (
		mu sync.Mutex
		wg sync.WaitGroup
	)
	what = "stormed"
	more := func(err error, waited time.Duration) bool {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
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
				ctx := context.Background()
				var nested []*leasehold.Lease
				most := 2 + rng.IntN(4)
				for at := rng.IntN(names); at < names && going && len(nested) < most; at += 1 + rng.IntN(4) {
					one := order{Name: fmt.Sprint("storm", at), Units: engine.Max, Limit: engine.Max}
					switch {
					case at%3 == 2:
						one.Limit = 3
						one.Units = int32(1 + rng.IntN(3))
					case rng.IntN(3) == 0:
						one.Units = 1
					}
					start := time.Now()
					l, err := one.obtain(ctx, locks)
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
				time.Sleep(time.Duration(rng.IntN(int(period))))
				for _, l := range slices.Backward(nested) {
					l.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return what, waits
}
