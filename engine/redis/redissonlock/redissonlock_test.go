package redissonlock

import (
	"context"
	"strings"
	"testing"
	"time"

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
	join, leave, renew, do     = redistest.Join, redistest.Leave, redistest.Renew, redistest.Do
	watch, expect, until       = redistest.Watch, redistest.Expect, redistest.Until
)

// of is the kit of one kind of lock. The kit opens Redis' URLs.
func of(k Kind, name string) redistest.Kit {
	return redistest.Kit{
		Name: name,
		Open: func(ctx context.Context, url string) (engine.Engine, error) {
			return Open(ctx, "redisson"+strings.TrimPrefix(url, "redis")+"?kind="+string(k))
		},
		Kill:    func(e engine.Engine) { e.(*Engine).wire.Close() },
		Scripts: texts(k),
		Keys: func(name string) []string {
			return []string{name, redisconn.KeyBeside(beside, name), counter + "{" + name + "}"}
		},
		Stays: "redisson_lock_token:", // Redisson's counters have no expiry: see the package documentation
	}
}

func texts(k Kind) (all []string) {
	s := newScripts(k)
	for _, one := range []*redisconn.Script{s.join, s.leave, s.renew, s.revoke, s.read} {
		all = append(all, one.Text())
	}
	return all
}

var (
	locks     = of(Lock, "redissonlock")
	readWrite = of(ReadWrite, "redissonlock-readwrite")
	fenced    = of(Fenced, "redissonlock-fenced")
)

func TestConformance(t *testing.T)          { locks.Conformance(t) }
func TestConformanceReadWrite(t *testing.T) { readWrite.Conformance(t) }
func TestConformanceSentinel(t *testing.T)  { locks.ConformanceSentinel(t) }
func TestConformanceCluster(t *testing.T)   { locks.ConformanceCluster(t) }

func TestConformanceFenced(t *testing.T) {
	redistest.AnotherForm(t)
	fenced.Conformance(t)
}

func TestForeignDataIsNotTouched(t *testing.T) {
	locks.ForeignData(t, func(_ engine.Engine, name string) string { return name })
}

// TestTLS: the certificate is verified, and both connections are protected.
func TestTLS(t *testing.T) {
	t.Parallel()
	r := servers.Redis(t, &servers.RedisOptions{TLS: true, Password: "secret"})
	opens := func(ca string) (engine.Engine, error) {
		return Open(within(t), "redissons://:secret@"+r.TLSAddr+"?ca="+ca)
	}
	a, err := opens(r.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := opens(r.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	received := watch(t, b)
	first, second := join(t, a, exclusive("x")), join(t, b, exclusive("x"))
	mine := func(c engine.Claim) bool { return c.ID == second.ID }
	expect(t, received, mine)
	drain(received)
	leave(t, a, first)
	expect(t, received, mine)
	if second = renew(t, b, second, time.Second); second.State != engine.Held {
		t.Errorf("told, and renewed as %+v", second)
	}
	for url, want := range map[string]string{
		"redissons://:secret@" + r.TLSAddr:                    "certificate",
		"redissons://:wrong@" + r.TLSAddr + "?ca=" + r.CAFile: "password",
	} {
		e, err := Open(within(t), url)
		if err == nil {
			e.Close()
			t.Errorf("%s is opened", url)
		} else if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %q", url, err, want)
		}
	}
}
