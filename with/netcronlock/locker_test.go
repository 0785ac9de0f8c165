package netcronlock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/netresearch/go-cron"

	"leasehold"
	"leasehold/leaseholdtest"
	"leasehold/with/netcronlock"
)

func logged(t *testing.T, locks *leaseholdtest.Locks) (*netcronlock.Locker, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	jobs, err := netcronlock.New(locks.Client, netcronlock.Options{Every: time.Minute, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return jobs, &log
}

func TestALossIsLoggedAndEndsTheContext(t *testing.T) {
	locks := leaseholdtest.New(t)
	jobs, log := logged(t, locks)
	jobs.Job("n", func(ctx context.Context, token leasehold.Token) error {
		if token == 0 {
			t.Error("there is no token")
		}
		locks.Lose("n")
		if cause := context.Cause(ctx); !errors.Is(cause, leasehold.ErrLost) {
			t.Errorf("the context ended with %v", cause)
		}
		return nil
	}).Run()
	if !strings.Contains(log.String(), "the lock was lost") {
		t.Errorf("logged: %s", log)
	}
}

func TestTheContextOfTheSchedulerEndsTheJob(t *testing.T) {
	locks := leaseholdtest.New(t)
	jobs, log := logged(t, locks)
	ctx, cancel := context.WithCancel(t.Context())
	job := jobs.Job("n", func(ctx context.Context, _ leasehold.Token) error {
		cancel()
		select {
		case <-ctx.Done():
		case <-time.After(15 * time.Second):
			t.Error("the context of the job goes on")
		}
		return errors.New("not finished")
	})
	job.(cron.JobWithContext).RunWithContext(ctx)
	if !strings.Contains(log.String(), "not finished") {
		t.Errorf("logged: %s", log)
	}
	job.(cron.JobWithContext).RunWithContext(ctx) // the scheduler ends: no tick begins
	if strings.Count(log.String(), "not finished") != 1 {
		t.Errorf("logged: %s", log)
	}
}

func TestAPanicGivesTheNameBack(t *testing.T) {
	locks := leaseholdtest.New(t)
	jobs, err := netcronlock.New(locks.Client, netcronlock.Options{Every: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("cron must see the panic")
			}
		}()
		jobs.Wrapper("n")(cron.FuncJob(func() { panic("job") })).Run()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	lease, err := locks.Other().Lock(ctx, "n") // after what is left of the tick
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
}

func TestAWrappedJobWithAContextHearsOfALoss(t *testing.T) {
	locks := leaseholdtest.New(t)
	jobs, _ := logged(t, locks)
	jobs.Wrapper("n")(cron.FuncJobWithContext(func(ctx context.Context) {
		locks.Lose("n")
		if cause := context.Cause(ctx); !errors.Is(cause, leasehold.ErrLost) {
			t.Errorf("the context ended with %v", cause)
		}
	})).Run()
}

func TestAHeldNameIsNoError(t *testing.T) {
	locks := leaseholdtest.New(t)
	jobs, log := logged(t, locks)
	defer locks.Block("n")()
	jobs.Wrapper("n")(cron.FuncJob(func() { t.Error("it ran") })).Run()
	if log.Len() > 0 {
		t.Errorf("logged: %s", log)
	}
}

func TestNamesThatCannotBeLockedAreLogged(t *testing.T) {
	jobs, log := logged(t, leaseholdtest.New(t))
	for _, name := range []string{"", strings.Repeat("n", 4096)} {
		log.Reset()
		jobs.Wrapper(name)(cron.FuncJob(func() { t.Error("it ran") })).Run()
		if !strings.Contains(log.String(), "the tick was not run") {
			t.Errorf("%.5q: logged: %s", name, log)
		}
	}
}

func TestNewRefusesOptions(t *testing.T) {
	locks := leaseholdtest.New(t)
	if _, err := netcronlock.New(locks.Client, netcronlock.Options{}); err == nil || !strings.HasPrefix(err.Error(), "netcronlock: the option Every") {
		t.Error(err)
	}
}

func TestGapOfACrontab(t *testing.T) {
	for spec, want := range map[string]time.Duration{"*/5 * * * *": 5 * time.Minute, "0 9,10 * * *": time.Hour, "0 0 30 2 *": 0} {
		s, err := cron.ParseStandard(spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := netcronlock.Gap(s); got != want {
			t.Errorf("%s: %v, want %v", spec, got, want)
		}
	}
}

func TestOptionsAreThoseOfTheLease(t *testing.T) {
	locks := leaseholdtest.New(t)
	if _, err := netcronlock.New(locks.Client, netcronlock.Options{Every: time.Minute, TTL: 1}); err == nil {
		t.Error("a TTL of 1 ns was accepted")
	}
	jobs, err := netcronlock.New(locks.Client, netcronlock.Options{Every: time.Minute, Label: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	ran := false
	jobs.Job("n", func(ctx context.Context, _ leasehold.Token) error {
		ran = true
		queue, err := locks.Queue(ctx, "n")
		if err != nil || len(queue.Claims) != 1 || queue.Claims[0].Owner.Label != "shop" {
			t.Errorf("the queue: %v, %v; want the label shop", queue.Claims, err)
		}
		return nil
	}).Run()
	if !ran {
		t.Error("the job did not run")
	}
}
