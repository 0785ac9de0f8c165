package queuelock

import (
	"fmt"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"leasehold/engine"
	"leasehold/engine/redis/internal/redisconn"
	"leasehold/engine/redis/internal/redistest"
	"leasehold/lab/servers"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, redistest.Ignored(goleak.IgnoreAnyFunction)...)
}

var (
	connect, within, exclusive = redistest.Connect, redistest.Within, redistest.Exclusive
	join, leave, renew         = redistest.Join, redistest.Leave, redistest.Renew
	watch, expect              = redistest.Watch, redistest.Expect
	until, ended, atOnce       = redistest.Until, redistest.Ended, redistest.AtOnce
	eventually, do             = redistest.Eventually, redistest.Do
	sentinelURL, clusterURL    = redistest.SentinelURL, redistest.ClusterURL
)

var kit = redistest.Kit{
	Name: "queuelock", Open: Open, Kill: func(e engine.Engine) { e.(*Engine).wire.Close() }, Scripts: texts(),
	Keys: func(name string) []string { return []string{(&Engine{prefix: "leasehold:"}).key(name)} },
}

func texts() (all []string) {
	s := newScripts(false)
	for _, one := range []*redisconn.Script{s.join, s.leave, s.renew, s.revoke, s.read} {
		all = append(all, one.Text())
	}
	return all
}

func TestConformance(t *testing.T)         { kit.Conformance(t) }
func TestConformanceSentinel(t *testing.T) { kit.ConformanceSentinel(t) }
func TestConformanceCluster(t *testing.T)  { kit.ConformanceCluster(t) }

func open(t testing.TB, url string) *Engine {
	t.Helper()
	return kit.Opened(t, url).(*Engine)
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

func redis(t testing.TB, o *servers.RedisOptions) *servers.RedisServer {
	t.Helper()
	return servers.Redis(t, o)
}

func TestForeignDataIsNotTouched(t *testing.T) {
	kit.ForeignData(t, func(e engine.Engine, name string) string { return e.(*Engine).key(name) })
}

func itoa(n int) string { return strconv.Itoa(n) }

func toText(v any) string { return fmt.Sprint(v) }
