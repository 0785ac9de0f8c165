package asynqelect_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"leasehold"
	"leasehold/elect"
	"leasehold/engine/redis"
	"leasehold/lab/servers"
	"leasehold/leaseholdtest"
	"leasehold/with/asynqelect"
	"leasehold/with/internal/crew"
)

func TestMain(m *testing.M) {
	if crew.Inside() {
		if err := work(context.Background(), crew.Task()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// work is one process that enqueues a task each second while it leads.
func work(ctx context.Context, addr string) error {
	eng, err := redis.Open(ctx, "redis://"+addr)
	if err != nil {
		return err
	}
	locks, err := leasehold.New(eng, &leasehold.Options{TTL: 6 * time.Second})
	if err != nil {
		return err
	}
	defer locks.Close()
	e, err := elect.New(locks, "scheduler", elect.Options{Look: time.Second})
	if err != nil {
		return err
	}
	return asynqelect.Run(ctx, e, func() (*asynq.Scheduler, error) {
		crew.Say("leads")
		s := scheduler(addr, func() { crew.Say("enqueued") })
		_, err := s.Register("@every 1s", asynq.NewTask("report", nil))
		return s, err
	})
}

func scheduler(addr string, enqueued func()) *asynq.Scheduler {
	return asynq.NewScheduler(asynq.RedisClientOpt{Addr: addr}, &asynq.SchedulerOpts{
		LogLevel: asynq.FatalLevel,
		PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
			if err == nil {
				enqueued()
			}
		},
	})
}

// Of five processes one schedules. It is killed; the next one is stopped, and a third goes on.
func TestOneOfFiveProcessesSchedules(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t, nil).Addr
	c := crew.Start(t, addr, addr, addr, addr, addr)
	var leaders [3]int
	for i := range leaders {
		leaders[i], _ = c.Next("leads")
		for range 3 {
			if by, _ := c.Next("enqueued"); by != leaders[i] {
				t.Errorf("process %d leads, and %d schedules", leaders[i], by)
			}
		}
		switch i {
		case 0:
			c.Kill(leaders[i])
		case 1:
			c.Halt(leaders[i])
		}
	}
	if leaders[0] == leaders[1] || leaders[1] == leaders[2] || leaders[0] == leaders[2] {
		t.Errorf("processes %v led", leaders)
	}
	c.Proceed(leaders[1])
}

func TestALossShutsTheSchedulerDown(t *testing.T) {
	t.Parallel()
	addr := servers.Redis(t, nil).Addr
	locks := leaseholdtest.New(t)
	e, err := elect.New(locks.Client, "scheduler", elect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	terms, over := make(chan *asynq.Scheduler, 2), make(chan error, 1)
	go func() {
		over <- asynqelect.Run(ctx, e, func() (*asynq.Scheduler, error) {
			s := scheduler(addr, func() {})
			terms <- s
			return s, nil
		})
	}()
	first := <-terms
	for first.Ping() != nil { // until it has started
		time.Sleep(time.Millisecond)
	}
	locks.Lose("scheduler")
	second := <-terms                          // after the first function has returned
	stopped := func(s *asynq.Scheduler) bool { // asynq says so, and does not start it again
		err := s.Start()
		return err != nil && strings.Contains(err.Error(), "already been stopped")
	}
	if !stopped(first) {
		t.Error("the scheduler of the first term was not shut down")
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !stopped(second) {
		t.Error("the scheduler of the second term was not shut down")
	}
}

func TestTheErrorOfBuildEndsRun(t *testing.T) {
	locks := leaseholdtest.New(t)
	e, err := elect.New(locks.Client, "scheduler", elect.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := asynqelect.Run(t.Context(), e, func() (*asynq.Scheduler, error) { return nil, nil }); err == nil {
		t.Error("no scheduler was accepted")
	}
	wrong := errors.New("no such crontab")
	if err := asynqelect.Run(t.Context(), e, func() (*asynq.Scheduler, error) { return nil, wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	if locks.Held("scheduler") {
		t.Error("the lead was not given back")
	}
}
