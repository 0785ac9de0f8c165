package session

import (
	"errors"
	"slices"
	"testing"
	"time"

	"leasehold/engine"
)

// rig is Classes whose sessions are their TTLs.
type rig struct {
	Classes[time.Duration]
	closed []time.Duration
}

func newRig() *rig {
	r := &rig{}
	r.Open = func(ttl time.Duration) time.Duration { return ttl }
	r.Close = func(ttl time.Duration) { r.closed = append(r.closed, ttl) }
	return r
}

func (r *rig) use(t *testing.T, ttl, now time.Duration) *Class[time.Duration] {
	t.Helper()
	c, err := r.For(ttl, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestATTLHasASessionThatIsHardlyLonger(t *testing.T) {
	r := newRig()
	for _, c := range []struct{ ttl, want time.Duration }{
		{10 * time.Second, 10 * time.Second}, {10 * time.Second, 10 * time.Second},
		{9500 * time.Millisecond, 10 * time.Second}, // hardly shorter: it shares
		{9 * time.Second, 9 * time.Second},          // more than a tenth: its own
		{8900 * time.Millisecond, 9 * time.Second},  // the nearest of two
		{10*time.Second + 1, 10*time.Second + 1},    // never a shorter one
		{30 * time.Second, 30 * time.Second}, {time.Hour, time.Hour},
		{31 * time.Second, 31 * time.Second}, {29 * time.Second, 30 * time.Second}, // two are hardly longer: the shorter one
	} {
		if got := r.use(t, c.ttl, 0); got.TTL != c.want || got.Session != c.want {
			t.Errorf("%v has a session of %v, want %v", c.ttl, got.TTL, c.want)
		}
	}
	if n := len(r.Opened()); n != 6 {
		t.Errorf("%d sessions", n)
	}
}

func TestOneTTLTooManyIsRefusedInWords(t *testing.T) {
	r := newRig()
	var all []*Class[time.Duration]
	for i := range MaxClasses {
		all = append(all, r.use(t, time.Second<<i, 0))
	}
	if _, err := r.For(time.Hour, 1); !errors.Is(err, engine.ErrRefused) {
		t.Fatalf("one more: %v", err)
	}
	r.use(t, time.Second, 1) // one that is there
	// Two are given up by all who used them: the one that was so first gives its place.
	r.Done(all[3], 5)
	r.Done(all[5], 4)
	r.use(t, time.Hour, 6)
	if !slices.Equal(r.closed, []time.Duration{all[5].TTL}) {
		t.Errorf("given up: %v", r.closed)
	}
}

func TestASessionThatNobodyUsesIsGivenUpAfterAWhile(t *testing.T) {
	r := newRig()
	c := r.use(t, time.Second, 0)
	r.use(t, time.Second, 0)
	r.Done(c, 10)
	if r.Sweep(10 + 2*Idle); len(r.closed) != 0 {
		t.Fatal("one uses it")
	}
	r.Done(c, 20)
	if r.Sweep(20 + Idle - 1); len(r.closed) != 0 {
		t.Fatal("it was used a moment ago")
	}
	r.Done(r.use(t, time.Second, 30), 30)
	if r.Sweep(20 + Idle); len(r.closed) != 0 {
		t.Fatal("it was used since")
	}
	if r.Sweep(30 + Idle); len(r.closed) != 1 || len(r.Opened()) != 0 {
		t.Fatalf("given up: %v", r.closed)
	}
	if again := r.use(t, time.Second, 40+Idle); again == c {
		t.Error("a session that was given up is used")
	}
}

func TestWhatCannotBeHadIsTriedAnew(t *testing.T) {
	r := newRig()
	c := r.use(t, time.Second, 0)
	r.Discard(c)
	if again := r.use(t, time.Second, 0); again == c || len(r.closed) != 1 {
		t.Errorf("given up: %v", r.closed)
	}
	r.Done(c, 1) // late
	if r.Discard(c); len(r.closed) != 1 || len(r.Opened()) != 1 {
		t.Errorf("given up: %v", r.closed)
	}
}
