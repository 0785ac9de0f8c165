// Package report draws the history of a trial as one HTML file: the verdict, the settings,
// the faults, and a timeline of each name with those who held it and those who waited.
//
// The file needs no other file and no network. Texts of the history are shown as text.
package report

import (
	"embed"
	"html/template"
	"io"
	"strconv"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

//go:embed page.html
var page embed.FS

// view is what the page shows.
type view struct {
	Run      *history.Run
	Result   *check.Result // nil: the history contradicts itself
	Settings []setting
	Cut      bool // the trial ended early
	Picture  picture
}

type setting struct{ Name, Value string }

// Write draws a history, which history.Parse has read, and what package check says of it.
func Write(w io.Writer, events []history.Event, result *check.Result) error {
	t, err := template.New("page.html").Funcs(template.FuncMap{"seconds": seconds, "class": class}).ParseFS(page, "page.html")
	if err != nil {
		return err
	}
	run := events[0].Run
	v := view{Run: run, Result: result, Cut: events[len(events)-1].Kind != history.End, Picture: draw(events)}
	add := func(name, value string) {
		if value != "" {
			v.Settings = append(v.Settings, setting{name, value})
		}
	}
	add("engine", run.Engine)
	add("program", run.Version)
	add("seed", strconv.FormatUint(run.Seed, 10))
	add("TTL", run.TTL.String())
	add("for", run.For.String())
	add("clients", strconv.Itoa(run.Clients))
	add("names", strconv.Itoa(len(run.Names)))
	add("order", run.Declares.Order)
	add("fencing", run.Declares.Fencing)
	if run.Declares.MayDouble {
		add("failover", "may grant twice")
	}
	add("crash release", run.Declares.CrashRelease)
	add("granted after healing within", run.Declares.Bound.Round(time.Millisecond).String())
	for _, s := range run.Settings {
		add("server", s)
	}
	return t.Execute(w, v)
}

// seconds is a time since the beginning.
func seconds(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', 3, 64) + " s" }

// class is how the page shows a verdict.
func class(w check.Word) string {
	switch w {
	case check.Violated:
		return "violated"
	case check.Void, check.TooWeak:
		return "void"
	}
	return "seen"
}
