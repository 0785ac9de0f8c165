package ui

import (
	"fmt"
	"html"
	"net/url"
	"strings"
	"time"

	"leasehold/internal/view"
)

// markup is a page that is being written. It does without html/template: a template calls
// methods by their names, so the linker would keep every method of every library in the
// program, 13 MB of the command line.
type markup struct{ strings.Builder }

// safe is markup of this source, or what put has made.
type safe string

// put adds a piece. Each argument that is a string is escaped, for text and for attributes
// in quotes; a safe one is markup.
func (m *markup) put(format string, args ...any) {
	m.WriteString(string(sprint(format, args...)))
}

func sprint(format string, args ...any) safe {
	for i, a := range args {
		switch a := a.(type) {
		case string:
			args[i] = html.EscapeString(a)
		case safe, int, uint64:
		default: // nothing else may come in, where it could hide a text
			args[i] = html.EscapeString(fmt.Sprint(a))
		}
	}
	return safe(fmt.Sprintf(format, args...))
}

// when is a piece if a condition holds.
func when(yes bool, piece safe) safe {
	if yes {
		return piece
	}
	return ""
}

func plural(n int, one, many string) safe {
	if n == 1 {
		return safe(one)
	}
	return safe(many)
}

// query is the end of an address. Empty values are left out.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q.Encode()
}

// bdi is a name, whatever way its letters are written.
func bdi(name string) safe { return sprint("<bdi>%s</bdi>", view.QuoteName(name)) }

// link leads to the page of a name.
func link(name string) safe {
	return sprint(`<a href="name?%s">%s</a>`, query("name", name), bdi(name))
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05") }

func moment(t time.Time) safe {
	return sprint(`<time datetime="%s">%s</time>`, t.UTC().Format(time.RFC3339), clock(t))
}

func ago(t time.Time) string { return age(t, time.Now()) }

// moment is when an event was: between two pictures, which are close together.
func (e *event) moment() safe {
	if e.Wide() {
		return moment(e.From) + " to " + moment(e.At)
	}
	return moment(e.At)
}

// page writes all of a page.
func (f *frame) page() string {
	m := &markup{}
	current := func(page string) safe { return when(f.Page == page, ` aria-current="page"`) }
	m.put(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s – leasehold</title>
<link rel="icon" href="icon.svg">
<link rel="stylesheet" href="style.css">
<script src="script.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<nav aria-label="Pages">
<strong>leasehold</strong>
<a href="./"%s>Overview</a>
<a href="graph"%s>Graph</a>
</nav>
<form action="name" method="get" role="search" aria-label="One name">
<label for="go">Name</label> <input id="go" name="name" autocomplete="off" spellcheck="false" required maxlength="512">
<button>Show</button> <button formaction="why">Why?</button>
</form>
</header>
<p id="offline" class="banner bad" hidden></p>
<p id="said" role="status" class="unseen"></p>
<main id="main" tabindex="-1">
`, f.Title, current("overview"), current("graph"))
	if f.Still {
		m.put("<div>\n")
	} else {
		m.put(`<div id="live" data-version="%d" data-title="%s – leasehold">`+"\n", f.Version, f.Title)
	}
	if f.Page != "problem" {
		f.State.write(m)
	}
	f.Body.write(m, &f.State)
	m.put("</div>\n</main>\n<footer>")
	if f.Engine != "" {
		m.put("<p>Engine: %s</p>", view.Printable(f.Engine))
	}
	if f.Who != "" {
		m.put("<p>You are %s.</p>", view.Printable(f.Who))
	}
	m.put("\n<p>Times are UTC. Ages are by the clocks of those who asked.</p></footer>\n</body>\n</html>\n")
	return m.String()
}

// write says what is wrong with the engine, if anything is.
func (s *stateView) write(m *markup) {
	switch {
	case s.Over:
		m.put("<p class=\"banner bad\" data-say>The engine is not read any more: this program is ending. ")
		if s.At.IsZero() {
			m.put("Nothing is known.")
		} else {
			m.put("What stands here is old: it was read at %s.", moment(s.At))
		}
		m.put("</p>\n")
	case !s.Away.IsZero():
		m.put(`<p class="banner bad" data-say>The engine does not answer since %s: %s. `, moment(s.Away), short(s.Why, 60))
		if s.At.IsZero() {
			m.put("Nothing is known yet.")
		} else {
			m.put("What stands here is old: it was read at %s.", moment(s.At))
		}
		m.put(" This page goes on by itself.</p>\n")
	case s.At.IsZero():
		m.put("<p class=\"banner\" data-say>The engine has not been read yet.</p>\n")
	}
	if s.Cut {
		m.put("<p class=\"banner\">There are more than %s names, and the others are not shown.</p>\n", thousands(s.Names))
	}
}

// problem is the body of a page that is not shown.
type problem string

func (p problem) write(m *markup, _ *stateView) {
	m.put("<h1>Not shown</h1>\n<p class=\"banner bad\" role=\"alert\">%s</p>\n<p><a href=\"./\">To the overview</a></p>\n", view.Printable(string(p)))
}

// paging leads to the pages before and after this one.
func (m *markup) paging(label, before, next, more string) {
	if before == "" && next == "" {
		return
	}
	m.put(`<nav class="paging" aria-label="%s">`, label)
	if before != "" {
		m.put(`<a rel="prev" href="%s">Before</a> `, before)
	}
	if next != "" {
		m.put(`<a rel="next" href="%s">%s</a>`, next, more)
	}
	m.put("</nav>\n")
}
