package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
)

// TestAnErrorCountsMastersOnce: who answered is not among those that do not, and a
// minority that refuses does not decide.
func TestAnErrorCountsMastersOnce(t *testing.T) {
	refuses, away := engine.Refuse("it may not"), &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("refused")}
	early := &redisconn.TooEarly{Until: time.Date(2026, 1, 1, 12, 30, 0, 0, time.Local)}
	for _, c := range []struct {
		n       int
		said    []error // in order; masters behind it have not answered
		refused bool
		want    string
	}{
		{3, []error{nil, nil}, false, "1 of 3 masters do not answer in time: 2 are needed"},
		{5, []error{nil, nil, away}, false, "3 of 5 masters do not answer in time (m3: dial tcp: refused): 3 are needed"},
		{3, []error{refuses, away}, false, "1 of 3 refuse (m1: refused: it may not); 2 of 3 masters do not answer in time (m2: dial tcp: refused): 2 are needed"},
		{3, []error{refuses, away, nil}, false, "1 of 3 refuse (m1: refused: it may not); 1 of 3 masters do not answer in time (m2: dial tcp: refused): 2 are needed"},
		{5, []error{refuses, refuses, away, nil, nil}, false, "2 of 5 refuse (m1: refused: it may not; m2: refused: it may not); 1 of 5 masters do not answer in time (m3: dial tcp: refused): 3 are needed"},
		{5, []error{refuses, refuses, refuses, away}, true, "m1: refused: it may not; m2: refused: it may not; m3: refused: it may not"},
		{3, []error{refuses, refuses}, true, "m1: refused: it may not; m2: refused: it may not"},
		{4, []error{refuses, refuses, away}, true, "m1: refused: it may not; m2: refused: it may not"},
		{3, []error{early, early, nil}, false, "2 of 3 masters were started too recently and do not vote until 12:30:00 (max-ttl after their start: a restart may have made them forget what they granted): 2 are needed"},
		{3, []error{nil, nil, nil}, false, "the masters disagree: 2 are needed"},
	} {
		e := &Engine{majority: c.n/2 + 1}
		for i := range c.n {
			e.masters = append(e.masters, newMaster(fmt.Sprint("m", i+1), 0))
		}
		var said []ballot
		for i, err := range c.said {
			said = append(said, ballot{master: i, err: err})
		}
		err := e.unavailable(said)
		if err.Error() != "redlock: "+c.want || errors.Is(err, engine.ErrRefused) != c.refused {
			t.Errorf("%v of %d: refused %v:\n%v, not\n%s", c.said, c.n, errors.Is(err, engine.ErrRefused), err, c.want)
		}
	}
}

// TestAnErrorNamesAMasterOnce: that of its connection has the address as well.
func TestAnErrorNamesAMasterOnce(t *testing.T) {
	for text, want := range map[string]string{
		"h:7: redis: dial tcp h:7: refused": "redis: dial tcp h:7: refused",
		"h:7: redis: it hangs":              "h:7: redis: it hangs",
		"redis: it hangs":                   "h:7: redis: it hangs",
	} {
		if got := newMaster("h:7", 0).says(errors.New(text)); got != want {
			t.Errorf("%q is said as %q, not %q", text, got, want)
		}
	}
	if got := newMaster("h", 0).says(errors.New("h:6379: redis: it hangs")); got != "h: redis: it hangs" {
		t.Errorf("a port that was not named: %q", got)
	}
}

// TestOpenCountsWhoIsThere: two of five are, which is too few.
func TestOpenCountsWhoIsThere(t *testing.T) {
	t.Parallel()
	all := masters(t, 5, nil)
	for _, r := range all[2:] {
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := Open(within(t), urlOf(easy, addrs(all)...))
	if err == nil || !strings.Contains(err.Error(), "3 of 5 masters do not answer in time") {
		t.Fatalf("two of five are there: %v", err)
	}
	for _, r := range all {
		if n := strings.Count(err.Error(), r.Addr); n > 1 {
			t.Errorf("%s is named %d times: %v", r.Addr, n, err)
		}
	}
	e := openWithout(t, urlOf(easy, addrs(all[:3])...)) // of which one is down
	if err := all[1].Kill(); err != nil {
		t.Fatal(err)
	}
	for l, err := range e.Queues(within(t), "") {
		if err == nil || !strings.Contains(err.Error(), "2 of 3 masters do not answer in time") {
			t.Errorf("Queues with one of three: %+v %v", l, err)
		}
	}
}

// TestAListMissesNoNameThatOneReadFailedOf: the next master that knows it has it read again.
func TestAListMissesNoNameThatOneReadFailedOf(t *testing.T) {
	t.Parallel()
	all := masters(t, 3, nil)
	e := open(t, urlOf(easy, addrs(all)...))
	c := join(t, e, long("a"))
	until(t, "a master does not take it", func() bool { return standsOn(t, all, c) == len(all) })
	// On each master the first one fails.
	e.scripts.read = redisconn.NewScript("if redis.call('INCR', 'reads') == 1 then return redis.error_reply('ERR no') end\n" + e.scripts.read.Text())
	var names []string
	for l, err := range e.Queues(within(t), "") {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, l.Name)
	}
	if len(names) != 1 || names[0] != "a" {
		t.Errorf("the list has %q", names)
	}
}

// TestWhoWaitsForMastersToVoteIsToldUntilWhen: by the error of a context that ends.
func TestWhoWaitsForMastersToVoteIsToldUntilWhen(t *testing.T) {
	t.Parallel()
	e := open(t, urlOf("timeout=2s&max-ttl=1h", addrs(masters(t, 3, nil))...))
	_, err := e.Join(within(t), exclusive("a"))
	if err == nil || errors.Is(err, engine.ErrRefused) || strings.Contains(err.Error(), "restarted") ||
		!strings.Contains(err.Error(), "3 of 3 masters were started too recently and do not vote until ") {
		t.Errorf("Join: %v", err)
	}
}

// stuck are listeners that never greet.
func stuck(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		addrs = append(addrs, l.Addr().String())
	}
	return addrs
}

// TestOpenNeedsAMajority: one that never greets is joined later, and does not hold the
// opening up.
func TestOpenNeedsAMajority(t *testing.T) {
	t.Parallel()
	at := append(addrs(masters(t, 2, nil)), stuck(t, 1)...)
	// Until a dial is given up, which takes three seconds.
	e, err := Open(within(t), urlOf(easy, at...))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	m := e.(*Engine).masters[2]
	m.mu.Lock()
	why := m.why
	m.mu.Unlock()
	if why == nil || why.Error() != "it was not reached yet" {
		t.Errorf("it was waited for until: %v", why)
	}
	if c := join(t, e.(*Engine), long("a")); c.State != engine.Held {
		t.Errorf("%+v", c)
	}
}

// TestOpenObeysItsContext: a majority never greets.
func TestOpenObeysItsContext(t *testing.T) {
	t.Parallel()
	at := append(addrs(masters(t, 1, nil)), stuck(t, 2)...)
	ctx, cancel := context.WithCancel(t.Context())
	opened := make(chan error, 1)
	go func() {
		_, err := Open(ctx, urlOf(easy, at...))
		opened <- err
	}()
	cancel()
	if err := <-opened; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "2 are needed") {
		t.Errorf("Open: %v", err)
	}
}

// TestOpenIsBounded: masters that greet may hang all the same.
func TestOpenIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, err := prepare([]string{"h1:1", "h2:1", "h3:1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = e.start(t.Context(), func(life context.Context, _ int) (*redisconn.Client, error) {
			<-life.Done()
			return nil, life.Err()
		})
		if took := time.Since(began); err == nil || errors.Is(err, context.DeadlineExceeded) || took != openBound ||
			!strings.Contains(err.Error(), "3 of 3 masters do not answer in time: 2 are needed") {
			t.Errorf("after %v: %v", took, err)
		}
	})
}
