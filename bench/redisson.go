package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"leasehold"
	"leasehold/bench/harness"
	"leasehold/engine/redis/redissonlock"
	"leasehold/interop/redisson"
)

// Rows of Redisson. The last two are hand-overs from one to the other.
const (
	rlock, rfairlock     = "RLock", "RFairLock"
	ourRLock             = "leasehold redisson"
	rlockToUs, usToRLock = "RLock to leasehold", "leasehold to RLock"
)

// kindOf is which lock of Redisson a row is about, and nothing if it is not about
// Redisson alone.
func kindOf(row string) string {
	switch row {
	case rlock:
		return redisson.Lock
	case rfairlock:
		return redisson.Fair
	}
	return ""
}

// redissons are Redisson as peers. The bench drives their Java processes itself.
func redissons() []harness.Peer {
	about := "Redisson " + redisson.Current + ", defaults (lockWatchdogTimeout 30 s); a warm JVM that is told by lines what to do, and times by its own clock"
	noLoad := func(context.Context, harness.Endpoint) (harness.Locker, error) {
		return nil, errors.New("this peer is a Java process and takes no load")
	}
	return []harness.Peer{
		{Name: rlock, Renews: true, Open: noLoad, About: about,
			Waits: "subscribes and is told of a release, then all who wait ask again; else looks when the holder's lease is over"},
		{Name: rfairlock, Renews: true, Open: noLoad, About: about,
			Waits: "the same in order of arrival: only the first is told"},
		{Name: rlockToUs, Open: noLoad, About: "a process with RLock hands over to one with engine redissonlock"},
		{Name: usToRLock, Open: noLoad, About: "a process with engine redissonlock hands over to one with RLock"},
	}
}

// java starts a process with Redisson whose locks are compiled: the JVM compiles
// what has run some thousand times.
func java(ctx context.Context, addr, kind string) (*redisson.Process, error) {
	program, err := redisson.Build(ctx, redisson.Current)
	if err != nil {
		return nil, err
	}
	p, err := program.Start(ctx, redisson.Options{Addrs: []string{addr}})
	if err != nil {
		return nil, err
	}
	if _, err := pairs(ctx, p, kind, 3000); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// pairs has a Java process lock and unlock a free name so many times.
func pairs(ctx context.Context, p *redisson.Process, kind string, times int) (redisson.Answer, error) {
	return p.Thread(1).Do(ctx, "pairs", kind, fmt.Sprint("own:java:", p.PID()), strconv.Itoa(times))
}

// alsoJava makes a workload of uncontended pairs take Redisson's rows as well.
func alsoJava(w harness.Workload) harness.Workload {
	measure, count := w.Measure, w.Count
	w.How += " Redisson's pairs are made and timed inside its process, after 3,000 that are not counted."
	w.Measure = func(ctx context.Context, s *harness.Stage, p harness.Peer) (sample harness.Sample, err error) {
		kind := kindOf(p.Name)
		if kind == "" {
			return measure(ctx, s, p)
		}
		process, err := java(ctx, s.At.Addrs[0], kind)
		if err != nil {
			return sample, err
		}
		defer process.Close()
		const times = 2000
		before, err1 := s.ServerCPU()
		answer, err := pairs(ctx, process, kind, times)
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
	w.Count = func(ctx context.Context, s *harness.Stage, p harness.Peer) (sample harness.Sample, err error) {
		kind := kindOf(p.Name)
		if kind == "" {
			return count(ctx, s, p)
		}
		wire, err := s.Counted()
		if err != nil {
			return sample, err
		}
		defer wire.Close()
		process, err := java(ctx, wire.At.Addrs[0], kind)
		if err != nil {
			return sample, err
		}
		defer process.Close()
		const times = 100
		wire.Forget()
		if _, err := pairs(ctx, process, kind, times); err != nil {
			return sample, err
		}
		sample.Wire = map[string]float64{}
		total := 0
		for command, n := range wire.Requests() {
			sample.Wire[command] = float64(n) / times
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
	*redisson.Process
	kind string
}

func (j *javaSide) lock(ctx context.Context, name string) (int64, error) {
	a, err := j.Thread(1).Do(ctx, "lock", j.kind, name)
	return a.Ended, err
}

func (j *javaSide) unlock(ctx context.Context, name string) (int64, error) {
	a, err := j.Thread(1).Do(ctx, "unlock", j.kind, name)
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
func handingOver() harness.Workload {
	return harness.Workload{
		ID: "W3-redisson", Title: "hand-over between two processes with Redisson's locks", Main: harness.P50, Lower: true,
		Peers:   []string{rlock, rfairlock, ourRLock, rlockToUs, usToRLock},
		Columns: []harness.Column{harness.ColP50, harness.ColP99, harness.ColMax},
		How:     "One process holds, the other has asked 5 ms ago. p50 and p99 are from the call of unlock in the one to the return of lock in the other, each noted by the process itself; leasehold's side is the bench's own process. 100 turns after 200 that are not counted.",
		Measure: func(ctx context.Context, s *harness.Stage, p harness.Peer) (sample harness.Sample, err error) {
			from, to, err := sides(ctx, s.At.Addrs[0], p.Name)
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

// ends are the kinds of lock of the two sides of a row; ours has none.
func ends(row string) (from, to string) {
	const ours = ""
	switch row {
	case rlock, rfairlock:
		return kindOf(row), kindOf(row)
	case rlockToUs:
		return redisson.Lock, ours
	case usToRLock:
		return ours, redisson.Lock
	}
	return ours, ours
}

// sides starts the two of a row.
func sides(ctx context.Context, addr, row string) (from, to side, err error) {
	kindFrom, kindTo := ends(row)
	if from, err = open(ctx, addr, kindFrom); err != nil {
		return nil, nil, err
	}
	if to, err = open(ctx, addr, kindTo); err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	return from, to, nil
}

func open(ctx context.Context, addr, kind string) (side, error) {
	if kind != "" {
		p, err := java(ctx, addr, kind)
		if err != nil {
			return nil, err
		}
		return &javaSide{p, kind}, nil
	}
	eng, err := redissonlock.Open(ctx, "redisson://"+addr)
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
