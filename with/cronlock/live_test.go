package cronlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"go.uber.org/goleak"

	"leasehold"
	"leasehold/engine/redis"
	"leasehold/lab/servers"
	"leasehold/with/cronlock"
	"leasehold/with/internal/crew"
)

const second = time.Second

func TestMain(m *testing.M) {
	if crew.Inside() {
		if err := work(crew.Task()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// work is one process, with a job that runs until its lock is lost.
func work(url string) error {
	ctx := context.Background()
	locks, err := open(ctx, url)
	if err != nil {
		return err
	}
	defer locks.Close()
	jobs, err := cronlock.New(locks, cronlock.Options{Every: second})
	if err != nil {
		return err
	}
	c := cron.New()
	if _, err := c.AddJob("@every 1s", jobs.Job(ctx, "job", func(ctx context.Context, token leasehold.Token) error {
		crew.Say("begins", token)
		<-ctx.Done()
		crew.Say("ends", errors.Is(context.Cause(ctx), leasehold.ErrLost))
		return nil
	})); err != nil {
		return err
	}
	c.Run()
	return nil
}

func open(ctx context.Context, url string) (*leasehold.Client, error) {
	eng, err := redis.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	return leasehold.New(eng, &leasehold.Options{TTL: 6 * second})
}

// newLocker is another process, so to speak.
func newLocker(t *testing.T, addr string) *cronlock.Locker {
	t.Helper()
	locks, err := open(t.Context(), "redis://"+addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { locks.Close() })
	jobs, err := cronlock.New(locks, cronlock.Options{Every: second})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// start starts a scheduler that has this job every second until the test ends.
func start(t *testing.T, job cron.Job, o ...cron.Option) {
	t.Helper()
	c := cron.New(o...)
	if _, err := c.AddJob("@every 1s", job); err != nil {
		t.Fatal(err)
	}
	c.Start()
	t.Cleanup(func() { <-c.Stop().Done() })
}

// The clocks of five processes differ by 0.2 s, and the job takes 10 ms. Without the time that
// the name stays held it would run five times a tick.
func TestShiftedProcessesRunAShortJobOnceATick(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t, nil).Addr
	var ran atomic.Int32
	began := time.Now()
	t.Run("schedulers", func(t *testing.T) {
		for range 5 {
			job := cron.FuncJob(func() {
				ran.Add(1)
				time.Sleep(10 * time.Millisecond)
			})
			late := func(j cron.Job) cron.Job { // cron begins with the second of the clock
				shift := time.Since(began) % second
				return cron.FuncJob(func() { time.Sleep(shift); j.Run() })
			}
			start(t, job, cron.WithChain(late, newLocker(t, addr).Wrapper("short")))
			time.Sleep(second / 5)
		}
		time.Sleep(4 * second)
	})
	most := 1 + int(time.Since(began)/(second*9/10))
	t.Logf("%d runs, at most %d ticks", ran.Load(), most)
	if n := int(ran.Load()); n < 2 || n > most {
		t.Errorf("%d runs in at most %d ticks", n, most)
	}
}

// Of three processes one runs the job. It is killed; the next one is stopped, and is notified
// of its loss when it goes on.
func TestTheJobGoesToTheNextProcess(t *testing.T) {
	t.Parallel()
	url := "redis://" + servers.Redis(t, nil).Addr
	c := crew.Start(t, url, url, url)
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
	if token(t, a) >= token(t, b) || token(t, b) >= token(t, d) {
		t.Errorf("tokens %s, %s, %s do not rise", a, b, d)
	}
}

func token(t *testing.T, text string) (parsed leasehold.Token) {
	t.Helper()
	if err := parsed.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return parsed
}

// The engine is away for one of two processes: its job ends before the other's begins.
func TestALossEndsTheJobBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	server := servers.Redis(t, nil)
	proxy := servers.ProxyTo(t, server.Addr)
	running, began := make(chan context.Context), make(chan error, 1)
	start(t, newLocker(t, proxy.Addr).Job(t.Context(), "job", func(ctx context.Context, _ leasehold.Token) error {
		select {
		case running <- ctx:
			<-ctx.Done()
		case <-ctx.Done():
		}
		return nil
	}))
	ctx := <-running
	start(t, newLocker(t, server.Addr).Job(t.Context(), "job", func(context.Context, leasehold.Token) error {
		select {
		case began <- context.Cause(ctx):
		default:
		}
		return nil
	}))
	proxy.BlackHole(true)
	if cause := <-began; !errors.Is(cause, leasehold.ErrLost) {
		t.Errorf("the next job began when the context of the first said %v", cause)
	}
}
