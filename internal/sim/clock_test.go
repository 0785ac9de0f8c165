package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestAClockIsReadAndAwaitedAlike(t *testing.T) {
	for _, ppm := range []int64{0, 1, -1, 4950, -4950, 20_000} {
		c := clock{since: time.Second, then: epoch, ppm: ppm}
		last := time.Duration(0)
		for _, d := range []time.Duration{0, 1, 999_999, 1_000_000, 1_000_001, time.Second, time.Hour, 25 * time.Hour} {
			read := c.read(time.Second + d)
			if read < last {
				t.Errorf("%d ppm: after %v the clock goes back", ppm, d)
			}
			last = read
			at := c.when(read)
			if c.read(at) < read || at > time.Second && c.read(at-2*time.Nanosecond) >= read {
				t.Errorf("%d ppm: it reads %v at %v, and %v at %v, which is when it should", ppm, read, time.Second+d, c.read(at), at)
			}
		}
		if gained, want := c.read(c.since+time.Second)-epoch-time.Second, time.Duration(ppm)*time.Microsecond; gained != want {
			t.Errorf("%d ppm: in a second it gains %v, not %v", ppm, gained, want)
		}
	}
}

func TestAFrozenClockStandsStill(t *testing.T) {
	c := clock{then: epoch, ppm: 1000}
	c.freeze(time.Second)
	if got := c.read(time.Minute); got != epoch+time.Second+time.Millisecond {
		t.Errorf("it reads %v", got)
	}
	c.thaw(time.Minute)
	if got := c.read(time.Minute + time.Second); got != epoch+2*time.Second+2*time.Millisecond {
		t.Errorf("it reads %v", got)
	}
}

func TestTheAgendaIsInOrder(t *testing.T) {
	var a agenda
	var got, want []int
	r := rand.New(rand.NewPCG(1, 0))
	type entry struct {
		at time.Duration
		i  int
	}
	var all []entry
	for i := range 1000 {
		at := time.Duration(r.IntN(100))
		all = append(all, entry{at, i})
		a.add(at, func() { got = append(got, i) })
	}
	slices.SortStableFunc(all, func(x, y entry) int { return int(x.at - y.at) })
	for _, e := range all {
		if e.at <= 50 {
			want = append(want, e.i)
		}
	}
	for {
		e, ok := a.next(50)
		if !ok {
			break
		}
		e.do()
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}
