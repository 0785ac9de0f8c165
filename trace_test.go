package leasehold

import (
	"slices"
	"testing"

	"leasehold/internal/door"
)

func TestTraceIsTheScheduleOfALease(t *testing.T) {
	bubble(t, func(w *world) {
		var steps []string
		c, err := New(&door.Engine{Engine: w.store.Engine(), Clock: w.clock, Trace: func(s door.Step) {
			if s.Name == "x" {
				steps = append(steps, s.Text)
			}
		}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		mustUnlock(t, mustLock(t, c, "x"))
		want := []string{
			"in: enter", "out: join",
			"in: joined", "joining -> ready", "ready -> in use", "out: deliver",
			"in: unlock", "in use -> releasing", "out: leave",
			"releasing -> gone", "out: end",
		}
		if !slices.Equal(steps, want) {
			t.Errorf("got %q, want %q", steps, want)
		}
	})
}
