package redislock

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/internal/servers"
)

func TestMain(m *testing.M) {
	// A Cluster client's look at the topology sleeps up to a second, the
	// closing of nodes that left up to five, whether or not the client lives.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// connect is a plain client of one server, for tests that need no URL.
func connect(t testing.TB, addr string) rueidis.Client {
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

func newEngine(t testing.TB, addr string) *Engine {
	t.Helper()
	e, err := New(t.Context(), connect(t, addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// within bounds one call of a test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func exclusive(name string) engine.Request {
	return engine.Request{Name: name, ID: engine.NewID(), Units: engine.Max, Limit: engine.Max, WaitTTL: 3 * time.Second}
}

func join(t testing.TB, e engine.Engine, r engine.Request) engine.Claim {
	t.Helper()
	c, err := e.Join(within(t), r)
	if err != nil {
		t.Fatalf("Join: %v", err)
	}
	return c
}

func leave(t testing.TB, e engine.Engine, c engine.Claim) engine.State {
	t.Helper()
	cs, err := e.Leave(within(t), []engine.Claim{{Name: c.Name, ID: c.ID}})
	if err != nil || len(cs) != 1 {
		t.Fatalf("Leave: %v %v", cs, err)
	}
	return cs[0].State
}

func renew(t testing.TB, e engine.Engine, c engine.Claim, want time.Duration) engine.Claim {
	t.Helper()
	cs, err := e.Renew(within(t), []engine.Renewal{{Name: c.Name, ID: c.ID, Want: want}})
	if err != nil || len(cs) != 1 {
		t.Fatalf("Renew: %v %v", cs, err)
	}
	return cs[0]
}

// watch runs Watch for the length of a test and returns what it reports. The
// subscription stands when it returns.
func watch(t testing.TB, e engine.Engine) <-chan engine.Claim {
	t.Helper()
	heard := make(chan engine.Claim, 1000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		e.Watch(ctx, func(c engine.Claim) { heard <- c })
	}()
	t.Cleanup(func() { cancel(); <-done })
	expect(t, heard, func(c engine.Claim) bool { return c.Name == "" })
	return heard
}

// expect waits for a report.
func expect(t testing.TB, heard <-chan engine.Claim, is func(engine.Claim) bool) engine.Claim {
	t.Helper()
	timeout := time.After(20 * time.Second)
	for {
		select {
		case c := <-heard:
			if is(c) {
				return c
			}
		case <-timeout:
			t.Fatal("not heard in time")
		}
	}
}

func redis(t testing.TB, o *servers.RedisOptions) *servers.RedisServer {
	t.Helper()
	return servers.Redis(t, o)
}

// countCalls adds up all calls in INFO commandstats, those inside scripts too.
func countCalls(stats string) (n int64) {
	for l := range strings.Lines(stats) {
		if _, rest, ok := strings.Cut(l, "calls="); ok {
			calls, _, _ := strings.Cut(rest, ",")
			k, _ := strconv.ParseInt(calls, 10, 64)
			n += k
		}
	}
	return n
}

func itoa(n int) string { return strconv.Itoa(n) }

func toText(v any) string { return fmt.Sprint(v) }
