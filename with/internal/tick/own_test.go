package tick

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/leaseholdtest"
)

// gocron's jobs that run once have a name each.
func TestNamesThatAreOverAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(leaseholdtest.New(t).Client, Options{Every: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		const names = 1000
		for n := range names {
			lease, err := p.Take(t.Context(), strconv.Itoa(n))
			if err != nil {
				t.Fatal(err)
			}
			if err := lease.Unlock(); err != nil {
				t.Error(err)
			}
			time.Sleep(100 * time.Millisecond)
			for last := max(0, n-12); last <= n; last++ { // Take looks at a name until 1.4 s after it took it
				if _, ok := p.own[strconv.Itoa(last)]; !ok {
					t.Fatalf("after name %d, %d is forgotten", n, last)
				}
			}
		}
		if len(p.own) > 100 {
			t.Errorf("%d of %d names are kept; want those of the last ticks", len(p.own), names)
		}
	})
}
