package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"leasehold/lab/servers"
	"leasehold/torture"
	"leasehold/torture/check"
	"leasehold/torture/history"
)

// faults are what trials may have, by name.
var faults = map[string]func() []torture.Nemesis{
	"none": func() []torture.Nemesis { return nil },
	"kill": func() []torture.Nemesis { return []torture.Nemesis{torture.Kill()} },
	"stop": func() []torture.Nemesis { return []torture.Nemesis{torture.Stop()} },
	"wire": func() []torture.Nemesis { return []torture.Nemesis{torture.Wire()} },
}

// faultNames are those of the table, in its order.
var faultNames = []string{"none", "kill", "stop", "wire"}

// What a trial must have seen to count, as package check asks it.
const (
	enoughLeases  = 500
	enoughStrikes = 20
)

// outcome is what a trial came to. A run writes one a line.
type outcome struct {
	Lock    string `json:"lock"` // its name
	Asked   bool   `json:"asked"`
	Fault   string `json:"fault"`
	Version string `json:"version"`
	Seed    uint64 `json:"seed"`
	Dir     string `json:"dir"`

	Leases  int            `json:"leases"`
	Struck  int            `json:"struck"`  // strikes that had an effect while somebody held a lock
	Doubled int            `json:"doubled"` // strikes after which two held one name
	Found   map[string]int `json:"found"`   // violations, by property
	Failed  string         `json:"failed,omitempty"`

	// Still is the longest time in which no client did anything. Without a fault that is a
	// machine with too much to do: it stops holders as a fault would.
	Still time.Duration `json:"still"`
}

// sites are the servers of a run, by store. A fault of a trial comes to its clients alone, and
// its names are its own: so all trials share them.
type sites map[string]string

// start starts a server of each store, and returns how they end.
func (s sites) start(stores map[string]bool) (end func() error, err error) {
	var all []func() error
	end = func() (err error) {
		for _, f := range all {
			err = errors.Join(err, f())
		}
		return err
	}
	if stores["Redis"] {
		r, err := servers.StartRedis(nil)
		if err != nil {
			return end, err
		}
		all, s["Redis"] = append(all, r.Close), r.Addr
	}
	if stores["etcd"] {
		e, err := servers.StartEtcd(nil)
		if err != nil {
			return end, err
		}
		all, s["etcd"] = append(all, e.Close), e.Addr
	}
	if stores["ZooKeeper"] {
		z, err := servers.StartZooKeeper(nil)
		if err != nil {
			return end, err
		}
		all, s["ZooKeeper"] = append(all, z.Close), z.Addr
	}
	if stores["PostgreSQL"] {
		p, err := servers.StartPostgres(nil)
		if err != nil {
			return end, err
		}
		all, s["PostgreSQL"] = append(all, p.Close), p.Addr
	}
	return end, nil
}

// try makes a trial, until it has seen enough.
func (o options) try(ctx context.Context, p *peer, asked bool, fault, addr string) outcome {
	x := outcome{Lock: p.name, Asked: asked, Fault: fault, Version: p.released(), Seed: o.seed, Found: map[string]int{}}
	x.Dir = filepath.Join(o.dir, p.name+map[bool]string{true: "-asked", false: "-notified"}[asked]+"-"+fault)
	trial, enough := context.WithCancel(ctx)
	defer enough()
	at := place{addr: addr, ttl: p.ttl, asked: asked}
	_, err := torture.Run(trial, torture.Options{
		Open: open, URL: at.url(p.name), Shown: p.name, Version: "peers " + x.Version, For: o.total, Clients: clients, Names: names, TTL: p.ttl,
		Seed: o.seed, Dir: x.Dir, Nemeses: faults[fault](),
		Judged: func(r *check.Result) {
			if r.Stats.Grants >= enoughLeases && (fault == "none" || r.Struck() >= o.strikes) {
				enough()
			}
		},
	})
	if err == nil {
		err = x.judge()
	}
	if err != nil {
		x.Failed = err.Error()
	}
	return x
}

// Few clients, each with several callers, and few names: so callers meet.
const (
	clients = 3
	names   = 6
)

// judge reads the history of the trial.
func (x *outcome) judge() error {
	r, err := torture.Judge(x.Dir)
	if err != nil {
		return err
	}
	f, err := os.Open(filepath.Join(x.Dir, torture.History))
	if err != nil {
		return err
	}
	defer f.Close()
	events, err := history.Parse(bufio.NewReader(f))
	if err != nil {
		return err
	}
	x.Leases, x.Struck, x.Doubled = r.Stats.Grants, r.Struck(), doubled(events, r.Findings)
	for i := 1; i < len(events); i++ {
		x.Still = max(x.Still, events[i].At-events[i-1].At)
	}
	for _, v := range r.Verdicts {
		if v.Found > 0 {
			x.Found[string(v.Property)] = v.Found
		}
	}
	return nil
}

// doubled is how many strikes were the last before an overlap.
func doubled(events []history.Event, findings []check.Finding) int {
	last := func(at time.Duration) (fault int) {
		for _, e := range events {
			if e.Kind == history.Strike && e.At <= at {
				fault = e.Fault
			}
		}
		return fault
	}
	seen := map[int]bool{}
	for _, f := range findings {
		if fault := last(f.At); f.Property == check.Exclusion && fault > 0 {
			seen[fault] = true
		}
	}
	return len(seen)
}
