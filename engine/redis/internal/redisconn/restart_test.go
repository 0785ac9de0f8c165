package redisconn

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mark = "mark"

// dialed is a client of a server of its own.
func dialed(t *testing.T, o *servers.RedisOptions) (*Client, *servers.RedisServer) {
	t.Helper()
	r := servers.Redis(t, o)
	target, err := ParseURL("redis://" + r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, r
}

// delaying is a dialed client, and counts how often it looks which run a server is.
func delaying(t *testing.T, longest time.Duration, o *servers.RedisOptions) (c *Client, r *servers.RedisServer, looks *atomic.Int32) {
	t.Helper()
	c, r = dialed(t, o)
	looks = &atomic.Int32{}
	if err := c.DelayRestarts(t.Context(), longest, mark, func(string) error { looks.Add(1); return nil }); err != nil {
		t.Fatal(err)
	}
	return c, r, looks
}

// anyway has every server grant, however young it is.
func (c *Client) anyway() {
	c.restarts.delay = -time.Hour
	s := c.serverOf(mark)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.grants = "", 0
}

// grantsIn is for how long a server does not grant.
func (c *Client) grantsIn(t *testing.T) time.Duration {
	t.Helper()
	var early *TooEarly
	switch err := c.Grants(t.Context(), mark); {
	case errors.As(err, &early):
		return time.Until(early.Until)
	case err != nil:
		t.Fatal(err)
	}
	return 0
}

// TestTheDelayIsLongerThanTheTTLByWhatClocksMayDiffer: a lease of the longest TTL may
// be trusted for that much longer than the restarted server's clock says.
func TestTheDelayIsLongerThanTheTTLByWhatClocksMayDiffer(t *testing.T) {
	t.Parallel()
	const longest = 10 * time.Hour
	c, _, _ := delaying(t, longest, nil)
	if left := c.grantsIn(t); left < longest+longest/200 || left > longest+longest/50 {
		t.Errorf("with a TTL of %v it grants in %v", longest, left)
	}
}

// TestAServerThatDoesNotGrantIsNotAskedByEveryCall: who is refused for an hour asks often.
func TestAServerThatDoesNotGrantIsNotAskedByEveryCall(t *testing.T) {
	t.Parallel()
	c, _, looks := delaying(t, time.Hour, nil)
	const calls = 1000
	for range calls {
		if c.grantsIn(t) == 0 {
			t.Fatal("void: it grants")
		}
	}
	if n := looks.Load(); n > calls/10 {
		t.Errorf("%d looks for %d calls", n, calls)
	}
}

// TestManyWhoFindARunOverLookOnce: a restart is met by all callers at once.
func TestManyWhoFindARunOverLookOnce(t *testing.T) {
	t.Parallel()
	const callers = 64
	c, _ := dialed(t, nil)
	var coming, looks atomic.Int32
	all := make(chan struct{})
	judge := func(string) error {
		if looks.Add(1) == 2 { // the first is that of DelayRestarts
			<-all
			time.Sleep(20 * time.Millisecond) // so that most of them wait by then; one who comes later looks no more either
		}
		return nil
	}
	if err := c.DelayRestarts(t.Context(), time.Hour, mark, judge); err != nil {
		t.Fatal(err)
	}
	s := c.serverOf(mark)
	run, _, _ := s.known()
	s.over(run)
	var asking sync.WaitGroup
	for range callers {
		asking.Go(func() {
			if coming.Add(1) == callers {
				close(all)
			}
			c.grantsIn(t)
		})
	}
	asking.Wait()
	if n := looks.Load(); n != 2 {
		t.Errorf("%d looks of %d callers", n-1, callers)
	}
}

// TestAClockThatWasSetBackRefusesNoServer: Redis says then that it is up for less than nothing.
func TestAClockThatWasSetBackRefusesNoServer(t *testing.T) {
	run := strings.Repeat("0", 40)
	for name, c := range map[string]struct {
		info   string
		uptime time.Duration
		ok     bool
	}{
		"up for a minute":            {"# Server\r\nrun_id:" + run + "\r\nuptime_in_seconds:60\r\n", time.Minute, true},
		"set back by two hours":      {"uptime_in_seconds:-7190\r\nrun_id:" + run + "\r\n", -7190 * time.Second, true},
		"no uptime":                  {"run_id:" + run + "\r\n", 0, false},
		"an uptime in words":         {"run_id:" + run + "\r\nuptime_in_seconds:long\r\n", 0, false},
		"no run":                     {"uptime_in_seconds:60\r\n", time.Minute, false},
		"a run of another program's": {"run_id:7\r\nuptime_in_seconds:60\r\n", time.Minute, false},
	} {
		got, uptime, ok := runIn(c.info)
		if ok != c.ok || uptime != c.uptime || ok && got != run {
			t.Errorf("%s: %q, up for %v, %v", name, got, uptime, ok)
		}
	}
}

// TestTheDelayDoesNotBeginAnewAtEachLook: not of one run, whatever its wall clock does.
func TestTheDelayDoesNotBeginAnewAtEachLook(t *testing.T) {
	s := &server{}
	for i, c := range []struct {
		run                    string
		answered, uptime, want time.Duration // in seconds
	}{
		{"a", 1000, 60, 941}, // of whole seconds, one may not be over
		{"a", 1001, 61, 941},
		{"a", 1002, -7190, 1000}, // set back: there since the first look
		{"a", 1003, 0, 1000},
		{"a", 1004, 64, 941},
		{"b", 1100, -7190, 1100},
		{"b", 1101, -7189, 1100},
		{"a", 1200, 0, 1200}, // and back: a server of several that take turns
	} {
		if got := s.started(c.run, c.answered*time.Second, c.uptime*time.Second); got != c.want*time.Second {
			t.Errorf("look %d: it started at %v, not %v s", i+1, got, int(c.want))
		}
	}
}

// TestALateRefusalEndsNoLaterRun: it was of the run before.
func TestALateRefusalEndsNoLaterRun(t *testing.T) {
	s := &server{run: "later"}
	s.over("before")
	if run, _, stale := s.known(); run != "later" || stale {
		t.Errorf("%q, stale %v", run, stale)
	}
	s.over("later")
	if _, _, stale := s.known(); !stale {
		t.Error("a run that is over is believed")
	}
}

// TestNoPartOfARunIsTheRun: what is carried out by a server must have been judged for it.
// Before, no run at all was taken for every run.
func TestNoPartOfARunIsTheRun(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, nil)
	run, err := r.Info("run_id")
	if err != nil || len(run) != 40 {
		t.Fatalf("%q %v", run, err)
	}
	for name, c := range map[string]struct {
		run     string
		carried bool
	}{
		"none": {"", false}, "its beginning": {run[:39], false}, "another": {strings.Repeat("0", 40), false}, "the run": {run, true},
	} {
		if _, err := r.Do("EVAL", NewScript("return 1").Guarded().Text(), "0", c.run); (err == nil) != c.carried || err != nil && !restarted(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACallThatMeetsARestartIsMadeAgain: where the server grants, nobody hears of it.
func TestACallThatMeetsARestartIsMadeAgain(t *testing.T) {
	t.Parallel()
	c, _, looks := delaying(t, time.Second, nil)
	c.anyway()
	s := c.serverOf(mark)
	s.run, s.grants = strings.Repeat("0", 40), 0 // as if it had been another run
	before := looks.Load()
	n, err := c.Call(t.Context(), NewScript("return #ARGV").Guarded(), Call{Keys: []string{"k"}, Args: []string{"a", "b"}}).AsInt64()
	if err != nil || n != 2 || looks.Load() != before+1 {
		t.Errorf("%d arguments, %v, after %d looks", n, err, looks.Load()-before)
	}
}

// TestWhatWasIndeterminateStaysSoOverARestart: a first attempt may have been carried out by the
// run before, which the next one cannot know.
func TestWhatWasIndeterminateStaysSoOverARestart(t *testing.T) {
	t.Parallel()
	lost := errors.New("the answer was lost")
	for name, c := range map[string]struct {
		then func(c *Client) // while the first attempt is under way
		want error           // of the second
	}{
		"and asked again it answers":        {func(*Client) {}, nil},
		"and asked again it does not grant": {func(c *Client) { c.restarts.delay = time.Hour }, &TooEarly{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, _, _ := delaying(t, time.Second, nil)
			client.anyway()
			sent := 0
			answers := client.onItsRun(t.Context(), NewScript("return 1").Guarded(), []Call{{Keys: []string{"k"}}}, func(calls []Call) (as []Answer) {
				for range calls {
					if sent++; sent == 1 {
						c.then(client)
						as = append(as, Answer{Failed(errors.New("RESTARTED")).RedisResult, lost})
					} else {
						as = append(as, client.Call(t.Context(), NewScript("return 1"), calls[0]))
					}
				}
				return as
			})
			var early *TooEarly
			if err := answers[0].Error(); errors.As(err, &early) != (c.want != nil) || err != nil && c.want == nil {
				t.Errorf("void: %v", err)
			}
			if answers[0].Indeterminate != lost {
				t.Errorf("unsure: %v", answers[0].Indeterminate)
			}
		})
	}
}

// TestOnlyWhoSyncsEveryWriteIsMarked: of a run that is marked the next one is taken to
// have all writes.
func TestOnlyWhoSyncsEveryWriteIsMarked(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args   []string
		marked int64
	}{
		"it does":             {[]string{"--appendonly", "yes", "--appendfsync", "always"}, 1},
		"no file of writes":   {[]string{"--appendonly", "no", "--appendfsync", "always"}, 0},
		"every second":        {[]string{"--appendonly", "yes", "--appendfsync", "everysec"}, 0},
		"not while rewriting": {[]string{"--appendonly", "yes", "--appendfsync", "always", "--no-appendfsync-on-rewrite", "yes"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, r, _ := delaying(t, time.Hour, &servers.RedisOptions{Args: c.args})
			if n, err := r.Do("EXISTS", mark); err != nil || n != c.marked {
				t.Errorf("marked: %v %v", n, err)
			}
		})
	}
}

// TestWhatPutsTheGrantsOffNeitherShortensNorOutlastsTheDelay: the mark says until when a
// run that does not sync grants nothing. A server that started since may have forgotten
// what was granted until then; and one whose clock stepped back waits no longer than
// the delay.
func TestWhatPutsTheGrantsOffNeitherShortensNorOutlastsTheDelay(t *testing.T) {
	t.Parallel()
	const longest = 10 * time.Hour
	for name, off := range map[string]time.Duration{"soon over": time.Minute, "far ahead": 1000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, r := dialed(t, nil)
			if _, err := r.Do("HSET", mark, "run", "", "survived", "0", "off", strconv.FormatInt(time.Now().Add(off).UnixMilli(), 10)); err != nil {
				t.Fatal(err)
			}
			if err := c.DelayRestarts(t.Context(), longest, mark, nil); err != nil {
				t.Fatal(err)
			}
			if left := c.grantsIn(t); left < longest || left > longest+longest/50 {
				t.Errorf("it grants in %v", left)
			}
		})
	}
}

// TestALookThatWaitsEndsWithItsCaller: somebody else looks, and gets no answer.
func TestALookThatWaitsEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	c, _, _ := delaying(t, time.Hour, nil)
	s := c.serverOf(mark)
	s.mu.Lock()
	s.run, s.again = "", boottime.Now()
	s.mu.Unlock()
	s.looking <- struct{}{}
	defer func() { <-s.looking }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Grants(ctx, mark); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
