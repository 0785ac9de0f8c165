package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"leasehold/engines"
	"leasehold/torture"
	"leasehold/torture/check"
)

// outcome is one trial, as trials.jsonl has it.
type outcome struct {
	Engine string        `json:"engine"`
	Dir    string        `json:"dir"`
	Seed   uint64        `json:"seed"`
	Result *check.Result `json:"result,omitempty"`
	Notes  []string      `json:"notes,omitempty"` // what was left out, and why
	Left   []string      `json:"left,omitempty"`  // claims that could not be ended
	Failed string        `json:"failed,omitempty"`
}

// run makes trials of all engines in turn until the time is over, or ctx ends.
func run(ctx context.Context, o options, out io.Writer) (code int, err error) {
	var chosen []deployment
	for _, d := range deployments() {
		if o.only.MatchString(d.engine) {
			chosen = append(chosen, d)
		}
	}
	if len(chosen) == 0 {
		return codeUsage, fmt.Errorf("-only %q matches no engine: known are %s", o.only, names(deployments()))
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return codeUsage, err
	}
	log, err := os.Create(filepath.Join(o.dir, "trials.jsonl"))
	if err != nil {
		return codeUsage, err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if o.seed == 0 {
		o.seed = rand.Uint64() >> 12 // readers of JSON keep 53 bits of what it comes to
	}
	each := max(shortest, min(longest, o.total/time.Duration(len(chosen))))
	total := newTotal(chosen)
	for n, spent := 0, time.Duration(0); ctx.Err() == nil && (n < len(chosen) || spent < o.total); n, spent = n+1, spent+each {
		x := outcome{Engine: chosen[n%len(chosen)].engine, Seed: o.seed + uint64(n) + 1}
		x.Dir = filepath.Join(o.dir, fmt.Sprintf("%03d-%s", n+1, x.Engine))
		x.make(ctx, chosen[n%len(chosen)], o, each)
		if err := json.NewEncoder(log).Encode(x); err != nil {
			return codeViolated, err
		}
		fmt.Fprintln(out, total.add(x))
	}
	table := total.String()
	if err := os.WriteFile(filepath.Join(o.dir, "summary.txt"), []byte(table), 0o644); err != nil {
		return codeViolated, err
	}
	_, err = fmt.Fprintf(out, "\n%s\nThe results are in %s.\n", table, o.dir)
	return total.code(), err
}

// make makes the trial.
func (x *outcome) make(ctx context.Context, d deployment, o options, long time.Duration) {
	s := &site{}
	defer func() {
		if err := s.close(); err != nil {
			x.fail(err)
		}
	}()
	if err := d.start(s); err != nil {
		x.fail(err)
		return
	}
	r, err := torture.Run(ctx, torture.Options{
		Open: engines.Open, URL: s.url, Shown: engines.Redact(s.url), Version: "soak",
		For: long, Clients: o.clients, TTL: o.ttl, Seed: x.Seed, Dir: x.Dir, Nemeses: append(everywhere(), s.faults...),
	})
	if err != nil {
		x.fail(err)
	}
	if r == nil {
		return
	}
	x.Notes, x.Left = r.Notes, r.Left
	if x.Result, err = torture.Judge(x.Dir); err != nil {
		x.fail(err)
		return
	}
	if !o.keep && !x.wrong() {
		if err := os.Remove(filepath.Join(x.Dir, torture.History)); err != nil {
			x.fail(err)
		}
	}
}

func (x *outcome) fail(err error) {
	if x.Failed != "" {
		x.Failed += "; "
	}
	x.Failed += err.Error()
}

// wrong is whether somebody has to look at the trial.
func (x *outcome) wrong() bool {
	return x.Failed != "" || len(x.Left) > 0 || x.Result != nil && torture.Violations(x.Result) > 0
}

// everywhere are the faults that come to clients of every engine. Those that cannot come are
// left out, and the trial says why.
func everywhere() []torture.Nemesis {
	return []torture.Nemesis{
		torture.Kill(), torture.Stop(), torture.Hog(), torture.Freeze(), torture.Packets(), torture.Wire(), torture.Connections(),
	}
}
