package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// recording is what `leasehold demo NAME` has printed.
type recording struct {
	halves []half // by hand, and with leasehold
}

// half is one timeline.
type half struct {
	title string
	lanes []string
	rows  []row
	seen  string // what it has shown
}

// row is one moment.
type row struct {
	at     float64  // seconds
	states []string // of each lane
	text   string
	mark   string // that several hold; empty: they do not
}

var moment = regexp.MustCompile(`^ *([0-9]+\.[0-9]{2}) s `)

// What the demo prints around its timelines.
const (
	several    = "   <-- "
	conclusion = "By hand "
	between    = "; with leasehold "
)

// parse reads the output of a demo: a title, the names of the lanes and the rows, twice,
// and a sentence.
func parse(text string) (r recording, err error) {
	var columns []int // where each lane begins
	title := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		at := moment.FindStringSubmatch(line)
		switch {
		case line == "":
			title = ""
		case at != nil:
			if len(r.halves) == 0 {
				return r, fmt.Errorf("a moment before the lanes: %q", line)
			}
			now := &r.halves[len(r.halves)-1]
			one, err := cells(line, columns)
			if err != nil {
				return r, err
			}
			if one.at, err = strconv.ParseFloat(at[1], 64); err != nil {
				return r, err
			}
			now.rows = append(now.rows, one)
		case title != "" && strings.HasPrefix(line, "         "):
			if columns = places(line); len(columns) < 2 {
				return r, fmt.Errorf("lanes are missing: %q", line)
			}
			r.halves = append(r.halves, half{title: title, lanes: strings.Fields(line)})
		case strings.HasPrefix(line, conclusion) && strings.Contains(line, between) && len(r.halves) == 2:
			byHand, ours, _ := strings.Cut(strings.TrimPrefix(line, conclusion), between)
			r.halves[0].seen, r.halves[1].seen = byHand+".", ours
		default:
			title = line
		}
	}
	if len(r.halves) != 2 || r.halves[1].seen == "" {
		return r, errors.New("the output of a demo has two timelines and a sentence")
	}
	return r, nil
}

// places returns where each word of a line begins.
func places(line string) (all []int) {
	for i := range line {
		if line[i] != ' ' && (i == 0 || line[i-1] == ' ') {
			all = append(all, i)
		}
	}
	return all
}

// cells cuts a row at its columns. Two spaces part the last one from the text.
func cells(line string, columns []int) (r row, err error) {
	wide := columns[1] - columns[0] - 1
	if wide > 1 {
		wide-- // two spaces part wide lanes, too
	}
	end := columns[len(columns)-1] + wide + 2
	if len(line) < end {
		return r, fmt.Errorf("a short row: %q", line)
	}
	for _, from := range columns {
		state := strings.TrimSpace(line[from : from+wide])
		if state == "" {
			return r, fmt.Errorf("a lane without a state: %q", line)
		}
		r.states = append(r.states, state)
	}
	r.text, r.mark, _ = strings.Cut(line[end:], several)
	return r, nil
}
