package queuelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/internal/checked"
	"leasehold/lab/servers"
)

// delayed is the longest TTL of these tests, and the TTL of every hold: much longer
// than a server takes to come up.
const delayed = 4 * time.Second

// holdFor is the TTL of the holds of a test, as long as it may be. Without the delay
// nobody waits for its end.
func holdFor(protected bool, delay time.Duration) time.Duration {
	if protected {
		return delay
	}
	return 10 * time.Minute
}

func delaying(addr string, d time.Duration) string {
	return "redis://" + addr + "?restart-delay=" + d.String()
}

// grants waits until a server grants, and joins.
func grants(t *testing.T, e *Engine, r engine.Request) engine.Claim {
	t.Helper()
	c, err := eventually(t, func(ctx context.Context) (engine.Claim, error) { return e.Join(ctx, r) })
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answers repeats a call until its error says more than that the connection broke or
// the server is another one.
func answers(t *testing.T, call func() error) error {
	t.Helper()
	var err error
	until(t, "no answer", func() bool {
		err = call()
		return err == nil || strings.Contains(err.Error(), "does not grant until") || errors.Is(err, engine.ErrRefused)
	})
	return err
}

func ofAll(name string, ttl time.Duration) engine.Request {
	r := exclusive(name)
	r.WaitTTL = ttl
	return r
}

// saved copies what a server has on its disk, and a power cut puts that back: what was
// written since is lost.
func saved(t *testing.T, r *servers.RedisServer) (powerCut func() error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "aof")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(r.Dir, "appendonlydir"))); err != nil {
		t.Fatal(err)
	}
	return func() error {
		return r.RestartWith(func(folder string) error {
			if err := os.RemoveAll(filepath.Join(folder, "appendonlydir")); err != nil {
				return err
			}
			return os.CopyFS(filepath.Join(folder, "appendonlydir"), os.DirFS(dir))
		})
	}
}

func aof(policy string) *servers.RedisOptions {
	return &servers.RedisOptions{Args: []string{"--appendonly", "yes", "--appendfsync", policy}}
}

// TestARestartedServerDoesNotGrantTwice kills a server inside a hold, and asks it when
// it is up again. Each case has its control: the same without the delay.
func TestARestartedServerDoesNotGrantTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options *servers.RedisOptions
		saves   bool
		many    int // from how many calls on they go together
	}{
		"killed, nothing on disk":                       {nil, false, many},
		"killed, and many ask at once":                  {nil, false, 1},
		"power cut, synced every second":                {aof("everysec"), true, many},
		"every write synced, but the folder is another": {aof("always"), false, many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, protected := range []bool{true, false} {
				r := redis(t, c.options)
				url := "redis://" + r.Addr
				if protected {
					url = delaying(r.Addr, delayed)
				}
				a, b := open(t, url), open(t, url)
				b.groups.Many = c.many
				grants(t, a, ofAll("one", delayed))
				grants(t, b, ofAll("other", delayed)) // both have looked before the restart
				restart := func() error { return r.Restart(true) }
				if c.saves {
					restart = saved(t, r)
				}
				began, ttl := time.Now(), holdFor(protected, delayed)
				first := grants(t, a, ofAll("a", ttl))
				if first.State != engine.Held || first.TTL < ttl {
					t.Fatalf("void: the first claim is %+v", first)
				}
				if err := restart(); err != nil {
					t.Fatal(err)
				}
				var second engine.Claim
				err := answers(t, func() (err error) {
					second, err = b.Join(within(t), ofAll("a", delayed))
					return err
				})
				if left := time.Until(began.Add(ttl)); left <= 0 {
					t.Fatalf("void: the hold was over %v before the answer", -left)
				}
				two := err == nil && second.State == engine.Held
				if two == protected {
					t.Errorf("restart-delay %v: the second claim is %+v %v", protected, second, err)
				}
				if !protected {
					continue
				}
				if err == nil || errors.Is(err, engine.ErrRefused) {
					t.Errorf("Join: %v", err)
				}
				if c := grants(t, b, ofAll("a", delayed)); c.State != engine.Held || time.Since(began) < delayed {
					t.Errorf("after %v: %+v", time.Since(began), c)
				}
			}
		})
	}
}

// TestWhatWasForgottenIsNoReasonToLetSomebodyHold: who waits would hold as soon as
// the holder has expired by what the server knows. Any call may count it out.
func TestWhatWasForgottenIsNoReasonToLetSomebodyHold(t *testing.T) {
	t.Parallel()
	const short, delayed = time.Second, 5 * time.Second // the first must still hold when it is renewed
	for name, call := range map[string]func(t *testing.T, e *Engine, waits, behind engine.Claim) error{
		"who waits renews": func(t *testing.T, e *Engine, waits, _ engine.Claim) error {
			_, err := e.Renew(within(t), []engine.Renewal{{Name: waits.Name, ID: waits.ID, Want: delayed}})
			return err
		},
		"another one behind it leaves": func(t *testing.T, e *Engine, _, behind engine.Claim) error {
			_, err := e.Leave(within(t), []engine.Claim{behind})
			return err
		},
		"another one behind it is revoked": func(t *testing.T, e *Engine, _, behind engine.Claim) error {
			return e.Revoke(within(t), behind.Name, behind.Ticket, false)
		},
		"another one comes": func(t *testing.T, e *Engine, waits, _ engine.Claim) error {
			_, err := e.Join(within(t), ofAll(waits.Name, delayed))
			return err
		},
		"many come at once": func(t *testing.T, e *Engine, waits, _ engine.Claim) error {
			e.groups.Many = 1
			_, err := e.Join(within(t), ofAll(waits.Name, delayed))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, protected := range []bool{true, false} {
				// Every write is in the file, if not on the disk, before it is answered.
				r := redis(t, aof("no"))
				url := "redis://" + r.Addr
				if protected {
					url = delaying(r.Addr, delayed)
				}
				a, b := open(t, url), open(t, url)
				grants(t, a, ofAll("other", short))
				grants(t, b, ofAll("other", short)) // each client has read when the server was started
				var first, waits, behind engine.Claim
				var powerCut func() error
				var began time.Time
				ttl := holdFor(protected, delayed)
				until(t, "each try takes longer than the first claim's TTL", func() bool {
					first, waits, behind = join(t, a, ofAll("a", short)), join(t, b, ofAll("a", delayed)), join(t, b, ofAll("a", delayed))
					powerCut, began = saved(t, r), time.Now()
					if c := renew(t, a, first, ttl); c.State == engine.Held && first.State == engine.Held && waits.State == engine.Waiting {
						return true
					}
					for _, c := range []engine.Claim{behind, waits, first} {
						leave(t, b, c)
					}
					return false
				})
				if err := powerCut(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Until(began.Add(short + 50*time.Millisecond)))
				err := answers(t, func() error { return call(t, b, waits, behind) })
				queue, queueErr := b.Queue(within(t), "a")
				if left := time.Until(began.Add(ttl)); left <= 0 {
					t.Fatalf("void: the hold was over %v before the answer", -left)
				}
				// The stored queue, not what a reader makes of it.
				stored := do(t, r, "HGETALL", b.key("a"))
				two := strings.Contains(fmt.Sprint(stored), string(waits.ID[:])) && !strings.Contains(fmt.Sprint(stored), string(first.ID[:]))
				if two == protected || protected == (err == nil) || queueErr != nil {
					t.Errorf("restart-delay %v: the call: %v, the queue: %+v %v", protected, err, queue, queueErr)
				}
			}
		})
	}
}

// TestWhatWasKeptGrantsAtOnce: a server that syncs every write, and finds what the
// run before it wrote. All of the other cases would have to wait for an hour.
func TestWhatWasKeptGrantsAtOnce(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	durable := func(t *testing.T, args ...string) *servers.RedisServer {
		return redis(t, &servers.RedisOptions{Durable: true, Args: args})
	}
	early := func(t *testing.T, e *Engine) {
		t.Helper()
		var c engine.Claim
		err := answers(t, func() (err error) { c, err = e.Join(within(t), ofAll("early", time.Second)); return err })
		if err == nil || errors.Is(err, engine.ErrRefused) {
			t.Errorf("it may have forgotten, and grants: %+v %v", c, err)
		}
	}
	restart := func(t *testing.T, r *servers.RedisServer) {
		t.Helper()
		if err := r.Restart(false); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("it grants at once, and what it kept excludes", func(t *testing.T) {
		t.Parallel()
		r := durable(t)
		a, b := open(t, delaying(r.Addr, hour)), open(t, delaying(r.Addr, hour))
		early(t, a) // of a server that is looked at for the first time nothing is known
		restart(t, r)
		first := grants(t, a, long("a"))
		restart(t, r)
		second := grants(t, b, long("a"))
		if first.State != engine.Held || second.State != engine.Waiting {
			t.Errorf("%+v, %+v", first, second)
		}
		var left []engine.Claim
		err := answers(t, func() (err error) { left, err = a.Leave(within(t), []engine.Claim{first}); return err })
		if err != nil || left[0].State != engine.Held {
			t.Errorf("the first claim is gone: %+v %v", left, err)
		}
	})
	t.Run("a rewrite may overrule the policy", func(t *testing.T) {
		t.Parallel()
		r := durable(t, "--no-appendfsync-on-rewrite", "yes")
		open(t, delaying(r.Addr, hour))
		restart(t, r)
		early(t, open(t, delaying(r.Addr, hour)))
	})
	t.Run("the run before did not sync every write", func(t *testing.T) {
		t.Parallel()
		r := durable(t)
		open(t, delaying(r.Addr, hour))
		restart(t, r) // the mark of a run that did is there
		do(t, r, "CONFIG", "SET", "appendfsync", "everysec")
		early(t, open(t, delaying(r.Addr, hour)))
		restart(t, r) // the configuration file says always
		early(t, open(t, delaying(r.Addr, hour)))
	})
	t.Run("of the run before it was not known", func(t *testing.T) {
		t.Parallel()
		r := redis(t, &servers.RedisOptions{Durable: true, ACL: []string{acl}})
		open(t, delaying(r.Addr, hour))
		restart(t, r)
		do(t, r, "CONFIG", "SET", "appendfsync", "everysec")
		early(t, open(t, delaying("app:secret@"+r.Addr, hour))) // who may not ask
		restart(t, r)
		early(t, open(t, delaying(r.Addr, hour)))
	})
	t.Run("a mark in a run that does not sync puts the grants of all off", func(t *testing.T) {
		t.Parallel()
		r := durable(t)
		open(t, delaying(r.Addr, delayed))
		restart(t, r)
		do(t, r, "CONFIG", "SET", "appendfsync", "everysec")
		until(t, "it is not old enough", func() bool {
			text, err := r.Info("uptime_in_seconds")
			up, _ := strconv.Atoi(text)
			return err == nil && up >= int(delayed/time.Second)+2
		})
		began := time.Now()
		first := open(t, delaying(r.Addr, delayed)) // takes the mark away
		early(t, open(t, delaying(r.Addr, delayed)))
		early(t, first)
		if took := time.Since(began); took >= delayed {
			t.Fatalf("void: that took %v", took)
		}
		if grants(t, first, ofAll("a", delayed)); time.Since(began) < delayed {
			t.Errorf("it grants after %v", time.Since(began))
		}
	})
	t.Run("a mark that comes late is none of the next run", func(t *testing.T) {
		t.Parallel()
		r, empty := durable(t), durable(t) // as r is if it is restarted without its folder
		p := servers.ProxyTo(t, r.Addr)
		var asked, restarted atomic.Bool
		p.OnCommand(func(name string) {
			switch {
			case name == "CONFIG GET":
				asked.Store(true)
			case asked.Load() && strings.HasPrefix(name, "EVAL") && !restarted.Swap(true):
				p.Retarget(empty.Addr)
				p.Reset()
			}
		})
		e, err := Open(within(t), delaying(p.Addr, hour))
		if err != nil || !restarted.Load() {
			t.Fatalf("void: restarted: %v; %v", restarted.Load(), err)
		}
		defer e.Close()
		early(t, e.(*Engine))
		early(t, open(t, delaying(empty.Addr, hour)))
	})
}

// TestTheDelayBeginsWithTheStart: INFO tells the time since then in whole seconds of
// the clock, so a server that is up for a moment may say one second.
func TestTheDelayBeginsWithTheStart(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	e := open(t, delaying(r.Addr, delayed))
	time.Sleep(time.Until(time.Now().Add(200 * time.Millisecond).Truncate(time.Second).Add(800 * time.Millisecond)))
	before := time.Now()
	if err := r.Restart(true); err != nil {
		t.Fatal(err)
	}
	until(t, "a second does not pass", func() bool {
		s, err := r.Info("uptime_in_seconds")
		return err == nil && s != "0"
	})
	grants(t, e, ofAll("a", delayed))
	if took := time.Since(before); took < delayed {
		t.Errorf("it granted %v after its start", took)
	}
}

// TestWhoAsksOfARestartedServerIsToldWhen: it is not taken for a lock that is held.
func TestWhoAsksOfARestartedServerIsToldWhen(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	client := func(delay time.Duration) *leasehold.Client {
		t.Helper()
		locks, err := leasehold.New(open(t, delaying(r.Addr, delay)), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { locks.Close() })
		return locks
	}
	then := time.Now().Add(time.Hour) // or a little earlier; the server adds a hundredth of it, so it may be later too
	_, err := client(time.Hour).With(leasehold.LockOptions{Wait: 2 * time.Second}).Lock(t.Context(), "a")
	says := false
	for _, off := range []time.Duration{-time.Minute, 0, time.Minute} {
		says = says || err != nil && strings.Contains(err.Error(), "does not grant until "+then.Add(off).Format("15:"))
	}
	if !errors.Is(err, leasehold.ErrUnavailable) || errors.Is(err, leasehold.ErrHeld) || !says {
		t.Errorf("Lock: %v", err)
	}
	locks := client(delayed)
	l, err := locks.Lock(within(t), "a")
	if err != nil {
		t.Fatal(err)
	}
	if left := l.Remaining(); left > delayed {
		t.Errorf("it is trusted for %v, longer than the server takes to forget", left)
	}
	if err := r.Restart(true); err != nil {
		t.Fatal(err)
	}
	// It cannot be extended, and ends when its TTL has passed and not later.
	<-l.Context().Done()
	if err := l.Unlock(); !errors.Is(err, leasehold.ErrLost) {
		t.Errorf("Unlock: %v", err)
	}
}

// TestLongerThanTheDelayIsRefused: what was granted for longer would still stand when
// a server grants again.
func TestLongerThanTheDelayIsRefused(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	own := open(t, delaying(r.Addr, delayed))
	e := checked.New(own)
	if _, err := e.Join(within(t), ofAll("a", delayed+1)); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("Join: %v", err)
	}
	c := grants(t, own, ofAll("a", delayed))
	if cs, err := e.Renew(within(t), []engine.Renewal{{Name: "a", ID: c.ID, Want: delayed + 1}}); !errors.Is(err, engine.ErrRefused) {
		t.Errorf("Renew: %v %v", cs, err)
	}
	for _, bad := range []string{"999ms", "25h", "-1s", "soon", "on"} {
		if e, err := Open(within(t), "redis://"+r.Addr+"?restart-delay="+bad); err == nil {
			e.Close()
			t.Errorf("restart-delay=%s is accepted", bad)
		} else if !strings.Contains(err.Error(), "restart-delay") {
			t.Errorf("restart-delay=%s: %v", bad, err)
		}
	}
}

// TestDelayedConformance runs the suite where every script is guarded. The server
// syncs every write, so that its restarts are no matter.
func TestDelayedConformance(t *testing.T) {
	redistest.AnotherForm(t)
	t.Setenv("LEASEHOLD_GUARANTEES", "") // it is the row of queuelock
	r := redis(t, &servers.RedisOptions{Durable: true})
	url := delaying(r.Addr, engine.MaxTTL)
	open(t, url) // leaves the mark
	if err := r.Restart(false); err != nil {
		t.Fatal(err)
	}
	h := kit.Harness("-restart-delay")
	h.Committed = ""
	h.New = func(t testing.TB) engine.Engine { return kit.Opened(t, url) }
	h.Restart = func(t testing.TB) {
		if err := r.Restart(false); err != nil {
			t.Fatal(err)
		}
	}
	h.Forget = func(t testing.TB) {
		mark := do(t, r, "HGETALL", "leasehold:run").([]any)
		do(t, r, "FLUSHALL")
		do(t, r, "HSET", "leasehold:run", mark[0].(string), mark[1].(string), mark[2].(string), mark[3].(string))
	}
	enginetest.Run(t, h)
}

func TestGroupsAreGuarded(t *testing.T) {
	t.Parallel()
	r := redis(t, nil)
	p := servers.ProxyTo(t, r.Addr)
	e := open(t, delaying(p.Addr, delayed))
	e.groups.Many = 1
	grants(t, e, ofAll("first", delayed))
	p.Forget()
	var held atomic.Int32
	const callers, turns = 64, 10
	atOnce(callers, func(i int) {
		for range turns {
			c, err := e.Join(within(t), ofAll("name "+itoa(i), delayed))
			if err != nil || c.State != engine.Held {
				t.Errorf("%+v %v", c, err)
				return
			}
			if cs, err := e.Leave(within(t), []engine.Claim{c}); err != nil || cs[0].State != engine.Held {
				t.Errorf("%+v %v", cs, err)
				return
			}
			held.Add(1)
		}
	})
	if n := p.Commands()["EVALSHA"]; held.Load() != callers*turns || n >= 2*callers*turns {
		t.Errorf("%d of %d, in %d requests", held.Load(), callers*turns, n)
	}
}

// TestBehindSentinelARestartIsDelayedToo: a primary that is back before Sentinel has
// missed it has forgotten all the same, and its replica forgets with it.
func TestBehindSentinelARestartIsDelayedToo(t *testing.T) {
	t.Parallel()
	for _, protected := range []bool{true, false} {
		s := servers.Sentinel(t, nil)
		s.Patient(t, time.Minute)
		url := sentinelURL(s)
		if protected {
			url += "?restart-delay=" + manyDelayed.String()
		}
		twice(t, protected, url, func() error {
			p, err := s.Primary()
			if err != nil {
				return err
			}
			return p.Restart(true)
		})
	}
}

// TestBehindSentinelWhatWasKeptIsDelayedToo: that this server has kept all it wrote does
// not say that it is the one that granted last.
func TestBehindSentinelWhatWasKeptIsDelayedToo(t *testing.T) {
	t.Parallel()
	s := servers.Sentinel(t, &servers.RedisOptions{Durable: true})
	s.Patient(t, time.Minute)
	url := sentinelURL(s) + "?restart-delay=1h"
	open(t, url) // looks at the run before
	p, err := s.Primary()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Restart(false); err != nil {
		t.Fatal(err)
	}
	e := open(t, url)
	var c engine.Claim
	err = answers(t, func() (err error) { c, err = e.Join(within(t), ofAll("a", time.Second)); return err })
	if err == nil || errors.Is(err, engine.ErrRefused) {
		t.Errorf("it grants: %+v %v", c, err)
	}
}

func TestOnAClusterARestartIsDelayedToo(t *testing.T) {
	t.Parallel()
	for _, protected := range []bool{true, false} {
		c := servers.RedisCluster(t, nil)
		c.Patient(t, time.Minute)
		url := clusterURL(c)
		if protected {
			url += "?restart-delay=" + manyDelayed.String()
			eachNodeByItself(t, url, c)
		}
		twice(t, protected, url, func() error {
			for _, n := range c.Nodes[:3] {
				if err := n.Restart(true); err != nil {
					return err
				}
				c.Patient(t, time.Minute)
			}
			return nil
		})
	}
}

// eachNodeByItself: if the run of one node were taken for that of another, the other
// would refuse what is asked in its name, and each call had to be made twice.
func eachNodeByItself(t *testing.T, url string, c *servers.ClusterSetup) {
	t.Helper()
	e := open(t, url)
	for i := range 20 {
		grants(t, e, ofAll("name "+itoa(i), manyDelayed))
	}
	for _, n := range c.Nodes[:3] {
		calls, err := n.Do("INFO", "commandstats")
		if err != nil || !strings.Contains(calls.(string), "cmdstat_evalsha") {
			t.Fatalf("void: a node was asked nothing: %v", err)
		}
		if errs, err := n.Do("INFO", "errorstats"); err != nil || strings.Contains(errs.(string), "errorstat_RESTARTED") {
			t.Errorf("a node that was not restarted has refused calls: %v %v", errs, err)
		}
	}
}

// manyDelayed is much longer than the primaries of a Cluster take to come up, which
// serve nothing for two seconds then.
const manyDelayed = 10 * time.Second

func twice(t *testing.T, protected bool, url string, restart func() error) {
	t.Helper()
	ttl := holdFor(protected, manyDelayed)
	a, b := open(t, url), open(t, url)
	grants(t, b, ofAll("other", ttl))
	began := time.Now()
	if first := grants(t, a, ofAll("a", ttl)); first.State != engine.Held {
		t.Fatalf("void: the first claim is %+v", first)
	}
	if protected {
		grants(t, b, ofAll("c", ttl))
	}
	if err := restart(); err != nil {
		t.Fatal(err)
	}
	var second engine.Claim
	err := answers(t, func() (err error) {
		second, err = b.Join(within(t), ofAll("a", ttl))
		return err
	})
	if left := time.Until(began.Add(ttl)); left <= 0 {
		t.Fatalf("void: the hold was over %v before the answer", -left)
	}
	if two := err == nil && second.State == engine.Held; two == protected {
		t.Errorf("restart-delay %v: the second claim is %+v %v", protected, second, err)
	}
}
