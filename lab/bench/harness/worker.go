package harness

import (
	"bufio"
	"context"
	"encoding/gob"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// WorkerEnv is set in the environment of worker processes.
const WorkerEnv = "LEASEHOLD_BENCH_WORKER"

// Phases of a load.
const (
	warming int32 = iota
	counting
	stopping
)

type worker struct {
	job        Job
	competitor Competitor
	clock      *Clock
	arena      *Arena
	mine       *Progress
	control    *Control
	lockers    []Locker
	actors     []*actor
	phase      atomic.Int32
	bytes      float64
	before     map[string]int64 // engine calls before the window
	after      map[string]int64 // and at its end
	kept       []kept
	failed     atomic.Int64
}

// actor is one goroutine of a load.
type actor struct {
	w       *worker
	id      int64 // among all processes
	locker  Locker
	asking  atomic.Bool
	draw    *rand.Rand
	zipf    *rand.Zipf
	served  int64
	pairs   int64
	changes int64
	latency []int64
	holds   []Hold
	wrote   []int64 // of the shared names, or one of its own
	gaveUp  int64
	errors  int64
	stalled int64
	cause   string
	grants  []int64
}

// Work is a worker process's whole life: a job comes in on stdin, "ready" goes
// out, "go" comes in, the result goes out. When stdin ends, so does the worker:
// the bench is gone.
func Work(find func(suite, competitor string) (Competitor, error)) error {
	in, out := bufio.NewReader(os.Stdin), os.Stdout
	line, err := in.ReadBytes('\n')
	if err != nil {
		return err
	}
	w := &worker{clock: NewClock()}
	if err := json.Unmarshal(line, &w.job); err != nil {
		return err
	}
	if w.competitor, err = find(w.job.Suite, w.job.Competitor); err != nil {
		return err
	}
	if w.arena, err = OpenArena(w.job.Arena); err != nil {
		return err
	}
	w.mine, w.control = w.arena.Process(w.job.Process), w.arena.Control()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := w.open(ctx); err != nil {
		return gob.NewEncoder(tagged(out, "failed\n")).Encode(Result{Errors: 1, Cause: "open: " + err.Error()})
	}
	if _, err := io.WriteString(out, "ready\n"); err != nil {
		return err
	}
	if _, err := in.ReadBytes('\n'); err != nil {
		return err
	}
	go func() {
		in.ReadByte()
		os.Exit(3)
	}()
	return gob.NewEncoder(tagged(out, "done\n")).Encode(w.run(ctx, cancel))
}

func tagged(w io.Writer, tag string) io.Writer {
	io.WriteString(w, tag)
	return w
}

func (w *worker) open(ctx context.Context) error {
	l := w.job.Load
	for c := range l.clients() {
		at := w.job.At
		at.Actor = w.job.Process*l.clients() + c
		locker, err := w.competitor.Open(ctx, at)
		if err != nil {
			return err
		}
		w.lockers = append(w.lockers, locker)
		for g := range l.goroutines() {
			id := at.Actor*l.goroutines() + g
			a := &actor{w: w, id: int64(id), locker: locker, wrote: make([]int64, max(l.Names, 1))}
			a.draw = rand.New(rand.NewPCG(uint64(id)+1, 7))
			if l.Zipf > 1 {
				a.zipf = rand.NewZipf(a.draw, l.Zipf, 1, uint64(l.Names-1))
			}
			w.actors = append(w.actors, a)
		}
	}
	return nil
}

func (w *worker) run(ctx context.Context, cancel context.CancelFunc) Result {
	var running sync.WaitGroup
	w.mine.Running.Store(int64(len(w.actors)))
	if w.job.Load.Kind == IdleTimeout {
		w.keep(ctx)
	}
	for _, a := range w.actors {
		running.Go(func() {
			defer w.mine.Running.Add(-1)
			switch w.job.Load.Kind {
			case Cycle:
				a.cycle(ctx)
			case Once:
				a.once(ctx)
			case IdleTimeout:
				w.waitFor(ctx, stopping)
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		running.Wait()
		close(ended)
	}()
	cpu := w.time(ended)

	r := Result{CPU: cpu, Wrote: make([]int64, w.arena.Names()), Bytes: w.bytes}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
drain:
	for {
		select {
		case <-ended:
			break drain
		case <-tick.C:
		}
		verdict := w.control.Verdict.Load()
		if verdict == goOn {
			continue
		}
		for _, a := range w.actors {
			if !a.asking.Load() {
				continue
			}
			if verdict == stuck {
				r.Stuck++
			} else {
				r.Cut++
			}
		}
		cancel()
		select {
		case <-ended:
		case <-time.After(deafBound):
			// Whoever still runs hangs in Lock or in Unlock, and may still write to
			// its actor: nothing of this worker but the counts can be trusted now.
			// At least one, that what it wrote is not missed as lost updates: the
			// last may have ended just now.
			r.Deaf = max(1, w.mine.Running.Load())
			return r
		}
		break
	}
	for _, a := range w.actors {
		a.add(&r)
	}
	if r.Calls = w.after; r.Calls == nil {
		r.Calls = w.calls()
	}
	for name, n := range w.before {
		r.Calls[name] -= n
	}
	if w.job.Load.Kind == IdleTimeout {
		w.release(&r)
	}
	r.Failed = w.failed.Load()
	w.close()
	return r
}

// time moves the phases along and returns the CPU time of the window.
func (w *worker) time(ended <-chan struct{}) time.Duration {
	if !w.reach(&w.control.From, ended) {
		return 0
	}
	before := cpuTime()
	if w.job.Load.Pairs == 0 || w.job.Load.Kind == IdleTimeout { // else whole pairs count
		w.before = w.calls()
	}
	w.phase.Store(counting)
	w.reach(&w.control.To, ended)
	w.after = w.calls()
	w.phase.Store(stopping)
	return cpuTime() - before
}

// calls is how often the engines were called so far, by method.
func (w *worker) calls() map[string]int64 {
	calls := map[string]int64{}
	for _, l := range w.lockers {
		if c, ok := l.(Caller); ok {
			for name, n := range c.Calls() {
				calls[name] += n
			}
		}
	}
	return calls
}

// reach waits for a moment that may not be known yet; false if the load ended
// before.
func (w *worker) reach(moment *atomic.Int64, ended <-chan struct{}) bool {
	for {
		wait := time.Millisecond
		if then := moment.Load(); then != 0 {
			if wait = w.clock.Until(then); wait <= 0 {
				return true
			}
			wait = min(wait, 20*time.Millisecond) // To may be moved
		}
		select {
		case <-ended:
			return false
		case <-time.After(wait):
		}
	}
}

func (w *worker) waitFor(ctx context.Context, phase int32) {
	for w.phase.Load() < phase && ctx.Err() == nil {
		time.Sleep(w.look())
	}
}

// look is how often a worker looks what it is to do next. While it only keeps
// locks, looking every millisecond would be most of the CPU that is measured.
func (w *worker) look() time.Duration {
	if w.job.Load.Kind == IdleTimeout {
		return 50 * time.Millisecond
	}
	return time.Millisecond
}

func (w *worker) close() {
	var closing sync.WaitGroup
	for _, l := range w.lockers {
		closing.Go(func() { l.Close() })
	}
	done := make(chan struct{})
	go func() {
		closing.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(deafBound):
	}
}

func (a *actor) more() bool {
	if n := a.w.job.Load.Pairs; n > 0 {
		return a.pairs < int64(n) && a.w.phase.Load() < stopping
	}
	return a.w.phase.Load() < stopping
}

// pick draws a name: its cell, its text, and which of its actor's counts it is.
func (a *actor) pick() (slot int, name string, own int) {
	switch l := a.w.job.Load; {
	case l.Names == 0:
		return int(a.id), fmt.Sprintf("own:%d", a.id), 0
	case a.zipf != nil:
		i := int(a.zipf.Uint64())
		return i, a.w.job.Names[i], i
	}
	return 0, a.w.job.Names[0], 0
}

func (a *actor) lock(ctx context.Context, name string) (unlock Unlock, units int64, err error) {
	l := a.w.job.Load
	switch {
	case l.Permits > 0:
		unlock, err = a.locker.(Moded).Acquire(ctx, name, 1, l.Permits)
		return unlock, 1, err
	case l.ReadShare > 0 && a.draw.Float64() < l.ReadShare:
		unlock, err = a.locker.(Moded).RLock(ctx, name)
		return unlock, 1, err
	}
	unlock, err = a.locker.Lock(ctx, name)
	return unlock, l.limit(), err
}

func (a *actor) cycle(ctx context.Context) {
	l, w := a.w.job.Load, a.w
	now := w.clock.Now
	if l.Light {
		now = func() int64 { return 0 }
	}
	own := l.Names == 0
	handover := l.Names == 1 && l.Permits == 0 && l.ReadShare == 0
	slot, name, count := a.pick()
	for a.more() {
		if a.zipf != nil {
			slot, name, count = a.pick()
		}
		cell := w.arena.Name(slot)

		asked := now()
		a.asking.Store(true)
		unlock, units, err := a.lock(ctx, name)
		a.asking.Store(false)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			a.gaveUp++
			a.notification(err)
			time.Sleep(time.Millisecond) // who is refused at once must not spin
			continue
		}
		granted := now()
		window := w.phase.Load() == counting
		alone := units == l.limit()

		// From here to Unlock the lock is all that protects the cell.
		counter, changed, waited := cell.Counter, false, granted-asked
		if handover {
			changed = cell.Owner != 0 && cell.Owner != a.id+1
			waited = granted - cell.Released
			cell.Owner = a.id + 1
		}
		seq := atomic.AddInt64(&cell.Seq, 1)
		if !l.Light {
			w.mine.Grants.Add(1)
		} else if a.pairs%1024 == 0 {
			w.mine.Grants.Add(1024)
		}
		if l.HoldMax > 0 {
			time.Sleep(l.HoldMin + time.Duration(a.draw.Int64N(int64(l.HoldMax-l.HoldMin)+1)))
		}
		if alone {
			cell.Counter = counter + 1
			a.wrote[count]++
		}
		released := now()
		if handover {
			cell.Released = released
		}
		err = unlock()
		// It may be somebody else's turn by now.

		a.pairs++
		if err != nil {
			a.errors++
			a.notification(err)
		}
		if window {
			a.served++
			if changed {
				a.changes++
			}
		}
		if !l.Light && len(a.holds) < maxNotifications/len(w.actors) {
			a.holds = append(a.holds, Hold{granted, released, int32(slot), int32(units)})
			switch {
			case !window || handover && !changed:
			case own:
				a.latency = append(a.latency, now()-asked)
			default:
				a.latency = append(a.latency, waited)
			}
		}
		if l.Relay {
			a.awaitNext(ctx, cell, seq)
		}
	}
}

// awaitNext returns when somebody else holds the lock. If nobody takes it for
// Silence although others are blocked, that is noted and the relay goes on.
func (a *actor) awaitNext(ctx context.Context, cell *Name, seq int64) {
	bound := time.Now().Add(Silence)
	for atomic.LoadInt64(&cell.Seq) == seq && a.more() && ctx.Err() == nil {
		if time.Now().After(bound) {
			a.stalled++
			return
		}
		time.Sleep(100 * time.Microsecond)
	}
}

func (a *actor) once(ctx context.Context) {
	a.asking.Store(true)
	unlock, err := a.locker.Lock(ctx, a.w.job.Names[0])
	a.asking.Store(false)
	if err != nil {
		if ctx.Err() == nil {
			a.gaveUp++
			a.notification(err)
		}
		return
	}
	a.grants = append(a.grants, a.w.clock.Now())
	a.served++
	a.w.mine.Grants.Add(1)
	a.w.waitFor(ctx, stopping)
	if err := unlock(); err != nil {
		a.errors++
		a.notification(err)
	}
}

func (a *actor) notification(err error) {
	if a.cause == "" {
		a.cause = err.Error()
	}
}

func (a *actor) add(r *Result) {
	r.Served = append(r.Served, a.served)
	r.Pairs += a.pairs
	r.Changes += a.changes
	r.Latency = append(r.Latency, a.latency...)
	r.Holds = append(r.Holds, a.holds...)
	r.Grants = append(r.Grants, a.grants...)
	r.GaveUp += a.gaveUp
	r.Errors += a.errors
	r.Stalled += a.stalled
	if r.Cause == "" {
		r.Cause = a.cause
	}
	first := 0
	if a.w.job.Load.Names == 0 {
		first = int(a.id)
	}
	for i, n := range a.wrote {
		r.Wrote[first+i] += n
	}
}

func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// memory is what the heap and the stacks take, garbage left out.
func memory() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
