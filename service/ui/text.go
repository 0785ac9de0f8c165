package ui

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"time"

	"leasehold/engine"
	"leasehold/internal/view"
)

// functions are what templates may call. Whatever a client wrote goes through name, plain or
// short: html/template escapes markup, and these what could hide or turn text.
func functions() template.FuncMap {
	return template.FuncMap{
		"name":   view.QuoteName,
		"plain":  view.Printable,
		"short":  func(s string) string { return short(view.Printable(s), 60) },
		"mode":   view.ModeText,
		"state":  view.StateText,
		"token":  func(ticket uint64) string { return strconv.FormatUint(ticket<<engine.HandoffBits, 10) },
		"ago":    func(t time.Time) string { return age(t, time.Now()) },
		"clock":  func(t time.Time) string { return t.UTC().Format("15:04:05") },
		"stamp":  func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"ttl":    ttl,
		"deref":  func(c *engine.Claim) engine.Claim { return *c },
		"held":   func(c engine.Claim) bool { return c.State == engine.Held },
		"owner":  func(o engine.Owner) string { return view.Printable(o.String()) },
		"number": func(n int) string { return thousands(n) },
		"plural": func(n int, one, many string) string {
			if n == 1 {
				return one
			}
			return many
		},
		"query": func(pairs ...string) template.URL {
			q := url.Values{}
			for i := 0; i+1 < len(pairs); i += 2 {
				if pairs[i+1] != "" {
					q.Set(pairs[i], pairs[i+1])
				}
			}
			return template.URL(q.Encode()) // every byte of a value that could mean something is %xx
		},
	}
}

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
	Why   string
	Cut   bool
	Names int // that a picture has at most
}

func (s *shot) view() stateView {
	if s.picture == nil {
		return stateView{}
	}
	return stateView{At: s.at, Took: s.took.Round(100 * time.Microsecond).String(), Away: s.away, Why: view.Printable(s.why), Cut: s.cut, Names: maxNames}
}
