package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"leasehold/lab/bench/harness"
	"leasehold/lab/servers"
	"leasehold/optimistic"
)

// result is what one length of work measured.
type result struct {
	name, title string
	ways        []string
	writers     []int
	cells       map[string]map[int]*cell
}

// cell is one way with one number of writers.
type cell struct {
	rates              []float64 // updates per second, of each round
	gaveUp             int64     // Updates that ended with ErrConflict
	updates, conflicts int64
}

// rate is the median of the rounds.
func (c *cell) rate() float64 {
	s, _ := harness.NewStat(c.rates) // every round has a rate
	return s.Median
}

func measure(ctx context.Context, window time.Duration, rounds int, writers []int) ([]*result, error) {
	// Without syncing: how long a disk takes for that differs more between two minutes of
	// a shared machine than any two ways do.
	s, err := servers.StartPostgres(&servers.PostgresOptions{Args: []string{"-c", "max_connections=400", "-c", "fsync=off"}})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	for _, statement := range []string{create, insert} {
		if _, err := s.Query(statement); err != nil {
			return nil, err
		}
	}
	lengths := []time.Duration{0, 5 * time.Millisecond}
	results := []*result{{name: "short", title: "Nothing between reading and writing"}, {name: "long", title: "5 ms of work between reading and writing"}}
	for i, r := range results {
		r.writers, r.cells = writers, map[string]map[int]*cell{}
		for _, w := range ways(lengths[i]) {
			r.ways, r.cells[w.name] = append(r.ways, w.name), map[int]*cell{}
			for _, n := range writers {
				r.cells[w.name][n] = &cell{}
			}
		}
	}
	// The rounds are outermost: a disk that is slow for a while is slow for one round of
	// everything.
	for range rounds {
		for i, r := range results {
			for _, n := range writers {
				for _, w := range ways(lengths[i]) {
					if err := round(ctx, s, w, n, lengths[i], window, r.cells[w.name][n]); err != nil {
						return nil, fmt.Errorf("%s, %d writers: %w", w.name, n, err)
					}
				}
			}
		}
	}
	return results, nil
}

// round has n writers change the row for a while. Each is let finish what it began.
func round(ctx context.Context, s *servers.PostgresServer, w way, n int, work, window time.Duration, c *cell) (err error) {
	all := make([]*writer, n)
	defer func() {
		for _, each := range all {
			if each != nil {
				each.close()
			}
		}
	}()
	for i := range all {
		if all[i], err = w.open(ctx, s.URL("", ""), work); err != nil {
			return err
		}
		if err := all[i].change(ctx); err != nil { // connects, prepares and creates
			return err
		}
		all[i].stats = optimistic.Stats{}
	}
	before, err := left(s)
	if err != nil {
		return err
	}
	var updates, inVain atomic.Int64
	errs := make(chan error, n)
	var wg sync.WaitGroup
	began := time.Now()
	for _, each := range all {
		wg.Go(func() {
			for time.Since(began) < window {
				switch err := each.change(ctx); {
				case err == nil:
					updates.Add(1)
				case errors.Is(err, optimistic.ErrConflict):
					inVain.Add(1)
				default:
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	close(errs)
	for err := range errs {
		return err
	}
	after, err := left(s)
	if err != nil {
		return err
	}
	if before-after != updates.Load() {
		return fmt.Errorf("%d updates, and the row was changed %d times", updates.Load(), before-after)
	}
	c.rates = append(c.rates, float64(updates.Load())/took.Seconds())
	c.updates += updates.Load()
	c.gaveUp += inVain.Load()
	for _, each := range all {
		c.conflicts += each.stats.Conflicts()
	}
	return nil
}

func left(s *servers.PostgresServer) (int64, error) {
	text, err := s.Query("SELECT n FROM stock WHERE id = 42")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
