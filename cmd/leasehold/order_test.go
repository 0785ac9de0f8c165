package main

import (
	"os"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine/memlock"
)

// What one has waited is not waited again: the engine's opening and a turn that went to
// the next count.
func TestWaitedCounts(t *testing.T) {
	for _, c := range []struct{ wait, long, want time.Duration }{
		{0, time.Hour, 0}, // as long as it takes
		{time.Minute, time.Second, 59 * time.Second},
		{time.Minute, time.Minute, 0}, // once, and not for ever
		{time.Minute, time.Hour, 0},
	} {
		o := order{Wait: c.wait}
		if o.waited(c.long); o.Wait != c.want || o.Once != (c.wait > 0 && c.want == 0) {
			t.Errorf("of %v, %v waited: %v are left, want %v; once: %v", c.wait, c.long, o.Wait, c.want, o.Once)
		}
	}

	o := &order{Name: "a", Engine: "dir://" + t.TempDir(), Wait: time.Hour}
	eng, err := (&app{}).openEngine(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	eng.Close()
	if o.Wait >= time.Hour {
		t.Error("opening took no time")
	}

	o = &order{Name: "a", Wait: time.Hour}
	locks, err := leasehold.New(memlock.New(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	k := &keeper{app: &app{err: os.Stderr}, order: o, launcher: &stubLauncher{}}
	lease, err := k.obtain(t.Context(), locks)
	if err != nil {
		t.Fatal(err)
	}
	lease.Unlock()
	if o.Wait >= time.Hour {
		t.Error("waiting took no time")
	}
}
