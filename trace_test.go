package leasehold

import (
	"slices"
	"testing"
)

func TestTraceIsTheScheduleOfALease(t *testing.T) {
	bubble(t, func(w *world) {
		var steps []string
		c, _ := w.client(&Options{Trace: true, Observer: func(e Event) {
			if e.Kind == EventStep && e.Name == "x" {
				steps = append(steps, e.Step)
			}
		}})
		mustUnlock(t, mustLock(t, c, "x"))
		want := []string{
			"in: enter", "out: join",
			"in: joined", "joining -> ready", "ready -> in use", "out: deliver",
			"in: unlock", "in use -> releasing", "out: leave",
			"releasing -> gone", "out: end",
		}
		if !slices.Equal(steps, want) {
			t.Errorf("steps\n%q, want\n%q", steps, want)
		}
	})
}
