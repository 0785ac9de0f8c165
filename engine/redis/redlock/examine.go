package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"leasehold/engine"
	"leasehold/engine/internal/findings"
	"leasehold/engine/redis/internal/examine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/internal/boottime"
)

const (
	// examineBound is how long a master may take to be there.
	examineBound = 3 * time.Second

	// apart is how far the clocks of two masters may stand from each other. Expiry
	// needs clocks that run alike, not that show the same time; but a clock that shows
	// another time is set one day, and each step ends or stretches holds.
	apart = time.Second
)

// examined is a master of an examination.
type examined struct {
	*redisconn.Client
	name  string
	info  map[string]string
	clock offset
}

// offset is what a master says the time is: so far ahead of this process, give or take.
type offset struct {
	ahead, give time.Duration
	known       bool
}

// Examine reports what is dangerous for locks on the masters that a URL names, in the
// form of [Open]. It only reads: it opens no engine and writes no key. The limit of keys
// is that of each master. It calls found from the goroutine of its caller, the worst
// finding first.
//
// Errors: a malformed URL; that no master can be reached. A part that this user may not
// read is a finding.
func Examine(ctx context.Context, rawURL string, o engine.ExamineOptions, found func(engine.Finding)) error {
	e, targets, names, err := fromURL(rawURL)
	if err != nil {
		return err
	}
	e.end()
	list := findings.New(o)
	masters, err := e.dial(ctx, list, targets, names)
	if err != nil {
		return err
	}
	for _, m := range masters {
		defer m.Close()
	}
	for _, m := range masters {
		s := examine.Store{
			Client: m.Client, List: list, Name: m.name, Where: " on " + m.name,
			Redisson: e.opts.Layout == Redisson, RestartDelay: !e.opts.NoRestartDelay,
		}
		for _, part := range []func(context.Context) error{s.Servers, s.Keys} {
			if err := part(ctx); list.Late(ctx, err) {
				break
			} else if err != nil {
				return fmt.Errorf("redlock: %w", err)
			}
		}
		m.info, _ = m.Nodes()[0].Info(ctx) // that it may not be read is noted
		m.clock = m.time(ctx, &s)
	}
	e.independent(list, masters)
	together(list, masters)
	list.Report(found)
	return nil
}

// dial reaches the masters side by side, and notes those that are down.
func (e *Engine) dial(ctx context.Context, list *findings.List, targets []*redisconn.Target, names []string) (up []*examined, err error) {
	type dialed struct {
		client *redisconn.Client
		err    error
	}
	ctx, cancel := context.WithTimeout(ctx, examineBound)
	defer cancel()
	answers := make([]chan dialed, len(targets))
	for i, t := range targets {
		answers[i] = make(chan dialed, 1)
		go func() {
			c, err := redisconn.Dial(ctx, t)
			answers[i] <- dialed{c, err}
		}()
	}
	var down []error
	for i, answer := range answers {
		d := <-answer
		if d.err == nil {
			up = append(up, &examined{Client: d.client, name: names[i]})
			continue
		}
		down = append(down, d.err)
	}
	if len(up) == 0 {
		return nil, fmt.Errorf("redlock: no master can be reached: %w", errors.Join(down...))
	}
	severity := engine.SeverityWarning
	if len(up) < e.majority {
		severity = engine.SeverityProblem
	}
	for _, err := range down {
		list.Add(engine.Finding{
			Severity: severity, What: "a master cannot be reached",
			Means: "Each master that is down is a vote less. Without a majority nobody can lock or renew.",
			Do:    "Start it. If it may have forgotten its keys, nobody counts its vote before max-ttl has passed.",
		}, "%v", err)
	}
	return up, nil
}

// independent examines whether each master has a vote of its own.
func (e *Engine) independent(list *findings.List, masters []*examined) {
	if n := len(e.masters); n%2 == 0 {
		list.Add(engine.Finding{
			Severity: engine.SeverityNote, What: "the number of masters is even",
			Means: "An even number survives no more failures than one master less.",
			Do:    "Use three, five or seven masters.",
		}, "%d", n)
	}
	runs := map[string]string{}
	for _, m := range masters {
		run := m.info["run_id"]
		if other := runs[run]; other != "" && run != "" {
			list.Add(engine.Finding{
				Severity: engine.SeverityProblem, What: "two masters are one server",
				Means: "One server has two votes, so a majority may be fewer servers than you think.",
				Do:    "Name each master once.",
			}, "%s and %s", other, m.name)
		}
		runs[run] = m.name
		if n := m.info["connected_slaves"]; m.info["role"] == "master" && n != "0" && n != "" {
			list.Add(engine.Finding{
				Severity: engine.SeverityWarning, What: "a master has replicas",
				Means: "A replica that takes its place lacks some of its keys and votes again: two may hold.",
				Do:    "Take the replicas away, or keep failover off. Redlock needs masters that nothing replaces.",
			}, "%s has %s", m.name, n)
		}
		uptime, err := strconv.Atoi(m.info["uptime_in_seconds"])
		if up := time.Duration(uptime) * time.Second; err == nil && up < e.opts.MaxTTL {
			f := engine.Finding{
				Severity: engine.SeverityNote, What: "a master was restarted within max-ttl",
				Means: "It may have forgotten locks. It has no vote until max-ttl has passed since its start, unless it syncs every write.",
				Do:    "Wait before another master is restarted.",
			}
			if e.opts.NoRestartDelay {
				f.Severity = engine.SeverityWarning
				f.Means = "It may have forgotten locks, and with restart-delay=off it votes nevertheless: two may hold."
				f.Do = "Leave restart-delay=off out, or have the master sync every write."
			}
			list.Add(f, "%s %v ago", m.name, up)
		}
	}
}

// time asks a master for its clock, a few times: the quickest answer says most.
func (m *examined) time(ctx context.Context, s *examine.Store) (best offset) {
	for range 3 {
		asked, began := time.Now(), boottime.Now()
		parts, err := m.Nodes()[0].Ask(ctx, "TIME").AsIntSlice()
		took := boottime.Now() - began
		if err == nil && len(parts) != 2 {
			err = errors.New("its answer is no time")
		}
		if err != nil {
			s.Unread("TIME of "+m.name, redisconn.Explain(err, ""), "+time")
			return offset{}
		}
		// It was read at some moment of the round trip.
		says := time.Unix(parts[0], parts[1]*1000)
		if c := (offset{says.Sub(asked.Add(took / 2)), took / 2, true}); !best.known || c.give < best.give {
			best = c
		}
	}
	return best
}

// together examines the clocks of each two masters. What the round trips leave open is in
// favour of the masters.
func together(list *findings.List, masters []*examined) {
	for i, m := range masters {
		for _, other := range masters[:i] {
			off := m.clock.ahead - other.clock.ahead
			if !m.clock.known || !other.clock.known || off.Abs()-m.clock.give-other.clock.give <= apart {
				continue
			}
			fast, slow := m, other
			if off < 0 {
				fast, slow = other, m
			}
			list.Add(engine.Finding{
				Severity: engine.SeverityWarning, What: "the clocks of the masters disagree",
				Means: "Each master expires its keys by its own clock. When a clock is set right, holds end early there or last too long.",
				Do:    "Run one time service on all masters that slews clocks and does not step them.",
			}, "%s is %v ahead of %s", fast.name, off.Abs().Round(time.Millisecond), slow.name)
		}
	}
}
