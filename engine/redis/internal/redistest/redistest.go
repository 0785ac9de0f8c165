// Package redistest is what the tests of this module share.
package redistest

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"leasehold/engine"
	"leasehold/engine/enginetest"
	"leasehold/engine/internal/testutil"
	"leasehold/lab/servers"
)

// Background is what rueidis does that ends by itself: a Cluster client's look at
// the topology sleeps up to a second, the closing of nodes that left up to five,
// whether or not the client lives.
var Background = []string{
	"github.com/redis/rueidis.(*call).DelayDo.func1",
	"github.com/redis/rueidis.(*clusterClient)._refresh.func2",
}

// Ignored are the options of goleak for [Background], made by goleak.IgnoreAnyFunction:
// goleak stays a dependency of tests alone.
func Ignored[O any](ignore func(string) O) (all []O) {
	for _, f := range Background {
		all = append(all, ignore(f))
	}
	return all
}

// What tests of all engines share.
var (
	Within, Until = testutil.Within, testutil.Until
	Join, Leave   = testutil.Join, testutil.Leave
	Watch, Expect = testutil.Watch, testutil.Expect
)

// Renew renews a claim, or asks once more for one that waits without order.
func Renew(t testing.TB, e engine.Engine, c engine.Claim, ttl time.Duration) engine.Claim {
	t.Helper()
	if c.State == engine.Waiting && e.Guarantees().Order == engine.OrderNone {
		return testutil.Again(t, e, c, ttl)
	}
	return testutil.Renew(t, e, c, ttl)
}

// WaitTTL is that of Exclusive: what a test needs held must not be over because its
// machine had something else to do for a while.
const WaitTTL = 20 * time.Second

// Exclusive asks for a lock.
func Exclusive(name string) engine.Request { return testutil.Lasting(name, WaitTTL) }

// Connect is a plain client of one server, for tests that need no URL.
func Connect(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// CountCalls adds up all calls in INFO commandstats, those inside scripts too, without
// what rueidis says of itself when it opens a further connection or keeps one alive.
func CountCalls(stats string) (n int64) {
	for l := range strings.Lines(stats) {
		name, _, _ := strings.Cut(l, ":")
		switch name {
		case "cmdstat_ping", "cmdstat_hello", "cmdstat_client|setinfo":
			continue
		}
		if _, rest, ok := strings.Cut(l, "calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			k, _ := strconv.ParseInt(calls, 10, 64)
			n += k
		}
	}
	return n
}

// Ended is the error a channel tells, unless nothing does.
func Ended(t testing.TB, c <-chan error) error {
	t.Helper()
	select {
	case err := <-c:
		return err
	case <-time.After(testutil.Patience):
		t.Fatal("it hangs")
		return nil
	}
}

// AtOnce calls f so many times at the same time.
func AtOnce(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// Eventually repeats a call as the core would, until it learns something.
func Eventually(t testing.TB, f func(context.Context) (engine.Claim, error)) (c engine.Claim, err error) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		c, err = f(ctx)
		cancel()
		if err == nil || errors.Is(err, engine.ErrRefused) {
			return c, err
		}
		time.Sleep(50 * time.Millisecond)
	}
	return c, err
}

// Rounds plays a round, and twice more at most if it is void: it needs a server that is silent
// and not yet given up for that, and the machine was late.
func Rounds(t *testing.T, round func(t *testing.T) (void bool)) {
	t.Helper()
	for n := 1; ; n++ {
		void := false
		t.Run("round "+strconv.Itoa(n), func(t *testing.T) { void = round(t) })
		if !void {
			return
		}
		if n == 3 {
			t.Fatalf("each of %d rounds is void: a silent server may have been given up", n)
		}
	}
}

// GivenUp reports whether a server that is silent since then may have been given up: rueidis
// does that five seconds after, at the earliest.
func GivenUp(silent time.Time) bool { return time.Since(silent) > 4*time.Second }

// Lasting counts keys that do not go by themselves within a day.
func (k Kit) Lasting(t testing.TB, r *servers.RedisServer) (n int) {
	t.Helper()
	v, err := r.Do("KEYS", "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range v.([]any) {
		v, err := r.Do("TTL", key.(string))
		if err != nil {
			t.Fatal(err)
		}
		if ttl := v.(int64); (ttl == -1 || ttl > 24*3600) && (k.Stays == "" || !strings.HasPrefix(key.(string), k.Stays)) {
			n++
		}
	}
	return n
}

// Kit is what a test of the shared kind needs of an engine.
type Kit struct {
	Name    string
	Open    func(ctx context.Context, url string) (engine.Engine, error)
	Kill    func(engine.Engine) // as the death of its process would
	Scripts []string            // all their texts
	Polls   bool
	Keys    func(name string) []string // that a name has, or may have
	Stays   string                     // begins the keys that a layout of others keeps for ever, if any
}

// Opened opens a URL for the length of a test.
func (k Kit) Opened(t testing.TB, url string) engine.Engine {
	t.Helper()
	e, err := k.Open(Within(t), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// teach loads every script, so that no test's one lost answer is the one that
// says the script is unknown.
func (k Kit) teach(t testing.TB, r *servers.RedisServer) {
	t.Helper()
	for _, text := range k.Scripts {
		if _, err := r.Do("SCRIPT", "LOAD", text); err != nil {
			t.Fatal(err)
		}
	}
}

// Harness is what all deployments have.
func (k Kit) Harness(suffix string) enginetest.Harness {
	return enginetest.Harness{
		Name: k.Name + suffix, Committed: "../../../docs/guarantees", Polls: k.Polls,
		Kill: func(_ testing.TB, e engine.Engine) { k.Kill(e) },
	}
}

// Conformance runs the suite on engines behind a proxy each, on one server.
func (k Kit) Conformance(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{Durable: true})
	var mu sync.Mutex
	proxies := map[engine.Engine]*servers.Proxy{}
	h := k.Harness("")
	h.SideBySide = true
	h.New = func(t testing.TB) engine.Engine {
		k.teach(t, r)
		p := servers.ProxyTo(t, r.Addr)
		e := k.Opened(t, "redis://"+p.Addr)
		mu.Lock()
		defer mu.Unlock()
		proxies[e] = p
		return e
	}
	h.Restart = func(t testing.TB) {
		if err := r.Restart(false); err != nil {
			t.Fatal(err)
		}
		k.teach(t, r)
	}
	h.Forget = func(t testing.TB) { Do(t, r, "FLUSHALL") }
	h.LoseReply = func(_ testing.TB, e engine.Engine) func() bool {
		mu.Lock()
		defer mu.Unlock()
		p := proxies[e]
		p.LoseReply("EVALSHA", "EVAL")
		return func() bool { return p.Lost() > 0 }
	}
	h.CountKeys = func(t testing.TB) int { return k.Lasting(t, r) }
	h.RefuseConnections = func(testing.TB) (restore func()) {
		refuse := func(on bool) {
			mu.Lock()
			defer mu.Unlock()
			for _, p := range proxies {
				p.Refuse(on)
			}
		}
		refuse(true)
		return func() { refuse(false) }
	}
	h.CountRequests = func(t testing.TB) int { return int(CountCalls(Do(t, r, "INFO", "commandstats").(string))) }
	if k.Keys != nil {
		h.Spoil = map[string]func(t testing.TB, name string){}
		for _, put := range Wrong {
			h.Spoil[strings.Join(put, " ")] = func(t testing.TB, name string) {
				for _, key := range k.Keys(name) {
					args := slices.Clone(put)
					args[1] = key
					Do(t, r, "DEL", key)
					Do(t, r, args...)
					t.Cleanup(func() { r.Do("DEL", key) })
				}
			}
		}
		h.Beside = k.Keys
	}
	enginetest.Run(t, h)
}

// ConformanceSentinel runs the suite on a primary that Sentinel names.
func (k Kit) ConformanceSentinel(t *testing.T) {
	AnotherForm(t)
	t.Parallel()
	s := servers.Sentinel(t, nil)
	s.Patient(t, time.Minute)
	primary := func(t testing.TB) *servers.RedisServer {
		p, err := s.Primary()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	h := k.Harness("-sentinel")
	h.New = func(t testing.TB) engine.Engine { return k.Opened(t, SentinelURL(s)) }
	h.Forget = func(t testing.TB) { Do(t, primary(t), "FLUSHALL") }
	h.CountKeys = func(t testing.TB) int { return k.Lasting(t, primary(t)) }
	enginetest.Run(t, h)
}

// ConformanceCluster runs the suite on a Cluster of three primaries.
func (k Kit) ConformanceCluster(t *testing.T) {
	AnotherForm(t)
	t.Parallel()
	c := servers.RedisCluster(t, nil)
	c.Patient(t, time.Minute)
	h := k.Harness("-cluster")
	h.New = func(t testing.TB) engine.Engine { return k.Opened(t, ClusterURL(c)) }
	h.Forget = func(t testing.TB) {
		for _, n := range c.Nodes[:3] {
			Do(t, n, "FLUSHALL")
		}
	}
	h.CountKeys = func(t testing.TB) (n int) {
		for _, node := range c.Nodes[:3] {
			n += k.Lasting(t, node)
		}
		return n
	}
	enginetest.Run(t, h)
}

// AnotherForm skips with -short: the test repeats on another deployment or layout what
// one runs in the short form as well.
func AnotherForm(t testing.TB) {
	t.Helper()
	if testing.Short() {
		servers.LeftOut(t, "it is another form of what ran already")
	}
}

// SentinelURL names the primary of a Sentinel.
func SentinelURL(s *servers.SentinelSetup) string {
	return "redis-sentinel://" + strings.Join(s.Addrs(), ",") + "/" + s.Master
}

// ClusterURL names a Cluster.
func ClusterURL(c *servers.ClusterSetup) string {
	return "redis-cluster://" + strings.Join(c.Addrs()[:2], ",")
}

// Do is one command that must not fail.
func Do(t testing.TB, r *servers.RedisServer, args ...string) any {
	t.Helper()
	v, err := r.Do(args...)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return v
}

// ForeignData finds data of every type where a lock would be, at the key of a
// name, and leaves it alone.
func (k Kit) ForeignData(t *testing.T, keyOf func(e engine.Engine, name string) string, ours ...string) {
	r := servers.Redis(t, nil)
	e := k.Opened(t, "redis://"+r.Addr)
	put := map[string][]string{
		"string": {"SET", "?", "v"}, "list": {"RPUSH", "?", "v"}, "set": {"SADD", "?", "v"},
		"zset": {"ZADD", "?", "1", "v"}, "hash": {"HSET", "?", "f", "v"}, "hash with m": {"HSET", "?", "m", "Snow"},
		"stream": {"XADD", "?", "1-1", "f", "v"},
	}
	for kind, args := range put {
		if slices.Contains(ours, kind) {
			continue // that is a lock
		}
		key := keyOf(e, kind)
		args[1] = key
		Do(t, r, args...)
		before := Do(t, r, "DUMP", key)
		if c, err := e.Join(Within(t), Exclusive(kind)); err == nil || !strings.Contains(err.Error(), "not leasehold's") {
			t.Errorf("on a %s: Join: %+v %v", kind, c, err)
		}
		id := engine.NewID()
		if cs, err := e.Renew(Within(t), []engine.Renewal{{Name: kind, ID: id, Want: time.Second}}); err != nil || cs[0].State != engine.Gone {
			t.Errorf("on a %s: Renew: %v %v", kind, cs, err)
		}
		if cs, err := e.Leave(Within(t), []engine.Claim{{Name: kind, ID: id}}); err != nil || cs[0].State != engine.Gone {
			t.Errorf("on a %s: Leave: %v %v", kind, cs, err)
		}
		if err := e.Revoke(Within(t), kind, 1, true); err == nil {
			t.Errorf("on a %s: Revoke worked", kind)
		}
		if _, err := e.Queue(Within(t), kind); err == nil || !strings.Contains(err.Error(), "not leasehold's") {
			t.Errorf("on a %s: Line: %v", kind, err)
		}
		for l, err := range e.Queues(Within(t), "") {
			if err != nil || l.Name == kind {
				t.Errorf("on a %s: Lines: %+v %v", kind, l, err)
			}
		}
		if after := Do(t, r, "DUMP", key); after != before {
			t.Errorf("on a %s: it was changed", kind)
		}
		if ttl := Do(t, r, "TTL", key).(int64); ttl != -1 {
			t.Errorf("on a %s: it was given an expiry", kind)
		}
		Do(t, r, "DEL", key)
	}
}

// Documented says that the package documentation has these rules of an ACL, word for
// word.
func Documented(t testing.TB, rules string) {
	t.Helper()
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(strings.Fields(strings.ReplaceAll(string(doc), "//", " ")), " "); !strings.Contains(text, rules) {
		t.Errorf("the documentation does not have the tested rules %q", rules)
	}
}

// WhoCannotBeNotifiedIsRefused: scripts would go on as if nothing were wrong, and every wait
// would last until somebody looks.
func (k Kit) WhoCannotBeNotifiedIsRefused(t *testing.T) {
	r := servers.Redis(t, nil)
	for name, rules := range map[string]string{
		"who may not subscribe":             "~* &* +@all -subscribe",
		"who may not publish":               "~* &* +@all -publish",
		"who may not listen to its channel": "~* resetchannels &other:* +@all",
	} {
		t.Run(name, func(t *testing.T) {
			Do(t, r, append([]string{"ACL", "SETUSER", "deaf", "reset", "on", ">p"}, strings.Fields(rules)...)...)
			_, err := k.Open(Within(t), "redis://deaf:p@"+r.Addr)
			if !errors.Is(err, engine.ErrRefused) || !strings.Contains(err.Error(), "could notify no waiter") || !strings.Contains(err.Error(), "ACL") {
				t.Errorf("Open: %v", err)
			}
		})
	}
}
