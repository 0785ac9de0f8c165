package redisconn

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"leasehold/engine"
	"leasehold/internal/boottime"
)

// The delayed restart of the Redlock algorithm, kept by the clients.
//
// A server that comes up again without what it granted would grant it again. So it
// grants nothing until everything it may have forgotten has expired: for the longest
// TTL after its start. It must not matter when a client looks. So what is judged is
// one run of the server, by its run_id, and every guarded script compares that with
// the run it is executed on (run.lua). The obvious version, INFO now and then, is
// broken by
//
//	client: INFO, up for a day    server: dies, restarts empty    client: EVALSHA
//
// and so is a script that only carries the run_id in its text, to be unknown to a
// fresh server: of two clients that both looked before the restart, one teaches the
// new server the old text and the other's call is then answered. (Redis 6 moreover
// keeps scripts in its snapshots.) INFO inside the script costs some 4 us of the
// server's time.
//
// The delay is not needed where nothing is forgotten: if a server syncs every write,
// did so before it was restarted, and came up with what it had written. Only the
// first can be asked of it. For the others a mark is written into it that names its
// run (survived.lua). A run that does not sync every write takes the mark away, or
// the next one would be judged by what was before it; and so does a client that may
// not ask.

var (
	//go:embed run.lua
	runLua string
	//go:embed survived.lua
	survivedLua string
)

// Guarded is the script, refused by a server that was restarted since the client
// has judged it: see [Client.DelayRestarts].
func (s *Script) Guarded() *Script {
	g := NewScript(runLua + s.text)
	g.guarded = true
	return g
}

// restarts is what is known of the runs of servers.
type restarts struct {
	delay time.Duration // after its start a server grants nothing
	mark  string        // the key of the mark
	judge func(run string) error

	info, survived *Script

	mu      sync.Mutex
	servers map[string]*server // by what leads to them: a tag on a Cluster, else nothing
}

// server is one that was looked at.
type server struct {
	looking chan struct{} // capacity 1: who looks has put in a value

	// Of who looks.
	found string        // the run that was looked at last
	since time.Duration // when it was found first, by boottime

	mu     sync.Mutex
	run    string        // its run_id; "": not looked at, or over
	grants time.Duration // since when it grants, by boottime
	again  time.Duration // before: when to look whether it is this run still
}

// DelayRestarts has guarded scripts carried out only by servers that can have
// forgotten no claim of at most the longest TTL. They do not grant for so long after
// their start, or after the first look at them if their clock was set back since. Those
// that sync every write and have lost none grant at once. That is asked of a
// single server only, and the mark by which it is known is kept there under a key.
// judge, if not nil, is told of each run that is found, and may refuse it by an error.
// DelayRestarts is called before anything else.
//
// Errors: a user who may not ask for INFO is refused; those of judge. A server that
// does not grant yet is no error of it.
func (c *Client) DelayRestarts(ctx context.Context, longest time.Duration, mark string, judge func(run string) error) error {
	c.restarts = &restarts{
		// Beside the TTL what clocks may run apart meanwhile, and how finely keys expire.
		delay: longest + longest/100 + 2*time.Millisecond, mark: mark, judge: judge,
		info: NewScript("return redis.call('INFO', 'server')"), survived: NewScript(runLua + survivedLua),
		servers: map[string]*server{},
	}
	err := c.Grants(ctx, mark)
	var early *TooEarly
	if errors.As(err, &early) {
		return nil
	}
	return err
}

// TooEarly is the error of a server that was restarted too recently.
type TooEarly struct{ Until time.Time }

func (e *TooEarly) Error() string {
	return fmt.Sprintf("this server does not grant until %s: it was started less than the restart-delay ago, and may have forgotten who holds",
		e.Until.Format("15:04:05"))
}

// Grants reports whether the server that has a key would carry out a guarded script,
// so that who is told of an error here has asked it nothing. Without DelayRestarts
// every server does.
//
// Errors: TooEarly; that it cannot be known.
func (c *Client) Grants(ctx context.Context, key string) error {
	_, err := c.Run(ctx, key)
	return err
}

// Run is the run of the server that has a key, which run.lua compares, if that server
// grants: see Grants, whose errors these are. Without DelayRestarts it is empty.
func (c *Client) Run(ctx context.Context, key string) (string, error) {
	if c.restarts == nil {
		return "", nil
	}
	return c.standing(ctx, key)
}

var errRestarted = errors.New("this server was restarted, or another has taken its place: ask again")

// restarted: run.lua has refused a script.
func restarted(err error) bool {
	return err != nil && strings.HasPrefix(strings.TrimPrefix(err.Error(), "-"), "RESTARTED")
}

// lookEvery is how often a server that does not grant is looked at: it is asked
// nothing else that would show that it was restarted once more, with what it had.
const lookEvery = time.Second

// uptimeUnit is how finely INFO tells the time since the start.
const uptimeUnit = time.Second

// onItsRun makes calls of a script by send; of a guarded one each with the run that it is
// for. A server that was restarted since is looked at again, and asked once more.
func (c *Client) onItsRun(ctx context.Context, s *Script, calls []Call, send func([]Call) []Answer) []Answer {
	if !s.guarded {
		return send(calls)
	}
	answers := make([]Answer, len(calls))
	which := make([]int, len(calls)) // that have no answer yet
	for i := range calls {
		which[i] = i
	}
	for range 2 {
		which = c.onThisRun(ctx, calls, answers, which, send)
	}
	return answers
}

// onThisRun makes some of the calls, and returns those of a server that was restarted.
func (c *Client) onThisRun(ctx context.Context, calls []Call, answers []Answer, which []int, send func([]Call) []Answer) (again []int) {
	var may []Call
	var asked []int
	for _, i := range which {
		// What an earlier attempt may have done stays indeterminate, also if it was done by the
		// run before.
		run, err := c.standing(ctx, calls[i].Keys[0])
		if err != nil {
			answers[i] = Answer{Failed(err).RedisResult, answers[i].Indeterminate}
			continue
		}
		args := append(make([]string, 0, len(calls[i].Args)+1), calls[i].Args...)
		may, asked = append(may, Call{Keys: calls[i].Keys, Args: append(args, run)}), append(asked, i)
	}
	for j, a := range send(may) {
		i := asked[j]
		a.Indeterminate = cmp.Or(a.Indeterminate, answers[i].Indeterminate)
		if restarted(a.Error()) {
			args := may[j].Args
			c.serverOf(may[j].Keys[0]).over(args[len(args)-1])
			a = Answer{Failed(errRestarted).RedisResult, a.Indeterminate}
			again = append(again, i)
		}
		answers[i] = a
	}
	return again
}

// serverOf is the server that has a key.
func (c *Client) serverOf(key string) *server {
	tag := ""
	if c.Cluster() {
		_, rest, _ := strings.Cut(key, "{")
		tag, _, _ = strings.Cut(rest, "}")
	}
	c.restarts.mu.Lock()
	defer c.restarts.mu.Unlock()
	s := c.restarts.servers[tag]
	if s == nil {
		s = &server{looking: make(chan struct{}, 1)}
		c.restarts.servers[tag] = s
	}
	return s
}

// standing is the run of the server that has a key, if that grants.
func (c *Client) standing(ctx context.Context, key string) (string, error) {
	s := c.serverOf(key)
	run, left, stale := s.known()
	if stale {
		select {
		case s.looking <- struct{}{}:
			defer func() { <-s.looking }()
		case <-ctx.Done():
			return "", ctx.Err()
		}
		if run, left, stale = s.known(); stale { // else somebody else has looked meanwhile
			found, grants, err := c.lookAtRun(ctx, s, key)
			if err != nil {
				return "", err
			}
			now := boottime.Now()
			s.mu.Lock()
			s.run, s.grants, s.again = found, grants, now+lookEvery
			s.mu.Unlock()
			// Not what is known by now: somebody else may have heard that this run is
			// over, and who asks in its name is to hear that too.
			run, left = found, grants-now
		}
	}
	if left > 0 {
		return "", &TooEarly{time.Now().Add(left)}
	}
	return run, nil
}

// known is the run, and for how long it does not grant. Stale: it has to be looked at.
func (s *server) known() (run string, left time.Duration, stale bool) {
	now := boottime.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	left = s.grants - now
	return s.run, left, s.run == "" || left > 0 && now >= s.again
}

// over forgets a run.
func (s *server) over(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == run {
		s.run = ""
	}
}

// lookAtRun asks the server that has a key which run it is, and since when that grants.
func (c *Client) lookAtRun(ctx context.Context, s *server, key string) (run string, grants time.Duration, err error) {
	text, err := c.Call(ctx, c.restarts.info, Call{Keys: []string{key}}).ToString()
	answered := boottime.Now()
	if err != nil {
		return "", 0, fmt.Errorf("find out whether the server was restarted: %w", Explain(err, ""))
	}
	run, uptime, ok := runIn(text)
	if !ok {
		return "", 0, engine.Refuse("find out whether the server was restarted: its INFO has no run_id and uptime_in_seconds; do without the restart delay")
	}
	if c.restarts.judge != nil {
		if err := c.restarts.judge(run); err != nil {
			return "", 0, err
		}
	}
	grants = s.started(run, answered, uptime) + c.restarts.delay
	if c.FailsOver() {
		return run, grants, nil
	}
	// Asked in any case: the mark of this run is what the next one is judged by.
	kept, off, err := c.kept(ctx, run)
	switch {
	case restarted(err): // so this run is over, which the first guarded script is told
	case err != nil:
		return "", 0, fmt.Errorf("record whether the server keeps its writes: %w", Explain(err, c.restarts.mark))
	case kept:
		grants = min(grants, answered)
	case off > 0:
		grants = max(grants, boottime.Now()+off)
	}
	return run, grants, nil
}

// runIn reads which run a server is, and for how long it is up by its wall clock. That is
// below 0 where the clock was set back since the start. ok: both are there.
func runIn(info string) (run string, uptime time.Duration, ok bool) {
	for l := range strings.Lines(info) {
		switch k, v, _ := strings.Cut(strings.TrimSpace(l), ":"); k {
		case "run_id":
			run = v
		case "uptime_in_seconds":
			n, err := strconv.ParseInt(v, 10, 64)
			uptime, ok = time.Duration(n)*time.Second, err == nil
		}
	}
	return run, uptime, ok && len(run) == 40
}

// started is when a run started at the latest, by boottime, which answered at a moment with
// its uptime. An uptime is the difference of two whole seconds.
//
// A clock that was set back makes the uptime too short. But the first look at the run has
// proven that it had started by then. So the delay does not begin anew at each look.
func (s *server) started(run string, answered, uptime time.Duration) time.Duration {
	if s.found != run {
		s.found, s.since = run, answered
	}
	return min(answered-max(uptime-uptimeUnit, 0), s.since)
}

// kept reports whether a server, in this run and in the one before, had every write
// on its disk before it answered. What this user may not ask is not so. While a
// child process writes a file, no-appendfsync-on-rewrite overrules always. off is for
// how long from now it grants nothing, whenever it was started.
func (c *Client) kept(ctx context.Context, run string) (kept bool, off time.Duration, err error) {
	synced := "0"
	config, err := c.Ask(ctx, "CONFIG", "GET", "*append*").AsStrMap()
	if err == nil && config["appendonly"] == "yes" && config["appendfsync"] == "always" && config["no-appendfsync-on-rewrite"] == "no" {
		synced = "1"
	}
	delay := strconv.FormatInt(c.restarts.delay.Milliseconds()+1, 10)
	n, err := c.Call(ctx, c.restarts.survived, Call{Keys: []string{c.restarts.mark}, Args: []string{run, synced, delay, run}}).AsInt64()
	return n < 0, time.Duration(n) * time.Millisecond, err
}
