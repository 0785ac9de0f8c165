package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// What a lane shows of its process. A process that was stopped believes what it did.
const (
	idle    = "-"
	waits   = "waits"
	holds   = "HOLDS"
	stopped = "stopped"
	killed  = "killed"
)

// timeline prints what happens, with a lane for each process.
type timeline struct {
	out    io.Writer
	color  bool
	began  time.Time
	lanes  []string          // names, in order
	states map[string]string // by name
	apart  bool              // they hold different names: several may
}

func newTimeline(out io.Writer, color bool, title string, lanes []string) *timeline {
	t := &timeline{out: out, color: color, began: time.Now(), lanes: lanes, states: map[string]string{}}
	for _, name := range lanes {
		t.states[name] = idle
	}
	fmt.Fprintf(out, "\n%s\n%9s", title, "")
	for _, name := range lanes {
		fmt.Fprintf(out, "%s%-*s", t.gap(), t.width(), name)
	}
	fmt.Fprintln(out)
	return t
}

// width is how much a lane takes: with many processes a letter has to do.
func (t *timeline) width() int {
	if len(t.lanes) > 6 {
		return 1
	}
	return len(stopped)
}

func (t *timeline) gap() string {
	if t.width() == 1 {
		return " "
	}
	return "  "
}

// say prints one moment.
func (t *timeline) say(format string, args ...any) {
	var row strings.Builder
	fmt.Fprintf(&row, "%7.2f s", time.Since(t.began).Seconds())
	holding := t.holding()
	for _, name := range t.lanes {
		state := t.states[name]
		cell := fmt.Sprintf("%-*.*s", t.width(), t.width(), state)
		if t.color && state == holds {
			code := "32" // green; red where they are several
			if holding > 1 {
				code = "31"
			}
			cell = "\x1b[1;" + code + "m" + cell + "\x1b[0m"
		}
		row.WriteString(t.gap() + cell)
	}
	text := fmt.Sprintf(format, args...)
	if holding > 1 {
		text += fmt.Sprintf("   <-- %d hold", holding)
	}
	fmt.Fprintf(t.out, "%s  %s\n", row.String(), text)
}

// holding is how many hold the same name.
func (t *timeline) holding() (n int) {
	if t.apart {
		return 0
	}
	for _, state := range t.states {
		if state == holds {
			n++
		}
	}
	return n
}

// brief is an error in one row.
func brief(text string) string {
	text = strings.TrimPrefix(text, "leasehold: ")
	if len(text) > briefLength {
		text = strings.ToValidUTF8(text[:briefLength], "") + " ..."
	}
	return text
}

const briefLength = 80
