package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"leasehold/lab/bench/competitors"
	"leasehold/lab/bench/harness"
	"leasehold/lab/servers"
)

// selfTestSuite is locks that are wrong in ways the harness must see, and one
// that is right.
func selfTestSuite(dir string) *harness.Suite {
	return &harness.Suite{Name: "self-test", Competitors: []harness.Competitor{
		competitors.Flock(),
		{Name: "no lock", Open: func(context.Context, harness.Endpoint) (harness.Locker, error) {
			return lockFunc(func(context.Context, string) (harness.Unlock, error) {
				return func() error { return nil }, nil
			}), nil
		}},
		{Name: "one too many", Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			// Only now and then do two hold at once: one grant in 50 is false.
			right, err := competitors.Flock().Open(context.Background(), at)
			n := 0
			return lockFunc(func(ctx context.Context, name string) (harness.Unlock, error) {
				if n++; n%50 == 0 {
					return func() error { return nil }, nil
				}
				return right.Lock(ctx, name)
			}), err
		}},
		{Name: "starves", Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			right, err := competitors.Flock().Open(context.Background(), at)
			return lockFunc(func(ctx context.Context, name string) (harness.Unlock, error) {
				if at.Actor == 0 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return right.Lock(ctx, name)
			}), err
		}},
		{Name: "deaf", Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			n := 0
			return lockFunc(func(context.Context, string) (harness.Unlock, error) {
				if n++; n > 5 {
					select {}
				}
				return func() error { return nil }, nil
			}), nil
		}},
		{Name: "hangs in Unlock", Open: func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
			right, err := competitors.Flock().Open(context.Background(), at)
			n := 0
			return lockFunc(func(ctx context.Context, name string) (harness.Unlock, error) {
				unlock, err := right.Lock(ctx, name)
				if n++; n > 5 && err == nil {
					return func() error { unlock(); select {} }, nil
				}
				return unlock, err
			}), err
		}},
		{Name: "two requests", Open: openEcho(0)},
		{Name: "two requests and one", Open: openEcho(1)},
	}}
}

type lockFunc func(ctx context.Context, name string) (harness.Unlock, error)

func (f lockFunc) Lock(ctx context.Context, name string) (harness.Unlock, error) { return f(ctx, name) }
func (lockFunc) Close() error                                                    { return nil }

// openEcho asks a server that answers every line: once to lock, once to unlock,
// and so many times too often in all.
func openEcho(extra int) func(context.Context, harness.Endpoint) (harness.Locker, error) {
	return func(_ context.Context, at harness.Endpoint) (harness.Locker, error) {
		c, err := net.Dial("tcp", at.Addrs[0])
		if err != nil {
			return nil, err
		}
		in := bufio.NewReader(c)
		ask := func() error {
			if _, err := fmt.Fprint(c, "PING\r\n"); err != nil {
				return err
			}
			_, err := in.ReadString('\n')
			return err
		}
		left := extra
		return lockFunc(func(context.Context, string) (harness.Unlock, error) {
			for ; left > 0; left-- {
				if err := ask(); err != nil {
					return nil, err
				}
			}
			return ask, ask()
		}), nil
	}
}

// selfTests runs the wrong locks and says whether each was noticed.
func selfTests(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "leasehold-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	echo, err := startEcho()
	if err != nil {
		return err
	}
	defer echo.Close()
	f := selfTestSuite(dir)
	stage := &harness.Stage{
		Suite: f.Name, At: harness.Endpoint{Dir: dir, Addrs: []string{echo.Addr().String()}},
		Counted: func() (*harness.Traffic, error) { return echoTraffic(echo.Addr().String()) },
	}
	contended := harness.Cycling(harness.Workload{}, 4, harness.Load{Names: 1, HoldMin: 50 * time.Microsecond, HoldMax: 200 * time.Microsecond}, 1500*time.Millisecond, nil)
	alone := harness.Cycling(harness.Workload{}, 1, harness.Load{}, 50*time.Millisecond, nil)

	failed := 0
	check := func(competitor, want string, measure func(context.Context, *harness.Stage, harness.Competitor) (harness.Sample, error), ok func(harness.Sample) bool) {
		p, err := f.Competitor(competitor)
		var s harness.Sample
		if err == nil {
			s, err = measure(ctx, stage, p)
		}
		verdict := "noticed"
		if competitor == "flock" || competitor == "two requests" {
			verdict = "clean  "
		}
		if err != nil || !ok(s) {
			verdict = "FAILED "
			failed++
		}
		fmt.Printf("%s  %-22s %s: faults %v, Jain %.3f, never served %v, requests/pair %v\n", verdict, competitor, want,
			s.Faults, s.Figures[harness.Fair], s.Figures[harness.Never], s.Figures[harness.Requests])
		if err != nil {
			fmt.Println("        ", err)
		}
	}
	check("flock", "is right, and must look so", contended.Measure, func(s harness.Sample) bool {
		return len(s.Faults) == 0 // it is not fair: some process may come away empty
	})
	broken := func(s harness.Sample) bool {
		return s.Faults[harness.FaultOverlap] > 0 && s.Faults[harness.FaultLost] > 0
	}
	check("no lock", "does not exclude", contended.Measure, broken)
	check("one too many", "sometimes does not exclude", contended.Measure, broken)
	check("starves", "never serves process 0", contended.Measure, func(s harness.Sample) bool {
		// flock, which the other three use, is not fair: some of them may come away empty too.
		return s.Figures[harness.Never] >= 1 && s.Figures[harness.Fair] < 0.99 && s.Faults[harness.FaultStuck] == 1
	})
	check("deaf", "hangs and ignores its context", contended.Measure, func(s harness.Sample) bool {
		return s.Faults[harness.FaultStuck] == 4 && s.Faults[harness.FaultDeaf] == 4
	})
	check("hangs in Unlock", "excludes, but never returns", contended.Measure, func(s harness.Sample) bool {
		return s.Faults[harness.FaultDeaf] == 4 && s.Faults[harness.FaultLost] == 0 && s.Faults[harness.FaultOverlap] == 0
	})
	check("two requests", "costs 2 requests, and must look so", alone.Count, func(s harness.Sample) bool {
		return s.Figures[harness.Requests] == 2
	})
	check("two requests and one", "costs one request too many in 100 pairs", alone.Count, func(s harness.Sample) bool {
		return s.Figures[harness.Requests] > 2
	})
	if failed > 0 {
		return fmt.Errorf("%d checks of the harness failed", failed)
	}
	return nil
}

func startEcho() (net.Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				continue
			}
			go func() {
				defer c.Close()
				for lines := bufio.NewScanner(c); lines.Scan(); {
					if _, err := fmt.Fprint(c, "+"+strings.TrimSpace(lines.Text())+"\r\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l, nil
}

func echoTraffic(addr string) (*harness.Traffic, error) {
	p, err := servers.NewProxy(addr)
	if err != nil {
		return nil, err
	}
	return &harness.Traffic{
		At: harness.Endpoint{Addrs: []string{p.Addr}}, Requests: p.Commands, Forget: p.Forget,
		Close: func() { p.Close() },
	}, nil
}
