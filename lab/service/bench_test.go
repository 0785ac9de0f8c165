package service_test

import (
	"slices"
	"testing"
	"time"

	"leasehold"
	"leasehold/engine"
	"leasehold/engines"
	"leasehold/internal/boottime"
	"leasehold/lab/servers"
)

// What the way through the service adds, on the same store, in turns: a pair of Lock and
// Unlock, and a hand-over from one client to another. Each reports medians.
//
//	go test -run - -bench . -benchtime 2000x ./lab/service
func BenchmarkAdded(b *testing.B) {
	for _, s := range []struct{ name, url string }{
		{"dir", "dir:" + b.TempDir()},
		{"redis", "redis://" + servers.Redis(b, nil).Addr},
		{"postgresql", servers.Postgres(b, nil).URL("", "")},
	} {
		p := start(b, s.url)
		direct := func() engine.Engine {
			e, err := engines.Open(b.Context(), s.url)
			if err != nil {
				b.Fatal(err)
			}
			return e
		}
		through := func() engine.Engine { return open(b, p.addr) }
		b.Run(s.name+"/pair", func(b *testing.B) { turns(b, direct, through, pair) })
		b.Run(s.name+"/hand-over", func(b *testing.B) { turns(b, direct, through, handOver) })
	}
}

// turns measures one way and the other, one after the other, b.N times.
func turns(b *testing.B, direct, through func() engine.Engine, measure func(b *testing.B, one, two *leasehold.Client) time.Duration) {
	client := func(eng engine.Engine) *leasehold.Client {
		c, err := leasehold.New(eng, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { c.Close() })
		return c
	}
	ways := [2][2]*leasehold.Client{{client(direct()), client(direct())}, {client(through()), client(through())}}
	var took [2][]time.Duration
	for range b.N {
		for i, way := range ways {
			took[i] = append(took[i], measure(b, way[0], way[1]))
		}
	}
	for i, what := range []string{"direct", "through"} {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2])/1e3, what+"-us/median")
	}
}

func pair(b *testing.B, one, _ *leasehold.Client) time.Duration {
	began := boottime.Now()
	l, err := one.Lock(b.Context(), "a")
	if err != nil {
		b.Fatal(err)
	}
	if err := l.Unlock(); err != nil {
		b.Fatal(err)
	}
	return boottime.Now() - began
}

// handOver is the time from the call of Unlock to the return of the next one's Lock.
func handOver(b *testing.B, one, two *leasehold.Client) time.Duration {
	first, err := one.Lock(b.Context(), "h")
	if err != nil {
		b.Fatal(err)
	}
	granted := make(chan time.Duration, 1)
	go func() {
		l, err := two.Lock(b.Context(), "h")
		granted <- boottime.Now()
		if err != nil {
			b.Error(err)
			return
		}
		l.Unlock()
	}()
	<-first.Contended()
	time.Sleep(time.Millisecond) // the waiter sleeps
	began := boottime.Now()
	if err := first.Unlock(); err != nil {
		b.Fatal(err)
	}
	return <-granted - began
}
