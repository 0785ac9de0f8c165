package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/lab/bench/harness"
	"leasehold/lab/interop/redisson"
)

// javaProcess is that of any Java library.
type javaProcess = redisson.Process

// javaLibrary is what the bench needs of a Java library's locks. It drives their
// processes itself: they take no load.
type javaLibrary struct {
	library      string
	lock, unlock string            // commands
	root         string            // what its names begin with, and ours do not
	kinds        map[string]string // of lock, by the row that is about that kind alone
	mixed        map[string][2]string
	start        func(ctx context.Context, addr string) (*javaProcess, error)
	ours         func(ctx context.Context, addr string) (engine.Engine, error)
}

func noLoad(context.Context, harness.Endpoint) (harness.Locker, error) {
	return nil, errors.New("this competitor is a Java process and takes no load")
}

// warm starts a process whose locks are compiled: the JVM compiles what has run
// some thousand times.
func (j *javaLibrary) warm(ctx context.Context, addr, kind string) (*javaProcess, error) {
	p, err := j.start(ctx, addr)
	if err != nil {
		return nil, err
	}
	if _, err := j.pairs(ctx, p, kind, 3000); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// pairs has a Java process lock and unlock a free name so many times.
func (j *javaLibrary) pairs(ctx context.Context, p *javaProcess, kind string, times int) (redisson.Answer, error) {
	return p.Thread(1).Do(ctx, "pairs", kind, j.root+fmt.Sprint("own:java:", p.PID()), strconv.Itoa(times))
}

// alsoJava makes a workload of uncontended pairs take the library's rows as well.
func (j *javaLibrary) alsoJava(w harness.Workload) harness.Workload {
	measure, count := w.Measure, w.Count
	w.How += " " + j.library + "'s pairs are made and timed inside its process, after 3,000 that are not counted."
	w.Measure = func(ctx context.Context, s *harness.Stage, p harness.Competitor) (sample harness.Sample, err error) {
		kind, ok := j.kinds[p.Name]
		if !ok {
			return measure(ctx, s, p)
		}
		process, err := j.warm(ctx, s.At.Addrs[0], kind)
		if err != nil {
			return sample, err
		}
		defer process.Close()
		const times = 2000
		before, err1 := s.ServerCPU()
		answer, err := j.pairs(ctx, process, kind, times)
		after, err2 := s.ServerCPU()
		if err := errors.Join(err, err1, err2); err != nil {
			return sample, err
		}
		var took []int64
		for text := range strings.FieldsSeq(answer.Value) {
			t, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return sample, err
			}
			took = append(took, t)
		}
		slices.Sort(took)
		sample.Figures = map[string]float64{
			harness.Rate:   times / time.Duration(answer.Ended-answer.Began).Seconds(),
			harness.P50:    harness.Percentile(took, 0.5),
			harness.P99:    harness.Percentile(took, 0.99),
			harness.Server: float64(after-before) / times,
		}
		return sample, nil
	}
	w.Count = func(ctx context.Context, s *harness.Stage, p harness.Competitor) (sample harness.Sample, err error) {
		kind, ok := j.kinds[p.Name]
		if !ok {
			return count(ctx, s, p)
		}
		traffic, err := s.Counted()
		if err != nil {
			return sample, err
		}
		defer traffic.Close()
		process, err := j.warm(ctx, traffic.At.Addrs[0], kind)
		if err != nil {
			return sample, err
		}
		defer process.Close()
		const times = 100
		traffic.Forget()
		if _, err := j.pairs(ctx, process, kind, times); err != nil {
			return sample, err
		}
		sample.Traffic = map[string]float64{}
		total := 0
		for command, n := range traffic.Requests() {
			sample.Traffic[command] = float64(n) / times
			if command != s.Keepalive {
				total += n
			}
		}
		sample.Figures = map[string]float64{harness.Requests: float64(total) / times}
		return sample, nil
	}
	return w
}

// side is one of two processes that hand a name over. lock says when it was
// obtained, unlock when it was called, by the machine's clock.
type side interface {
	lock(ctx context.Context, name string) (obtained int64, err error)
	unlock(ctx context.Context, name string) (called int64, err error)
	Close() error
}

type javaSide struct {
	*javaProcess
	library *javaLibrary
	kind    string
}

func (j *javaSide) lock(ctx context.Context, name string) (int64, error) {
	a, err := j.Thread(1).Do(ctx, j.library.lock, j.kind, j.library.root+name)
	return a.Ended, err
}

func (j *javaSide) unlock(ctx context.Context, name string) (int64, error) {
	a, err := j.Thread(1).Do(ctx, j.library.unlock, j.kind, j.library.root+name)
	return a.Began, err
}

type ourSide struct {
	*leasehold.Client
	clock *harness.Clock
	lease *leasehold.Lease
}

func (o *ourSide) lock(ctx context.Context, name string) (at int64, err error) {
	o.lease, err = o.Lock(ctx, name)
	return o.clock.Now(), err
}

func (o *ourSide) unlock(context.Context, string) (int64, error) {
	called := o.clock.Now()
	return called, o.lease.Unlock()
}

// handingOver measures how long after the one's unlock the other holds.
func (j *javaLibrary) handingOver(id string, rows []string) harness.Workload {
	return harness.Workload{
		ID: id, Title: "hand-over between two processes with " + j.library + "'s locks", Main: harness.P50, Lower: true,
		Competitors: rows,
		Columns:     []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax},
		How:         "One process holds, and the other asked 5 ms ago. The p50 and p99 are from the call of unlock in the first to the return of lock in the second. Each process notes its own time; leasehold's is the process of the benchmark. 100 turns are counted, after 200 that are not.",
		Measure: func(ctx context.Context, s *harness.Stage, p harness.Competitor) (sample harness.Sample, err error) {
			from, to, err := j.sides(ctx, s.At.Addrs[0], p.Name)
			if err != nil {
				return sample, err
			}
			defer func() { err = errors.Join(err, from.Close(), to.Close()) }()
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			var took []int64
			for turn := range 300 {
				waited, err := handOver(ctx, from, to, "bench:0")
				if err != nil {
					return sample, err
				}
				if turn >= 200 {
					took = append(took, waited)
				}
			}
			slices.Sort(took)
			sample.Figures = map[string]float64{
				harness.P50:     harness.Percentile(took, 0.5),
				harness.P99:     harness.Percentile(took, 0.99),
				harness.Longest: harness.Percentile(took, 1),
			}
			return sample, nil
		},
	}
}

// crowd measures so many processes that lock and unlock one name as fast as they can.
// Theirs are JVMs; ours are clients of the bench's own process, each on a connection of
// its own. Who is never served ends the run.
func (j *javaLibrary) crowd(id string, clients int, rows []string) harness.Workload {
	const times = 50
	return harness.Workload{
		ID: id, Title: fmt.Sprintf("hand-over between %d clients with %s's locks, free", clients, j.library), Main: harness.Rate, SkipQuick: true,
		Competitors: rows,
		Columns:     []harness.Column{harness.ColPairs, harness.ColP50, harness.ColP99, harness.ColMax},
		How:         fmt.Sprintf("Each locks and unlocks one name %d times, as fast as it can. p50, p99 and the longest are of a pair, with its wait.", times),
		Measure: func(ctx context.Context, s *harness.Stage, p harness.Competitor) (sample harness.Sample, err error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			kind, _ := j.ends(p.Name)
			sides := make([]side, clients)
			for i := range sides {
				if sides[i], err = j.open(ctx, s.At.Addrs[0], kind); err != nil {
					return sample, err
				}
				defer sides[i].Close()
			}
			took := make([][]int64, clients)
			began := time.Now()
			failed := make([]error, clients)
			var all sync.WaitGroup
			for i, one := range sides {
				all.Go(func() {
					for range times {
						from := time.Now()
						if _, failed[i] = one.lock(ctx, "bench:0"); failed[i] != nil {
							return
						}
						if _, failed[i] = one.unlock(ctx, "bench:0"); failed[i] != nil {
							return
						}
						took[i] = append(took[i], int64(time.Since(from)))
					}
				})
			}
			all.Wait()
			if err := errors.Join(failed...); err != nil {
				return sample, err
			}
			lasted := time.Since(began)
			every := slices.Concat(took...)
			slices.Sort(every)
			sample.Figures = map[string]float64{
				harness.Rate:    float64(clients*times) / lasted.Seconds(),
				harness.P50:     harness.Percentile(every, 0.5),
				harness.P99:     harness.Percentile(every, 0.99),
				harness.Longest: harness.Percentile(every, 1),
			}
			return sample, nil
		},
	}
}

// ends are the kinds of lock of the two sides of a row; ours has none.
func (j *javaLibrary) ends(row string) (from, to string) {
	if kind, ok := j.kinds[row]; ok {
		return kind, kind
	}
	return j.mixed[row][0], j.mixed[row][1]
}

// sides starts the two of a row.
func (j *javaLibrary) sides(ctx context.Context, addr, row string) (from, to side, err error) {
	kindFrom, kindTo := j.ends(row)
	if from, err = j.open(ctx, addr, kindFrom); err != nil {
		return nil, nil, err
	}
	if to, err = j.open(ctx, addr, kindTo); err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	return from, to, nil
}

func (j *javaLibrary) open(ctx context.Context, addr, kind string) (side, error) {
	if kind != "" {
		p, err := j.warm(ctx, addr, kind)
		if err != nil {
			return nil, err
		}
		return &javaSide{p, j, kind}, nil
	}
	eng, err := j.ours(ctx, addr)
	if err != nil {
		return nil, err
	}
	c, err := leasehold.New(eng, nil)
	if err != nil {
		return nil, errors.Join(err, eng.Close())
	}
	return &ourSide{Client: c, clock: harness.NewClock()}, nil
}

// handOver is one turn, from a free name to a free name.
func handOver(ctx context.Context, from, to side, name string) (waited int64, err error) {
	if _, err := from.lock(ctx, name); err != nil {
		return 0, err
	}
	type result struct {
		at  int64
		err error
	}
	obtained := make(chan result, 1)
	go func() {
		at, err := to.lock(ctx, name)
		obtained <- result{at, err}
	}()
	time.Sleep(5 * time.Millisecond) // until it waits
	called, err := from.unlock(ctx, name)
	r := <-obtained
	if err := errors.Join(err, r.err); err != nil {
		return 0, err
	}
	_, err = to.unlock(ctx, name)
	return r.at - called, err
}
