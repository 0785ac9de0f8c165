package tick_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
	"leasehold/leaseholdtest"
	"leasehold/with/internal/tick"
)

const every = time.Second

// processes returns n processes that have one engine.
func processes(t *testing.T, n int) []*tick.Ticks {
	t.Helper()
	store := leaseholdtest.New(t)
	all := make([]*tick.Ticks, n)
	for i := range all {
		locks := store.Client
		if i > 0 {
			locks = store.Other()
		}
		var err error
		if all[i], err = tick.New(locks, tick.Options{Every: every}); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// at runs a job of 10 ms at that moment after the start, and reports whether it ran.
func at(t *testing.T, start time.Time, moment time.Duration, p *tick.Ticks) bool {
	t.Helper()
	time.Sleep(time.Until(start.Add(moment)))
	lease, err := p.Take(t.Context(), "job")
	if errors.Is(err, leasehold.ErrHeld) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(10 * time.Millisecond)
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
	return true
}

// Five processes have the same job of 10 ms, and each began 0.2 s after the one before.
func TestShiftedProcessesRunEachTickOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, start, ran := processes(t, 5), time.Now(), 0
		for n := range 100 {
			if at(t, start, time.Duration(n)*every/5, all[n%5]) {
				ran++
			}
		}
		if ran != 20 {
			t.Errorf("the job ran %d times in 20 ticks", ran)
		}
	})
}

func TestATickThatBeganLateDoesNotRefuseTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := processes(t, 1)[0], time.Now()
		for n, late := range []time.Duration{0, 300, 0, 400, 0, 0, 0, 450, 0} {
			if !at(t, start, time.Duration(n)*every+late*time.Millisecond, p) {
				t.Errorf("tick %d did not run", n)
			}
		}
	})
}

func TestAnotherProcessDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, start := processes(t, 2), time.Now()
		if !at(t, start, 0, all[0]) {
			t.Fatal("the first did not run")
		}
		before := time.Since(start)
		if at(t, start, before, all[1]) || time.Since(start) != before {
			t.Error("the second waited, or ran")
		}
	})
}

// lateLeave is an engine to which this process gives names back late: it stood still.
type lateLeave struct{ engine.Engine }

func (e lateLeave) Leave(ctx context.Context, cs []engine.Claim) ([]engine.Claim, error) {
	time.Sleep(every * 3 / 20)
	return e.Engine.Leave(ctx, cs)
}

// All others found the name held at the second tick, so this one runs it.
func TestAProcessThatGivesTheNameBackLateRunsTheNextTick(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		clock := func() time.Duration { return time.Since(start) + time.Hour }
		locks, err := leasehold.New(&door.Engine{Engine: lateLeave{memlock.NewStore(nil).Engine()}, Clock: clock}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer locks.Close()
		p, err := tick.New(locks, tick.Options{Every: every})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 2 {
			if !at(t, start, time.Duration(n)*every, p) {
				t.Errorf("tick %d did not run", n)
			}
		}
	})
}

// It ran the last tick, and another one runs this.
func TestAProcessWaitsAMomentForWhatItHasPerhapsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, start := processes(t, 2), time.Now()
		if !at(t, start, 0, all[0]) || !at(t, start, every-every/20, all[1]) {
			t.Fatal("a tick did not run")
		}
		if at(t, start, every, all[0]) || time.Since(start) > every+every/10 {
			t.Errorf("it ran, or waited for %v", time.Since(start)-every)
		}
	})
}

// More than half of the time between two ticks is left: this is the same tick again.
func TestTheSameTickOfTheProcessDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, start := processes(t, 1)[0], time.Now()
		if !at(t, start, 0, p) {
			t.Fatal("the first did not run")
		}
		if at(t, start, every/5, p) || time.Since(start) != every/5 {
			t.Error("the second waited, or ran")
		}
	})
}

// A host that repeats a job that failed calls it again within its tick.
func TestALineTellsOnesOwnTickFromThatOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := leaseholdtest.New(t)
		runs := 0
		run := func(locks *leasehold.Client) (lines string) {
			var log bytes.Buffer
			p, err := tick.New(locks, tick.Options{Every: every, Log: slog.New(slog.NewTextHandler(&log, debug))})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				func() {
					defer func() { _ = recover() }()
					p.Run(t.Context(), "job", func(context.Context, leasehold.Token) error { runs++; panic("job") })
				}()
			}
			return log.String()
		}
		own, others := run(store.Client), run(store.Other())
		if runs != 1 {
			t.Errorf("it ran %d times", runs)
		}
		if strings.Count(own, "level=WARN") != 1 || strings.Contains(own, "another process") {
			t.Errorf("its own tick: %s", own)
		}
		if strings.Contains(others, "level=WARN") || strings.Count(others, "another process") != 2 {
			t.Errorf("the tick of another process: %s", others)
		}
	})
}

var debug = &slog.HandlerOptions{Level: slog.LevelDebug}

func TestTheLabelIsShown(t *testing.T) {
	locks := leaseholdtest.New(t)
	p, err := tick.New(locks.Client, tick.Options{Every: every, Label: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	lease, err := p.Take(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Unlock()
	queue, err := locks.Client.Queue(t.Context(), "job")
	if err != nil || len(queue.Claims) != 1 || queue.Claims[0].Owner.Label != "shop" {
		t.Errorf("the queue: %v, %v; want the label shop", queue.Claims, err)
	}
}

func TestWhatOptionsLeaveOutIsTheClients(t *testing.T) {
	locks := leaseholdtest.New(t)
	own := locks.With(leasehold.LockOptions{TTL: 5 * time.Minute, Label: "billing"})
	for job, o := range map[string]tick.Options{
		"billing": {Every: every},
		"shop":    {Every: every, TTL: 10 * time.Minute, Label: "shop"},
	} {
		p, err := tick.New(own, o)
		if err != nil {
			t.Fatal(err)
		}
		lease, err := p.Take(t.Context(), job)
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Unlock()
		least := max(o.TTL, 5*time.Minute) - time.Minute // on a busy machine some of it is over
		queue, err := locks.Queue(t.Context(), job)
		if err != nil || len(queue.Claims) != 1 || queue.Claims[0].Owner.Label != job || queue.Claims[0].TTL < least {
			t.Errorf("%s: %+v, %v; want its name as label, and %v or more", job, queue.Claims, err, least)
		}
	}
}

func TestTheNextTickOfAnotherProcessRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, start := processes(t, 2), time.Now()
		if !at(t, start, 0, all[0]) || !at(t, start, every-every/20, all[1]) {
			t.Error("a tick did not run")
		}
	})
}

func TestMisuse(t *testing.T) {
	locks, err := leasehold.New(memlock.NewStore(nil).Engine(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	for want, o := range map[string]tick.Options{
		"Every is 0s":   {},
		"Every is -1s":  {Every: -time.Second},
		"Every is 99ms": {Every: 99 * time.Millisecond},
		"TTL":           {Every: every, TTL: time.Nanosecond},
	} {
		if _, err := tick.New(locks, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", o, err)
		}
	}
	if _, err := tick.New(nil, tick.Options{Every: every}); err == nil {
		t.Error("no client was taken")
	}
	p, err := tick.New(locks, tick.Options{Every: every})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", strings.Repeat("n", 4096), "a\x00b"} {
		if _, err := p.Take(t.Context(), name); !errors.Is(err, engine.ErrName) {
			t.Errorf("%.10q: %v", name, err)
		}
	}
}

func TestGap(t *testing.T) {
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	days := func(t time.Time) time.Time { // at 9 and at 10
		if h := t.Hour(); h >= 9 && h < 10 {
			return time.Date(t.Year(), t.Month(), t.Day(), 10, 0, 0, 0, time.UTC)
		} else if h < 9 {
			return time.Date(t.Year(), t.Month(), t.Day(), 9, 0, 0, 0, time.UTC)
		}
		return time.Date(t.Year(), t.Month(), t.Day()+1, 9, 0, 0, 0, time.UTC)
	}
	if got := tick.Gap(days, from); got != time.Hour {
		t.Errorf("%v", got)
	}
	never := func(time.Time) time.Time { return time.Time{} }
	if got := tick.Gap(never, from); got != 0 {
		t.Errorf("%v", got)
	}
	past := func(at time.Time) time.Time {
		if at.Before(from.Add(-time.Hour)) {
			return from.Add(-time.Hour)
		}
		return time.Time{}
	}
	if got := tick.Gap(past, from); got != 0 {
		t.Errorf("a schedule that is over: %v", got)
	}
	once := func(at time.Time) time.Time {
		if at.Equal(from) {
			return from.Add(time.Hour)
		}
		return time.Time{}
	}
	if got := tick.Gap(once, from); got != 0 {
		t.Errorf("%v", got)
	}
}
