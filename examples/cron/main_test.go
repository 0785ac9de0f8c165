package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"leasehold/examples/internal/lockstest"
)

func TestMain(m *testing.M) { lockstest.Main(m, main) }

func TestOncePerTickWithMinHold(t *testing.T) {
	lockstest.OnEveryEngine(t, func(t *testing.T) {
		lockstest.Runs(t, run, nil, "-tick=300ms", "-ticks=3")
	})
}

// Two fleets that share nothing but the engine are what two machines are.
func TestATickRunsOnOneOfTwoMachinesThatShareAnEngine(t *testing.T) {
	lockstest.OnRedis(t, func(t *testing.T) {
		from := time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)
		var (
			outs [2]strings.Builder
			errs [2]error
			wg   sync.WaitGroup
		)
		for i := range outs {
			wg.Go(func() { errs[i] = run([]string{"-from", from, "-tick=100ms", "-ticks=10"}, &outs[i]) })
		}
		wg.Wait()
		runs := map[string]int{}
		for i := range outs {
			t.Logf("machine %d: %v\n%s", i, errs[i], &outs[i])
			if errs[i] != nil {
				t.Errorf("machine %d: %v", i, errs[i])
			}
			for line := range strings.Lines(outs[i].String()) {
				var tick string
				var n int
				if _, err := fmt.Sscanf(line, "%s ran %d times", &tick, &n); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				runs[tick] += n
			}
		}
		if len(runs) != 10 {
			t.Errorf("%d ticks, not 10", len(runs))
		}
		for tick, n := range runs {
			if n != 1 {
				t.Errorf("%s ran %d times on the two machines", tick, n)
			}
		}
	})
}

func TestSeveralTimesPerTickWithoutMinHold(t *testing.T) {
	lockstest.Runs(t, run, errNotOnce, "-tick=300ms", "-ticks=3", "-min-hold=0")
}

func TestOncePerMachineWithoutTheLock(t *testing.T) {
	if out := lockstest.Runs(t, run, errNotOnce, "-tick=300ms", "-ticks=1", "-lock=false"); !strings.Contains(out, "ran 5 times on 5 machines") {
		t.Error("not once per machine")
	}
}
