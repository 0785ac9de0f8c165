package redlock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/wire"
	"leasehold/internal/boottime"
)

// The delayed restart of the published algorithm, kept by the client.
//
// A master that comes up again without what it granted would vote for a second
// holder. So it has no vote until everything it may have forgotten has expired:
// for MaxTTL after its start. It must not matter when a client looks. So what was
// looked at is one run of the server, by its run_id, and every script that votes
// compares that with the run it is executed on (vote.lua). The obvious version,
// INFO now and then, is broken by
//
//	client: INFO, up for a day    server: dies, restarts empty    client: SET NX
//
// and so is a script that only carries the run_id in its text, to be unknown to a
// fresh server: of two clients that both looked before the restart, one teaches
// the new server the old text and the other's call is then answered. (Redis 6
// moreover keeps scripts in its snapshots.) INFO inside the script costs some 4 us
// of the server's time.
//
// The delay is not needed where nothing is forgotten: if the server syncs every
// write, did so before it was restarted, and came up with what it had written.
// Only the first can be asked of it. For the others a mark is written into it that
// names its run: a server that syncs every write, and finds the mark of the run
// before, has kept everything since that mark (survived.lua).

// run is what was found about one run of a master.
type run struct {
	id    string        // its run_id; "": nobody cares
	votes time.Duration // since when it has a vote, by boottime
	again time.Duration // without one: when to look whether it is this run still
}

// lookEvery is how often a master without a vote is looked at: it is asked nothing
// else that would show that it was restarted once more, with what it had.
const lookEvery = time.Second

// noVote is the error of a master that was restarted too recently.
type noVote struct{ until time.Time }

func (n *noVote) Error() string {
	return fmt.Sprintf("it was restarted, and has no vote until %s", n.until.Format("15:04:05"))
}

// uptimeUnit is how finely INFO tells the time since the start.
const uptimeUnit = time.Second

// delay is for how long after its start a master has no vote.
func (o *Options) delay() time.Duration { return o.MaxTTL + drift(o.MaxTTL) }

func restarted(text string) bool {
	return strings.HasPrefix(strings.TrimPrefix(text, "-"), "RESTARTED")
}

// standing is the run of this master, if that has a vote.
func (m *master) standing(ctx context.Context, e *Engine, c *wire.Client) (*run, error) {
	m.mu.Lock()
	r := m.run
	m.mu.Unlock()
	if stale(r) {
		m.looking.Lock()
		defer m.looking.Unlock()
		m.mu.Lock()
		r = m.run // perhaps somebody else has looked meanwhile
		m.mu.Unlock()
	}
	if stale(r) {
		var err error
		if r, err = e.look(ctx, c); err != nil {
			return nil, err
		}
		m.mu.Lock()
		m.run = r
		m.mu.Unlock()
		// After it is noted: of two that look at the same time one sees the other.
		if twin := e.twin(m, r.id); twin != nil {
			m.lookAgain(r)
			return nil, engine.Refuse("%s and %s are the same server, which has one vote: name each master once", m.name, twin.name)
		}
	}
	if left := r.votes - boottime.Now(); left > 0 {
		return nil, &noVote{time.Now().Add(left)}
	}
	return r, nil
}

func stale(r *run) bool {
	if r == nil {
		return true
	}
	now := boottime.Now()
	return now < r.votes && now >= r.again
}

// twin is another master that is the same run, and so the same server.
func (e *Engine) twin(m *master, id string) *master {
	for _, other := range e.masters {
		other.mu.Lock()
		same := other != m && id != "" && other.run != nil && other.run.id == id
		other.mu.Unlock()
		if same {
			return other
		}
	}
	return nil
}

// lookAgain forgets a run that is over.
func (m *master) lookAgain(over *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.run == over {
		m.run = nil
	}
}

// look asks a server which run it is, and since when that has a vote.
func (e *Engine) look(ctx context.Context, c *wire.Client) (*run, error) {
	if e.opts.NoRestartDelay {
		return &run{}, nil
	}
	info, err := c.Info(ctx)
	answered := boottime.Now()
	if err != nil {
		return nil, fmt.Errorf("whether it was restarted cannot be known: %w", err)
	}
	id := info["run_id"]
	uptime, err := strconv.ParseInt(info["uptime_in_seconds"], 10, 64)
	if len(id) != 40 || err != nil {
		return nil, engine.Refuse("whether it was restarted cannot be known: INFO does not say run_id and uptime_in_seconds")
	}
	// It started at the latest so long before the answer came. What it says is
	// the difference of two whole seconds.
	start := answered - max(time.Duration(uptime)*time.Second-uptimeUnit, 0)
	r := &run{id: id, votes: start + e.opts.delay(), again: answered + lookEvery}
	// Asked in any case: the mark of this run is what the next one is judged by.
	if info["aof_enabled"] == "1" && e.synced(ctx, c, id) {
		r.votes = min(r.votes, answered)
	}
	return r, nil
}

// synced reports whether a server, in this run and in the one before, had every
// write on its disk before it answered. What this user may not ask is not so.
// While a child process writes a file, no-appendfsync-on-rewrite overrules always.
func (e *Engine) synced(ctx context.Context, c *wire.Client, run string) bool {
	policy, err := c.Ask(ctx, "CONFIG", "GET", "*appendfsync*").AsStrMap()
	if err != nil || policy["appendfsync"] != "always" || policy["no-appendfsync-on-rewrite"] != "no" {
		return false
	}
	n, err := c.Call(ctx, e.scripts.survived, wire.Call{Keys: []string{side + "run"}, Args: []string{run}}).AsInt64()
	return err == nil && n == 1
}
