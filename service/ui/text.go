package ui

import (
	"fmt"
	"strconv"
	"time"

	"leasehold/internal/view"
)

// age is how long ago something was, for people: clocks of two machines are in it.
func age(since, now time.Time) string {
	if since.IsZero() {
		return "?"
	}
	return long(max(0, now.Sub(since)))
}

func long(d time.Duration) string {
	two := func(n time.Duration, big string, m time.Duration, small string) string {
		if m == 0 {
			return fmt.Sprintf("%d %s", n, big)
		}
		return fmt.Sprintf("%d %s %d %s", n, big, m, small)
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d/time.Minute, "min", d%time.Minute/time.Second, "s")
	case d < 48*time.Hour:
		return two(d/time.Hour, "h", d%time.Hour/time.Minute, "min")
	}
	return two(d/(24*time.Hour), "d", d%(24*time.Hour)/time.Hour, "h")
}

// ttl is what a claim has left: another program's may have no expiry.
func ttl(left time.Duration) string {
	switch {
	case left == 0:
		return "no expiry"
	case left < 0:
		return "none"
	case left < 10*time.Second:
		return fmt.Sprintf("%.1f s", left.Seconds())
	}
	return long(left)
}

// short leaves out the end of what is longer than so many letters.
func short(s string, most int) string {
	n := 0
	for i := range s {
		if n++; n > most-1 && len(s)-i > 4 {
			return s[:i] + "…"
		}
	}
	return s
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// stateView is what pages say of the engine.
type stateView struct {
	At    time.Time // of the picture; zero: there is none
	Took  string
	Away  time.Time // since when it does not answer; zero: it does
	Over  bool      // it is not read any more
	Why   string
	Cut   bool
	Names int // that a picture has at most
}

func (s *shot) view() stateView {
	if s.picture == nil {
		return stateView{}
	}
	return stateView{At: s.at, Took: s.took.Round(100 * time.Microsecond).String(), Away: s.away, Over: s.over, Why: view.Printable(s.why), Cut: s.cut, Names: maxNames}
}
