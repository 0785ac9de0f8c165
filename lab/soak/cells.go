package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"leasehold/engines"
	"leasehold/torture"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// cell is one trial of one engine under one fault, as a line of the file of results has it. A
// cell of the table is all trials of that engine and fault.
type cell struct {
	Engine string `json:"engine"`
	Fault  string `json:"fault"`
	Seed   uint64 `json:"seed"`
	Absent string `json:"absent,omitempty"` // why this fault does not come to this engine
	Failed string `json:"failed,omitempty"`

	Leases   int            `json:"leases,omitempty"`
	Struck   int            `json:"struck,omitempty"`   // strikes with an effect while somebody held a lease
	Doubled  int            `json:"doubled,omitempty"`  // those after which two held, before the next one
	Declared bool           `json:"declared,omitempty"` // the engine declares that they may
	Found    map[string]int `json:"found,omitempty"`    // violations, by property
	Findings []string       `json:"findings,omitempty"` // the first of them, in words
}

// The faults of the table, in its order: those of clients, which package torture has, and those
// of servers.
var cellFaults = []string{"kill", "stop", "wire", "server stop", "server restart", "failover", clockFault, powerFault}

func ofClients(fault string) torture.Nemesis {
	switch fault {
	case "kill":
		return torture.Kill()
	case "stop":
		return torture.Stop()
	case "wire":
		return torture.Wire()
	}
	return nil
}

// cells are the trials that were made.
type cells []cell

// readCells reads a file of results, which need not exist.
func readCells(file string) (all cells, err error) {
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for lines := json.NewDecoder(bufio.NewReader(f)); lines.More(); {
		var x cell
		if err := lines.Decode(&x); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, x)
	}
	return all, nil
}

// save writes a file of results.
func (all cells) save(file string) error {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, x := range all {
		if err := lines.Encode(x); err != nil {
			return err
		}
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// chosen is whether a run is about a cell.
func (o options) chosen(engine, fault string) bool {
	return o.only.MatchString(engine) && o.faults.MatchString(fault)
}

// of adds up the trials of an engine and a fault. What one that failed has seen counts, and that
// it failed only if no other was made.
func (all cells) of(engine, fault string) (sum cell, made bool) {
	sum = cell{Engine: engine, Fault: fault, Found: map[string]int{}}
	failed := ""
	for _, x := range all {
		if x.Engine != engine || x.Fault != fault {
			continue
		}
		if x.Failed != "" {
			failed = x.Failed
		} else {
			made = true
			sum.Absent = x.Absent
		}
		sum.Leases += x.Leases
		sum.Struck += x.Struck
		sum.Doubled += x.Doubled
		sum.Declared = sum.Declared || x.Declared
		for property, n := range x.Found {
			sum.Found[property] += n
		}
	}
	if !made {
		sum.Failed = failed
	}
	return sum, made || failed != ""
}

// trials is how many were made of an engine and a fault, those that failed included.
func (all cells) trials(engine, fault string) (n uint64) {
	for _, x := range all {
		if x.Engine == engine && x.Fault == fault {
			n++
		}
	}
	return n
}

// enough is whether a cell needs no more trials.
func (x cell) enough(strikes int) bool {
	return x.Absent != "" || x.Failed == "" && x.Struck >= strikes
}

// void is whether the trials saw nobody hold twice, and could not have.
func (x cell) void() bool {
	return x.Doubled == 0 && (x.Struck < enoughStrikes || x.Leases < enoughLeases)
}

// String is what the table says of exclusion. The bound is with 95 % confidence.
func (x cell) String() string {
	switch {
	case x.Absent != "":
		return "does not come"
	case x.Doubled > 0 && x.Declared:
		return fmt.Sprintf("%d of %d, as declared", x.Doubled, x.Struck)
	case x.Doubled > 0:
		return fmt.Sprintf("**%d of %d**", x.Doubled, x.Struck)
	case x.Failed != "":
		return "failed"
	case x.void():
		return fmt.Sprintf("void: %d of %d leases", x.Struck, x.Leases)
	}
	return fmt.Sprintf("0 of %d: below %.2g", x.Struck, 3/float64(x.Struck))
}

// besides is what else was seen in the trials of an engine.
func (all cells) besides(engine string) string {
	var text []string
	for _, fault := range cellFaults {
		sum, _ := all.of(engine, fault)
		for _, property := range slices.Sorted(maps.Keys(sum.Found)) {
			if property != string(check.Exclusion) {
				text = append(text, fmt.Sprintf("%s %d (%s)", property, sum.Found[property], fault))
			}
		}
	}
	if len(text) == 0 {
		return "nothing"
	}
	return strings.Join(text, ", ")
}

// table is a row for each engine.
func (all cells) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| engine | %s | besides |\n|---%s|---|\n", strings.Join(cellFaults, " | "), strings.Repeat("|---", len(cellFaults)))
	for _, d := range deployments() {
		row := []string{d.engine}
		for _, fault := range cellFaults {
			text := "not made"
			if sum, made := all.of(d.engine, fault); made {
				text = sum.String()
			}
			row = append(row, text)
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(row, " | "), all.besides(d.engine))
	}
	return b.String()
}

// code is the exit code: codeViolated if something was seen that an engine does not declare, or a
// trial of this run or every one of a cell failed. It is codeVoid if a chosen cell says nothing.
func (all cells) code(o options, failed bool) (code int) {
	for _, x := range all {
		failed = failed || len(x.Found) > 0
	}
	for _, d := range deployments() {
		for _, fault := range cellFaults {
			switch sum, made := all.of(d.engine, fault); {
			case sum.Failed != "":
				failed = true
			case o.chosen(d.engine, fault) && (!made || sum.Absent == "" && sum.void()):
				code = codeVoid
			}
		}
	}
	if failed {
		return codeViolated
	}
	return code
}

// What the table stands between in the page.
const (
	begin = "<!-- what `make strikes` writes -->\n"
	end   = "<!-- the end of what it writes -->\n"
)

// write puts the table into a page.
func (all cells) write(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return errors.New(page + " has no place for the table: it needs the lines\n" + begin + end)
	}
	return os.WriteFile(page, []byte(before+begin+all.table()+end+after), 0o644)
}

// strike makes the trials that the cells of the chosen engines still need, those of several cells
// at once. Each is a line of the file when it is over, so a run that is ended goes on in the next
// one. A trial is too short for all strikes of a slow fault, so a cell has one after the other, and
// each has a seed of its own. It reports whether one of its trials failed, which ends its cell
// for this run.
func (o options) strike(ctx context.Context, out io.Writer) (failed bool, err error) {
	all, err := readCells(o.results)
	if err != nil {
		return false, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return false, err
	}
	if o.again {
		all = slices.DeleteFunc(all, func(x cell) bool { return o.chosen(x.Engine, x.Fault) })
		if err := all.save(o.results); err != nil {
			return false, err
		}
	}
	log, err := os.OpenFile(o.results, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	var mu sync.Mutex
	var unwritten error
	var busy sync.WaitGroup
	room := make(chan struct{}, o.parallel)
	for _, fault := range cellFaults {
		for _, d := range deployments() {
			sum, _ := all.of(d.engine, fault)
			if !o.chosen(d.engine, fault) || sum.enough(o.strikes) {
				continue
			}
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				break
			}
			busy.Go(func() {
				defer func() { <-room }()
				// Of a cell that failed one more is made, though it may have enough strikes.
				for struck, seed := sum.Struck, o.seed+all.trials(d.engine, fault); struck < o.strikes || sum.Failed != ""; seed++ {
					x := o.try(ctx, d, fault, seed, max(1, o.strikes-struck))
					if ctx.Err() != nil {
						return // it was cut off, and says nothing
					}
					struck += x.Struck
					mu.Lock()
					failed = failed || x.Failed != ""
					unwritten = errors.Join(unwritten, json.NewEncoder(log).Encode(x))
					fmt.Fprintf(out, "%s, %s: %d leases, %v %v %s\n", d.engine, fault, x.Leases, x, x.Found, x.Failed)
					for _, f := range x.Findings {
						fmt.Fprintf(out, "  %s\n", f)
					}
					mu.Unlock()
					if x.Struck == 0 || x.Failed != "" {
						return // it cannot come, or a trial more would be as weak, or fail too
					}
					sum.Failed = ""
				}
			})
		}
	}
	busy.Wait()
	return failed, unwritten
}

// try makes a trial, until it has struck often enough.
func (o options) try(ctx context.Context, d deployment, fault string, seed uint64, strikes int) (x cell) {
	x = cell{Engine: d.engine, Fault: fault, Seed: seed}
	s := &site{fault: fault}
	defer func() {
		if err := s.close(); err != nil {
			x.fail(err)
		}
	}()
	if err := d.start(s); err != nil {
		x.fail(err)
		return x
	}
	nemesis := ofClients(fault)
	for _, f := range s.faults {
		if f.Name() == fault {
			nemesis = f
		}
	}
	if nemesis == nil {
		x.Absent = "the servers have none"
		return x
	}
	dir := filepath.Join(o.dir, strings.ReplaceAll(fmt.Sprintf("%s-%s-%d", d.engine, fault, seed), " ", "-"))
	if err := os.RemoveAll(dir); err != nil {
		x.fail(err)
		return x
	}
	trial, enough := context.WithCancel(ctx)
	defer enough()
	r, err := torture.Run(trial, torture.Options{
		Open: engines.Open, URL: s.url, Shown: engines.Redact(s.url), Version: "strikes",
		For: o.total, Clients: o.clients, TTL: o.ttl, Seed: seed, Dir: dir, Nemeses: []torture.Nemesis{nemesis}, Think: o.think,
		Judged: func(r *check.Result) {
			if r.Struck() >= strikes && r.Stats.Grants >= enoughLeases {
				enough()
			}
		},
	})
	x.ended(dir, r, err)
	return x
}

// failedTrial is what cells find, like a property, if a trial did not come to its end. Most often a
// client crashed, or a call hung: the engine and the library may do neither.
const failedTrial = "failed"

// ended takes in what a trial came to. One that failed is judged too, for what it saw before.
func (x *cell) ended(dir string, r *torture.Result, err error) {
	if err != nil {
		x.fail(err)
	}
	if r == nil {
		return // it did not begin
	}
	leftOut := slices.IndexFunc(r.Notes, func(note string) bool { return strings.HasPrefix(note, x.Fault+" was left out") })
	pieces := leftOut >= 0 && r.Status.Strikes > 0 // it came, and could not go on
	switch {
	case pieces:
		x.fail(errors.New(r.Notes[leftOut]))
	case leftOut >= 0 && err == nil:
		x.Absent = r.Notes[leftOut]
		return
	}
	x.Found = map[string]int{}
	if err := x.judge(dir); err != nil {
		x.fail(err)
	}
	if err != nil && !pieces { // else the servers are why
		x.Found[failedTrial]++
	}
}

// fail notes why the trial failed.
func (x *cell) fail(err error) {
	if x.Failed != "" {
		x.Failed += "; "
	}
	x.Failed += err.Error()
}

// listed bounds the findings that a result has in words: a lock that is wrong has hundreds.
const listed = 5

// judge reads the history of the trial, and removes it if nothing was found and nothing failed.
func (x *cell) judge(dir string) error {
	r, err := torture.Judge(dir)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, torture.History)
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	events, err := history.Parse(bufio.NewReader(f))
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	effects, err := check.Effects(events)
	if err != nil {
		return err
	}
	x.Leases, x.Struck = r.Stats.Grants, r.Struck()
	for _, e := range effects {
		if e.Struck && e.Overlap > 0 {
			x.Doubled++
		}
	}
	x.Declared = r.Of(check.Exclusion).Declared > 0
	for _, v := range r.Verdicts {
		if v.Found > v.Declared {
			x.Found[string(v.Property)] = v.Found - v.Declared
		}
	}
	for _, f := range r.Findings {
		if f.Declared == "" && len(x.Findings) < listed {
			x.Findings = append(x.Findings, fmt.Sprintf("%s: %s", f.Property, f.Text))
		}
	}
	if len(x.Found) > 0 || x.Failed != "" {
		return nil
	}
	return os.Remove(file)
}
