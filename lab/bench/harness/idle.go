package harness

import (
	"context"
	"fmt"
	"sync"
)

// keepers is how many goroutines obtain the locks of a Keep load.
const keepers = 64

type kept struct {
	name   string
	unlock Unlock
}

// keep obtains the names of a Keep load and measures what they weigh.
func (w *worker) keep(ctx context.Context) {
	n := w.job.Load.Pairs
	all := make([]kept, n)
	for i := range all {
		all[i].name = fmt.Sprintf("keep:%d:%d", w.job.Process, i)
	}
	before := memory()
	next := make(chan int)
	var keeping sync.WaitGroup
	for range keepers {
		keeping.Go(func() {
			for i := range next {
				unlock, err := w.lockers[i%len(w.lockers)].Lock(ctx, all[i].name)
				if err != nil {
					w.failed.Add(1)
					continue
				}
				all[i].unlock = unlock
				w.mine.Grants.Add(1)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	keeping.Wait()
	w.bytes = (memory() - before) / float64(n)
	w.kept = all
	w.mine.Idle.Store(1)
}

// release gives the names back and counts those that were lost meanwhile: a
// sample by asking the engine, all of them by what Unlock says.
func (w *worker) release(r *Result) {
	ctx := context.Background()
	if x, ok := w.lockers[0].(Remainer); ok {
		for i := 0; i < len(w.kept); i += max(len(w.kept)/100, 1) {
			if k := w.kept[i]; k.unlock != nil {
				if left, err := x.Remaining(ctx, k.name); err != nil || left <= 0 {
					r.Lost++
				}
			}
		}
	}
	next := make(chan Unlock)
	var mu sync.Mutex
	var releasing sync.WaitGroup
	for range keepers {
		releasing.Go(func() {
			for unlock := range next {
				if err := unlock(); err != nil {
					mu.Lock()
					r.Errors++
					if r.Cause == "" {
						r.Cause = err.Error()
					}
					mu.Unlock()
				}
			}
		})
	}
	for _, k := range w.kept {
		if k.unlock != nil {
			next <- k.unlock
		}
	}
	close(next)
	releasing.Wait()
}
