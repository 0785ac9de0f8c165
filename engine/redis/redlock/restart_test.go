package redlock

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

// restartTTL is the longest TTL of these tests, and the TTL of every hold: much
// longer than a server takes to come up.
const restartTTL = 6 * time.Second

// votes asks a master for its vote on a claim that nobody has.
func (e *Engine) votes(t *testing.T, m *master) error {
	t.Helper()
	answers, err := m.vote(t.Context(), e.scripts.renew, []redisconn.Call{{Keys: e.keys("nobody")[:2], Args: []string{engine.NewID().Secret(), "1000"}}})
	if err != nil {
		return err
	}
	return answers[0].Error()
}

// voting waits until all masters have a vote.
func voting(t *testing.T, e *Engine) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		n := 0
		for _, m := range e.masters {
			if e.votes(t, m) == nil {
				n++
			}
		}
		if n == len(e.masters) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%d masters vote", n)
		}
	}
}

// outcome is what became of a lock when one of the three masters that granted
// it was restarted: whether another client was granted it as well.
type outcome struct {
	second engine.Claim
	err    error
}

func (o outcome) overlap() bool { return o.err == nil && o.second.State == engine.Held }

// restartInside has one client hold on three masters of five, restarts one of them
// inside the hold, and has another client ask. It ends the test as void unless all
// of that happened before the hold's time was up.
func restartInside(t *testing.T, params string, o *servers.RedisOptions, before func(*servers.RedisServer), restart func(*servers.RedisServer) error) outcome {
	t.Helper()
	return restartBetween(t, params, restartTTL, o, before, restart)
}

// restartBetween is restartInside where the other client has a longest TTL of its own.
func restartBetween(t *testing.T, params string, theirs time.Duration, o *servers.RedisOptions, before func(*servers.RedisServer), restart func(*servers.RedisServer) error) outcome {
	t.Helper()
	all := masters(t, 5, o)
	url := func(max time.Duration) string {
		return urlOf("timeout=2s&max-ttl="+max.String()+params, addrs(all)...)
	}
	a, b := open(t, url(restartTTL)), open(t, url(theirs))
	voting(t, a)
	voting(t, b)
	if before != nil {
		before(all[2])
	}
	start := time.Now()
	r := exclusive("a")
	r.WaitTTL = restartTTL
	first := join(t, a, r)
	if first.State != engine.Held || first.TTL < restartTTL {
		t.Fatalf("void: the first client is %+v", first)
	}
	end := start.Add(first.TTL)
	// A majority is what a lock needs: two masters were not reached.
	for _, r := range all[3:] {
		until(t, "void: it is not on all masters", func() bool { return valueOf(t, r, "a") != nil })
		do(t, r, "DEL", "a")
	}
	if err := restart(all[2]); err != nil {
		t.Fatal(err)
	}
	if theirs < restartTTL { // it finds out, and waits for as long as it thinks right
		voting(t, b)
	}
	var got outcome
	ask := exclusive("a")
	ask.WaitTTL = min(ask.WaitTTL, theirs)
	got.second, got.err = b.Join(within(t), ask)
	if errors.Is(got.err, engine.ErrRefused) {
		t.Fatalf("refused: %v", got.err)
	}
	if left := time.Until(end); left <= 0 {
		t.Fatalf("void: the hold was over %v before the other client was answered", -left)
	}
	// To one who does not let it vote yet the restarted one says nothing.
	if theirs == restartTTL && got.overlap() == a.renewable(t, first) {
		t.Fatalf("the second is %+v %v, and the first holds %v", got.second, got.err, !got.overlap())
	}
	return got
}

// renewable: a claim can still be extended by a majority.
func (e *Engine) renewable(t *testing.T, c engine.Claim) bool {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		cs, err := e.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: engine.MinTTL}})
		switch {
		case err == nil:
			return cs[0].State == engine.Held
		case strings.Contains(err.Error(), "vote"):
			return true // without the restarted one two masters are too few to know
		case time.Now().After(end):
			t.Fatalf("void: whether the first still holds is not known: %v", err)
		}
		// The connection to the restarted master is still that of before.
	}
}

// TestClientsMustAgreeOnTheLongestTTL: one that lets a master vote sooner breaks the
// hold of one that asks for more. The package says so.
func TestClientsMustAgreeOnTheLongestTTL(t *testing.T) {
	t.Parallel()
	if got := restartBetween(t, "", time.Second, nil, nil, forgetting); !got.overlap() {
		t.Errorf("void: with max-ttl 1s beside %v nothing happens: %+v %v", restartTTL, got.second, got.err)
	}
	if got := restartBetween(t, "", restartTTL, nil, nil, forgetting); got.overlap() {
		t.Errorf("with the same: %+v", got.second)
	}
}

func forgetting(r *servers.RedisServer) error { return r.Restart(true) }

// TestARestartedMasterDoesNotGrantTwice is the paper's delayed restart, and each
// case its control: the same without the protection.
func TestARestartedMasterDoesNotGrantTwice(t *testing.T) {
	t.Parallel()
	aof := func(policy string) *servers.RedisOptions {
		return &servers.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", policy}}
	}
	// A power cut takes what was not synced: the file is as it was before.
	var saved string
	save := func(r *servers.RedisServer) {
		saved = filepath.Join(t.TempDir(), "aof")
		if err := os.CopyFS(saved, os.DirFS(filepath.Join(r.Dir, "appendonlydir"))); err != nil {
			t.Fatal(err)
		}
	}
	powerCut := func(r *servers.RedisServer) error {
		return r.RestartWith(func(dir string) error {
			if err := os.RemoveAll(filepath.Join(dir, "appendonlydir")); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(dir, "appendonlydir"), os.DirFS(saved))
		})
	}
	for name, c := range map[string]struct {
		options *servers.RedisOptions
		before  func(*servers.RedisServer)
		restart func(*servers.RedisServer) error
	}{
		"killed, nothing on disk":                       {nil, nil, forgetting},
		"power cut, synced every second":                {aof("everysec"), save, powerCut},
		"every write synced, but the folder is another": {aof("always"), nil, forgetting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := restartInside(t, "", c.options, c.before, c.restart); got.overlap() {
				t.Errorf("a second one holds inside the hold: %+v", got.second)
			}
			if got := restartInside(t, "&restart-delay=off", c.options, c.before, c.restart); !got.overlap() {
				t.Errorf("void: without the protection nothing happens either: %+v %v", got.second, got.err)
			}
		})
	}
}

// TestWhatWasKeptExcludes: a master that comes up with all it had excludes by
// itself, and votes at once where that is known.
func TestWhatWasKeptExcludes(t *testing.T) {
	t.Parallel()
	shutdown := func(r *servers.RedisServer) error {
		r.Do("SHUTDOWN") // the connection ends with it
		for end := time.Now().Add(10 * time.Second); r.Alive(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("it does not shut down")
			}
		}
		return r.Restart(false)
	}
	for name, c := range map[string]struct {
		policy  string
		restart func(*servers.RedisServer) error
	}{
		"clean SHUTDOWN, synced every second": {"everysec", shutdown},
		"killed, every write synced":          {"always", func(r *servers.RedisServer) error { return r.Restart(false) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &servers.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", c.policy}}
			for _, params := range []string{"", "&restart-delay=off"} {
				got := restartInside(t, params, o, nil, c.restart)
				if got.overlap() {
					t.Errorf("%q: a second one holds: %+v", params, got.second)
				}
			}
			// The same restart of a server that writes nothing down.
			if got := restartInside(t, "&restart-delay=off", nil, nil, c.restart); !got.overlap() {
				t.Errorf("void: what was not kept excludes as well: %+v %v", got.second, got.err)
			}
		})
	}
	t.Run("votes at once", func(t *testing.T) {
		t.Parallel()
		all := masters(t, 3, &servers.RedisOptions{Durable: true})
		url := urlOf("timeout=2s&max-ttl=1h", addrs(all)...)
		e := open(t, url) // looks at every run
		if c, err := e.Join(within(t), exclusive("a")); err == nil || errors.Is(err, engine.ErrRefused) {
			t.Fatalf("void: masters of which nothing is known vote: %+v %v", c, err)
		}
		for _, r := range all {
			if err := r.Restart(false); err != nil {
				t.Fatal(err)
			}
		}
		c, err := redistest.Eventually(t, e.joins(exclusive("a")))
		if err != nil || c.State != engine.Held {
			t.Errorf("masters that kept everything do not vote: %+v %v", c, err)
		}
	})
}

// TestTheDelayBeginsWithTheStart: INFO tells the time since then in whole seconds of
// the clock, so a server that is up for a moment may say one second.
func TestTheDelayBeginsWithTheStart(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	time.Sleep(time.Until(time.Now().Add(200 * time.Millisecond).Truncate(time.Second).Add(800 * time.Millisecond)))
	before := boottime.Now()
	for _, r := range all {
		if err := forgetting(r); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "a second does not pass", func() bool {
		s, err := all[2].Info("uptime_in_seconds")
		return err == nil && s != "0"
	})
	e := open(t, urlOf("timeout=2s&max-ttl="+restartTTL.String(), addrs(all)...))
	voting(t, e)
	if took := boottime.Now() - before; took < e.opts.MaxTTL+drift(e.opts.MaxTTL) {
		t.Errorf("they vote %v after their start", took)
	}
}

// TestAServerThatSyncsNotAlwaysHasNoVote: not that every write was synced in this run
// alone, nor by a policy that is not kept while a file is rewritten.
func TestAServerThatSyncsNotAlwaysHasNoVote(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		before func(t *testing.T, url string, all []*servers.RedisServer)
	}{
		"no-appendfsync-on-rewrite": {args: []string{"--no-appendfsync-on-rewrite", "yes"}},
		"the run before synced every second": {before: func(t *testing.T, url string, all []*servers.RedisServer) {
			for _, r := range all {
				do(t, r, "CONFIG", "SET", "appendfsync", "everysec")
			}
			open(t, url) // looks at that run, where the mark of one that synced every write is
			again(t, all)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := masters(t, 3, &servers.RedisOptions{Durable: true, Args: c.args})
			url := urlOf("timeout=2s&max-ttl=1h", addrs(all)...)
			open(t, url) // looks at every run
			again(t, all)
			if c.before != nil {
				c.before(t, url, all)
			}
			e := open(t, url)
			for _, m := range e.masters {
				var none *redisconn.TooEarly
				if err := e.votes(t, m); !errors.As(err, &none) {
					t.Errorf("it votes, though it may have lost what it granted: %v", err)
				}
			}
		})
	}
}

// again restarts masters with what they wrote.
func again(t *testing.T, all []*servers.RedisServer) {
	t.Helper()
	for _, r := range all {
		if err := r.Restart(false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMajorityThatWasRestartedIsUnavailable(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	e := open(t, urlOf("timeout=2s&max-ttl="+restartTTL.String(), addrs(all)...))
	voting(t, e)
	held := exclusive("held")
	held.WaitTTL = restartTTL
	if c := join(t, e, held); c.State != engine.Held {
		t.Fatalf("%+v", c)
	}
	for _, r := range all[:3] {
		if err := forgetting(r); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	until(t, "it never says so of all three", func() bool { // one may still be let alone, since its connection failed
		_, err = e.Join(within(t), exclusive("a"))
		return err == nil || strings.Contains(err.Error(), "3 of 5 masters were started too recently")
	})
	// Without the protection a second one holds beside the first.
	off := open(t, urlOf(easy, addrs(all)...))
	if c, err := redistest.Eventually(t, off.joins(exclusive("held"))); err != nil || c.State != engine.Held {
		t.Errorf("void: without the protection nothing happens either: %+v %v", c, err)
	}
	if err == nil || !strings.Contains(err.Error(), "3 of 5 masters were started too recently and do not vote until ") || errors.Is(err, engine.ErrRefused) {
		t.Fatalf("Join: %v", err)
	}
	locks, err := leasehold.New(open(t, urlOf("timeout=2s&max-ttl="+restartTTL.String(), addrs(all)...)), &leasehold.Options{TTL: restartTTL})
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()
	// Each wait is brief, for it must be over before they vote; the first may end without an answer.
	until(t, "Lock never says why", func() bool {
		_, err = locks.With(leasehold.LockOptions{Wait: 300 * time.Millisecond}).Lock(t.Context(), "a")
		return err == nil || strings.Contains(err.Error(), "do not vote until")
	})
	if !errors.Is(err, leasehold.ErrUnavailable) || errors.Is(err, leasehold.ErrHeld) || !strings.Contains(err.Error(), "do not vote until") {
		t.Errorf("Lock: %v", err)
	}
	voting(t, e)
	if c := join(t, e, exclusive("a")); c.State != engine.Held {
		t.Errorf("after the delay: %+v", c)
	}
}

// TestAVoteIsOfTheRunThatWasLookedAt: the restart falls between a client's look and
// its call, which asking now and then would not see.
func TestAVoteIsOfTheRunThatWasLookedAt(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf("timeout=2s&max-ttl=1s", addrs(all)...))
	voting(t, e)
	m := e.masters[0]
	m.mu.Lock()
	looked := m.run
	m.mu.Unlock()
	if err := forgetting(all[0]); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*redisconn.Script{"join": e.scripts.join, "stamp": e.scripts.stamp, "renew": e.scripts.renew, "retake": e.scripts.retake} {
		if err := e.asOf(all[0], s, looked); err == nil || !strings.Contains(err.Error(), "RESTARTED") {
			t.Errorf("%s: a vote that was asked of another run: %v", name, err)
		}
	}
	if n := do(t, all[0], "EXISTS", "a"); n != int64(0) {
		t.Error("the server that forgot has taken the lock")
	}
}

// TestOfTwoNamesOfOneServerOneHasAVote: whichever is looked at first keeps it, and
// refusing the other leaves no trace of that.
func TestOfTwoNamesOfOneServerOneHasAVote(t *testing.T) {
	a, b := newMaster("a", 0), newMaster("b", 0)
	e := &Engine{masters: []*master{a, b}}
	for range 2 {
		if err := e.alone(a, "run"); err != nil {
			t.Errorf("the first: %v", err)
		}
		if err := e.alone(b, "run"); !errors.Is(err, engine.ErrRefused) {
			t.Errorf("the second: %v", err)
		}
	}
	if err := errors.Join(e.alone(a, "another"), e.alone(b, "run")); err != nil {
		t.Errorf("when they lead to two: %v", err)
	}
}

// TestAMasterWithoutAVoteOwesNothing: or it would be let alone when it has one.
func TestAMasterWithoutAVoteOwesNothing(t *testing.T) {
	t.Parallel()
	e := open(t, urlOf("timeout=2s&max-ttl=1h", addrs(masters(t, 3, nil))...))
	m := e.masters[0]
	var none *redisconn.TooEarly
	if err := e.votes(t, m); !errors.As(err, &none) {
		t.Fatalf("void: it votes: %v", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owes != 0 {
		t.Errorf("it owes %d answers, and was asked nothing", m.owes)
	}
}
