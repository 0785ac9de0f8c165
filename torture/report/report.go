// Package report draws the history of a trial as one HTML file: the verdict, the settings,
// the faults, and a timeline of each name with those who held it and those who waited.
//
// The file needs no other file and no network. Texts of the history are shown as text.
//
// It does without html/template: a template calls methods by their names, so the linker
// would keep every method of every library in the program, 13 MB of the command line.
package report

import (
	_ "embed"
	"encoding/json"
	"html"
	"io"
	"strconv"
	"strings"
	"time"

	"leasehold/torture/check"
	"leasehold/torture/history"
)

//go:embed page.html
var page string

// Write draws a history, which history.Parse has read, and what package check says of it.
// A result of nil says that the history contradicts itself.
func Write(w io.Writer, events []history.Event, result *check.Result) error {
	picture, err := json.Marshal(draw(events)) // it escapes what could end a script
	if err != nil {
		return err
	}
	run := events[0].Run
	var tables, settings markup
	if events[len(events)-1].Kind != history.End {
		tables.text(`<p class="void">The trial was cut short. This is what was seen until then.</p>`)
	}
	tables.verdict(result)
	settings.settings(run)
	_, err = strings.NewReplacer("@engine@", html.EscapeString(run.Engine), "@tables@", tables.String(),
		"@settings@", settings.String(), "@picture@", string(picture)).WriteString(w, page)
	return err
}

// settings are rows of what the trial ran with.
func (m *markup) settings(run *history.Run) {
	add := func(name, value string) {
		if value != "" {
			m.row("", name, value)
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
