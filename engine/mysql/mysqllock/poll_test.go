package mysqllock

import (
	"testing"
	"time"
)

func TestLooks(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		ahead      int
		still, now time.Duration
		want       time.Duration
	}{
		{"the first looks seldom", 0, 0, 0, 20 * time.Millisecond},
		{"the second learns too late that it is first", 1, 0, 0, 20 * time.Millisecond},
		{"the others look as often as the first", 5, 0, 0, 80 * time.Millisecond},
		{"the last never looks", 24, 0, 0, 320 * time.Millisecond},
		{"one far behind looks as often as the others", 64, 0, 0, 1280 * time.Millisecond},
		{"one far behind never looks", 10_000, 24 * time.Hour, 0, 2560 * time.Millisecond},
		{"the first looks often at a queue that stands still", 0, 24 * time.Hour, 0, 640 * time.Millisecond},
		{"the next waits for longer than a sixth of a hold", 0, time.Second, 0, 160 * time.Millisecond},
		{"the others look as often as the next", 2, time.Second, 0, 320 * time.Millisecond},
		{"who relies on a doorbell looks often", 0, stillRelied, 0, 320 * time.Millisecond},
		{"looks of one client are apart", 0, 0, 7*time.Millisecond + 20*time.Second, 13 * time.Millisecond},
		{"seldom looks are apart from often ones", 0, time.Hour, 650 * time.Millisecond, 630 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := pollAfter(c.ahead, c.still, c.now); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}
