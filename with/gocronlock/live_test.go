package gocronlock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"go.uber.org/goleak"

	"leasehold"
	"leasehold/elect"
	"leasehold/engine/redis"
	"leasehold/lab/servers"
	"leasehold/with/gocronlock"
	"leasehold/with/internal/crew"
)

var (
	ticks = flag.Int("ticks", 0, "how many ticks of each job run in five processes (default 8; 4 with -short)")
	jobs  = flag.Int("jobs", 5, "how many jobs")
)

func TestMain(m *testing.M) {
	if crew.Inside() {
		if err := work(strings.Fields(crew.Task())); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// work is one process: "long URL" has a job that runs until it is lost, "elected URL" the same
// with an elector, and "ticks URL START JOBS TICKS" many short jobs.
func work(task []string) error {
	ctx := context.Background()
	locks, err := open(ctx, task[1])
	if err != nil {
		return err
	}
	defer locks.Close()
	s, err := gocron.NewScheduler()
	if err != nil {
		return err
	}
	long := func(ctx context.Context, token leasehold.Token) error {
		crew.Say("begins", token)
		<-ctx.Done()
		crew.Say("ends", errors.Is(context.Cause(ctx), leasehold.ErrLost))
		return nil
	}
	switch task[0] {
	case "long":
		l, err := gocronlock.New(locks, gocronlock.Options{Every: second})
		if err != nil {
			return err
		}
		job, o := l.Job("long", long)
		if _, err := s.NewJob(gocron.DurationJob(second), job, o...); err != nil {
			return err
		}
		s.Start()
		select {}
	case "elected":
		e, err := gocronlock.NewElector(locks, "leader", elect.Options{Look: second})
		if err != nil {
			return err
		}
		if s, err = gocron.NewScheduler(gocron.WithDistributedElector(e)); err != nil {
			return err
		}
		if _, err := s.NewJob(gocron.DurationJob(second), e.Task(long), gocron.WithSingletonMode(gocron.LimitModeReschedule)); err != nil {
			return err
		}
		s.Start()
		return e.Run(ctx)
	}
	return short(locks, s, task[2:])
}

// short runs a number of jobs, each for a moment at each tick from the start on.
func short(locks *leasehold.Client, s gocron.Scheduler, task []string) error {
	ms, err1 := strconv.ParseInt(task[0], 10, 64)
	jobs, err2 := strconv.Atoi(task[1])
	ticks, err3 := strconv.Atoi(task[2])
	l, err4 := gocronlock.New(locks, gocronlock.Options{Every: period})
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return err
	}
	start := time.UnixMilli(ms)
	for n := range jobs {
		task, o := l.Job(fmt.Sprint("job", n), func(context.Context, leasehold.Token) error {
			crew.Say("tick", n, int((time.Since(start)+second/10)/period)) // a timer may be early by the wall clock
			return nil
		})
		o = append(o, gocron.WithStartAt(gocron.WithStartDateTime(start)))
		if _, err := s.NewJob(gocron.DurationJob(period), task, o...); err != nil {
			return err
		}
	}
	s.Start()
	time.Sleep(time.Until(start.Add(time.Duration(ticks) * period)))
	return s.Shutdown()
}

const (
	second = time.Second
	// period is that of many jobs: a process or the engine that stands still for longer than
	// half of it at a tick may leave one out.
	period = 3 * second
)

func open(ctx context.Context, url string) (*leasehold.Client, error) {
	eng, err := redis.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return leasehold.New(eng, &leasehold.Options{TTL: 6 * second})
}

func client(t *testing.T, addr string) *leasehold.Client {
	t.Helper()
	locks, err := open(t.Context(), "redis://"+addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	return locks
}

// scheduler starts one that has this job every second, or waits for the end of the test.
func scheduler(t *testing.T, task gocron.Task, o []gocron.JobOption, so ...gocron.SchedulerOption) {
	t.Helper()
	s, err := gocron.NewScheduler(so...)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.NewJob(gocron.DurationJob(second), task, o...); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		if err := s.Shutdown(); err != nil {
			t.Error(err)
		}
	})
}

// usual is the locker that most have: it frees the key when the job has run.
type usual struct{ conn func() *servers.Conn }

func (u usual) Lock(_ context.Context, key string) (gocron.Lock, error) {
	c := u.conn()
	defer c.Close()
	if got, err := c.Do("SET", key, "x", "NX", "PX", "5000"); err != nil || got == nil {
		return nil, errors.Join(errors.New("held"), err)
	}
	return unlock(func() {
		c := u.conn()
		defer c.Close()
		c.Do("DEL", key)
	}), nil
}

type unlock func()

func (u unlock) Unlock(context.Context) error { u(); return nil }

// gocron#841: five schedulers that were started one after the other, and a job of 10 ms.
func TestShiftedSchedulersRunAShortJobOnceATick(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t, nil).Addr
	for name, ours := range map[string]bool{"ours": true, "the usual": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran atomic.Int32
			job := func() error {
				ran.Add(1)
				time.Sleep(10 * time.Millisecond)
				return nil
			}
			began := time.Now()
			t.Run("schedulers", func(t *testing.T) {
				for range 5 {
					if ours {
						l, err := gocronlock.New(client(t, addr), gocronlock.Options{Every: second})
						if err != nil {
							t.Fatal(err)
						}
						task, o := l.Job("short", func(context.Context, leasehold.Token) error { return job() })
						scheduler(t, task, o)
					} else {
						scheduler(t, gocron.NewTask(job), []gocron.JobOption{gocron.WithName("usual")},
							gocron.WithDistributedLocker(usual{func() *servers.Conn {
								c, err := servers.DialRedis(addr, nil)
								if err != nil {
									panic(err)
								}
								return c
							}}))
					}
					time.Sleep(second / 5)
				}
				time.Sleep(4 * second)
			})
			most := 1 + int(time.Since(began)/(second*9/10))
			t.Logf("%d runs, at most %d ticks", ran.Load(), most)
			if n := int(ran.Load()); ours && (n < 2 || n > most) || !ours && n <= most {
				t.Errorf("%d runs in at most %d ticks", n, most)
			}
		})
	}
}

// Of two processes one runs the job. It is killed; the next one is stopped, and hears of its
// loss when it goes on. Elected schedulers do the same.
func TestTheJobGoesToTheNextProcess(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"long", "elected"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			task := kind + " redis://" + servers.Redis(t, nil).Addr
			c := crew.Start(t, task, task, task)
			first, a := c.Next("begins")
			c.Kill(first)
			second, b := c.Next("begins")
			c.Halt(second)
			third, d := c.Next("begins")
			c.Proceed(second)
			loser, lost := c.Next("ends")
			if second == first || third == second || loser != second || lost != "true" {
				t.Errorf("%d was killed, %d stopped, %d began, and %d ended with a loss: %s", first, second, third, loser, lost)
			}
			if rising(t, a) >= rising(t, b) || rising(t, b) >= rising(t, d) {
				t.Errorf("tokens %s, %s, %s do not rise", a, b, d)
			}
		})
	}
}

func rising(t *testing.T, token string) leasehold.Token {
	t.Helper()
	var parsed leasehold.Token
	if err := parsed.UnmarshalText([]byte(token)); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// The engine is away for one of two schedulers: its job ends before the other's begins.
func TestALossEndsTheJobBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, nil)
	proxy := servers.ProxyTo(t, server.Addr)
	running, began := make(chan context.Context), make(chan error, 1)
	first, err := gocronlock.New(client(t, proxy.Addr), gocronlock.Options{Every: second})
	if err != nil {
		t.Fatal(err)
	}
	task, o := first.Job("job", func(ctx context.Context, _ leasehold.Token) error {
		select {
		case running <- ctx:
			<-ctx.Done()
		case <-ctx.Done():
		}
		return nil
	})
	scheduler(t, task, o)
	ctx := <-running
	next, err := gocronlock.New(client(t, server.Addr), gocronlock.Options{Every: second})
	if err != nil {
		t.Fatal(err)
	}
	task, o = next.Job("job", func(context.Context, leasehold.Token) error {
		select {
		case began <- context.Cause(ctx):
		default:
		}
		return nil
	})
	scheduler(t, task, o)
	proxy.BlackHole(true)
	if cause := <-began; !errors.Is(cause, leasehold.ErrLost) {
		t.Errorf("the next job began when the context of the first said %v", cause)
	}
}

// Five processes, all jobs at the same moments: each tick of each job runs once.
func TestEachTickRunsOnce(t *testing.T) {
	t.Parallel()
	ticks := *ticks
	switch {
	case ticks > 0:
	case testing.Short():
		ticks = 4
	default:
		ticks = 8
	}
	addr := servers.Redis(t, nil).Addr
	start := time.Now().Add(8 * second).UnixMilli()
	task := fmt.Sprintf("ticks redis://%s %d %d %d", addr, start, *jobs, ticks)
	c := crew.Start(t, task, task, task, task, task)
	ran := map[string]int{}
	for _, line := range c.Wait() {
		ran[line]++
	}
	for n := range *jobs {
		for i := range ticks {
			if line := fmt.Sprint("tick ", n, " ", i); ran[line] != 1 {
				t.Errorf("job %d: tick %d ran %d times", n, i, ran[line])
			}
		}
	}
}
