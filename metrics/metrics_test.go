package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/internal/door"
	"leasehold/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newMetrics(t *testing.T, o metrics.Options) *metrics.Metrics {
	t.Helper()
	m, err := metrics.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func client(t *testing.T, m *metrics.Metrics, e engine.Engine, o *leasehold.Options) *leasehold.Client {
	t.Helper()
	c, err := m.Client(e, "memory", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// values are all values by "name label label", with counts of histograms.
func values(m *metrics.Metrics) map[string]float64 {
	all := map[string]float64{}
	for v := range m.All() {
		key := v.Metric.Name + " " + strings.Join(v.Labels, " ")
		if d := v.Distribution; d != nil {
			all[key] = float64(d.Count)
			all[key+" sum"] = d.Sum.Seconds()
			continue
		}
		all[key] = v.Number
	}
	return all
}

// inBubble has a Client take its time from the bubble of synctest.
func inBubble(e engine.Engine) engine.Engine {
	start := time.Now()
	return &door.Engine{Engine: e, Clock: func() time.Duration { return time.Since(start) + time.Hour }}
}

// silent is an engine whose renewals fail from when it is told so.
type silent struct {
	engine.Engine
	fails atomic.Bool
}

func (s *silent) Renew(ctx context.Context, r []engine.Renewal) ([]engine.Claim, error) {
	if s.fails.Load() {
		return nil, errors.New("no answer")
	}
	return s.Engine.Renew(ctx, r)
}

func TestWhatClientsDoIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Options{})
		e := &silent{Engine: memlock.New()}
		var events atomic.Int64
		c := client(t, m, inBubble(e), &leasehold.Options{TTL: 4 * time.Second, NoLocalHandoff: true, DeadlockAfter: 100 * time.Millisecond, Observer: func(leasehold.Event) { events.Add(1) }})
		ctx := t.Context()
		x, err := c.Lock(ctx, "x")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.TryLock(ctx, "x"); !errors.Is(err, leasehold.ErrHeld) {
			t.Fatal(err)
		}
		waits := make(chan error)
		canceled, cancel := context.WithCancel(ctx)
		go func() { _, err := c.Lock(canceled, "x"); waits <- err }()
		time.Sleep(time.Second)
		if got := values(m); got["leasehold.held memory"] != 1 || got["leasehold.waiting memory"] != 1 || got["leasehold.trust memory"] < 0.5 || got["leasehold.engine.up memory"] != 1 {
			t.Errorf("got %v, want a lease, a call that waits, trust above a half, and an engine that is up", got)
		}
		cancel()
		if err := <-waits; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := x.Unlock(); err != nil {
			t.Fatal(err)
		}
		// Two callers in a circle.
		a, _ := c.Lock(ctx, "a")
		b, _ := c.Lock(ctx, "b")
		go func() {
			l, err := c.Lock(a.Context(), "b")
			if err == nil {
				err = l.Unlock()
			}
			waits <- errors.Join(err, a.Unlock())
		}()
		l, err := c.Lock(b.Context(), "a")
		if err == nil {
			err = l.Unlock()
		}
		if err = errors.Join(err, b.Unlock(), <-waits); !errors.Is(err, leasehold.ErrDeadlock) {
			t.Errorf("got %v, want a deadlock", err)
		}
		// An engine that answers no longer.
		y, err := c.Lock(ctx, "y")
		if err != nil {
			t.Fatal(err)
		}
		e.fails.Store(true)
		time.Sleep(3 * time.Second)
		if got := values(m); got["leasehold.engine.up memory"] != 0 || got["leasehold.trust memory"] >= 0.5 || got["leasehold.trust.remaining memory"] > 2 {
			t.Errorf("got %v of an engine that does not answer, want that, and less trust", got)
		}
		<-y.Context().Done()
		synctest.Wait()
		got := values(m)
		for key, want := range map[string]float64{
			"leasehold.granted memory claim": 5, "leasehold.granted memory handoff": 0,
			"leasehold.gave_up memory held": 1, "leasehold.gave_up memory canceled": 1, "leasehold.gave_up memory deadlock": 1,
			"leasehold.lost memory expired": 1, "leasehold.lost memory deleted": 0,
			"leasehold.deadlocks memory": 1, "leasehold.engine.outages memory": 1, "leasehold.held memory": 0,
			"leasehold.wait.duration memory held": 5, "leasehold.wait.duration memory gave_up": 3, "leasehold.hold.duration memory": 5,
		} {
			if have, is := got[key]; have != want || !is {
				t.Errorf("%s is %v, want %v", key, have, want)
			}
		}
		if sum := got["leasehold.wait.duration memory gave_up sum"]; sum < 1 || sum > 2 {
			t.Errorf("three calls waited %v s until they gave up, want the second of one and the search of another", sum)
		}
		if got["leasehold.engine.failed_calls memory"] < 1 || events.Load() == 0 {
			t.Errorf("%v calls failed, and the program's own observer got %d events", got["leasehold.engine.failed_calls memory"], events.Load())
		}
		failed := got["leasehold.engine.failed_calls memory"]
		if err := c.Close(); err != nil && !errors.Is(err, leasehold.ErrUnavailable) {
			t.Error(err)
		}
		got = values(m)
		if _, is := got["leasehold.engine.up memory"]; is || got["leasehold.engine.failed_calls memory"] < failed || got["leasehold.granted memory claim"] != 5 {
			t.Errorf("got %v after Close: counters must not fall, and nobody knows whether the engine is up", got)
		}
	})
}

// 100,000 names make no more series than one, and folded ones no more than MaxNames.
func TestHostileNamesMakeNoSeries(t *testing.T) {
	series := func(m *metrics.Metrics) (n int) {
		for v := range m.All() {
			n++
			if v.Distribution != nil {
				n += len(v.Distribution.Counts) + 2 - 1 // buckets, sum and count, as Prometheus has them
			}
		}
		return n
	}
	alone, folded := newMetrics(t, metrics.Options{}), newMetrics(t, metrics.Options{NameOf: func(name string) string { return name }, MaxNames: 3})
	for _, m := range []*metrics.Metrics{alone, folded} {
		c := client(t, m, memlock.New(), nil)
		for i := range 100_000 {
			l, err := c.Lock(t.Context(), fmt.Sprint("n", i))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		l, err := c.Lock(t.Context(), "open") // the gauges of trust too
		if err != nil {
			t.Fatal(err)
		}
		defer l.Unlock()
	}
	if n := series(alone); n > 50 {
		t.Errorf("%d series without names, want 50 at most", n)
	}
	var names []string
	var all float64
	for v := range folded.All() {
		if v.Metric.Name == "leasehold.granted" && v.Labels[1] == "claim" {
			names = append(names, v.Labels[2])
			all += v.Number
		}
	}
	if want := []string{"n0", "n1", "n2", metrics.OtherName}; !slices.Equal(names, want) || all != 100_001 {
		t.Errorf("the names are %q with %v leases, want %q with all 100,001", names, all, want)
	}
}

// Several clients of one engine are one sum, and the worst trust.
func TestClientsOfOneEngineAreAdded(t *testing.T) {
	m := newMetrics(t, metrics.Options{})
	store := memlock.New()
	long := client(t, m, store, &leasehold.Options{TTL: time.Hour})
	short := client(t, m, memlock.New(), &leasehold.Options{TTL: time.Minute})
	for _, c := range []*leasehold.Client{long, short} {
		l, err := c.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Unlock()
	}
	if got := values(m); got["leasehold.held memory"] != 2 || got["leasehold.trust.remaining memory"] > 60 {
		t.Errorf("got %v, want two leases, and the trust of the shorter one", got)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	for _, o := range []metrics.Options{{Bounds: []time.Duration{time.Second, time.Second}}, {Bounds: []time.Duration{0}}, {MaxNames: -1}} {
		if _, err := metrics.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	// Prometheus refuses a label that is not UTF-8: with a panic, at the first scrape.
	for _, name := range []string{"", "redis \xe4"} {
		if _, err := newMetrics(t, metrics.Options{}).Client(memlock.New(), name, nil); err == nil {
			t.Errorf("an engine with the name %q is taken", name)
		}
	}
}

// A cause says why the caller ended its call, and hides that it did. A deadline has its own
// cause as well, and the name was held all the same.
func TestACallThatItsCallerEndsIsCanceledWhateverItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Options{})
		c := client(t, m, inBubble(memlock.New()), &leasehold.Options{NoLocalHandoff: true})
		x, err := c.Lock(t.Context(), "x")
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("terminated signal received")
		canceled, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		expires, stop := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer stop()
		for _, ctx := range []context.Context{canceled, expires} {
			waits := make(chan error)
			go func() { _, err := c.Lock(ctx, "x"); waits <- err }()
			synctest.Wait()
			if ctx == canceled {
				cancel(cause)
			}
			if err := <-waits; !errors.Is(err, cause) {
				t.Fatal(err)
			}
		}
		// A Client that is closed under a call is another reason.
		closed := make(chan error)
		go func() { _, err := c.Lock(t.Context(), "x"); closed <- err }()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-closed; !errors.Is(err, leasehold.ErrClosed) {
			t.Error(err)
		}
		_ = x.Unlock() // it was closed
		got := values(m)
		for reason, want := range map[string]float64{"canceled": 1, "held": 1, "other": 1} {
			if have := got["leasehold.gave_up memory "+reason]; have != want {
				t.Errorf("%v calls gave up as %s, want %v", have, reason, want)
			}
		}
	})
}

// A bucket has what is at its bound, as Prometheus has it.
func TestABoundBelongsToItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMetrics(t, metrics.Options{Bounds: []time.Duration{time.Second, 2 * time.Second}})
		c := client(t, m, inBubble(memlock.New()), nil)
		for _, d := range []time.Duration{time.Second, time.Second + 1, 3 * time.Second} {
			l, err := c.Lock(t.Context(), "x")
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(d)
			if err := l.Unlock(); err != nil {
				t.Fatal(err)
			}
		}
		for v := range m.All() {
			if v.Metric.Name == "leasehold.hold.duration" {
				if d := v.Distribution; !slices.Equal(d.Counts, []uint64{1, 1, 1}) || d.Count != 3 || d.Sum != 5*time.Second+1 {
					t.Errorf("got %+v, want one in each bucket", d)
				}
			}
		}
		c.Close()
	})
}

// What counting adds to a pair of Lock and Unlock that nobody contends. The two take turns
// in blocks that are short beside what else a machine does, and the best of each counts.
func BenchmarkPair(b *testing.B) {
	m, err := metrics.New(metrics.Options{})
	if err != nil {
		b.Fatal(err)
	}
	plain, err1 := leasehold.New(memlock.New(), nil)
	counted, err2 := m.Client(memlock.New(), "memory", nil)
	if err := errors.Join(err1, err2); err != nil {
		b.Fatal(err)
	}
	defer plain.Close()
	defer counted.Close()
	const block = 20
	pairs := func(c *leasehold.Client) time.Duration {
		start := time.Now()
		for range block {
			l, err := c.Lock(b.Context(), "x")
			if err == nil {
				err = l.Unlock()
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		return time.Since(start)
	}
	best := [2]time.Duration{time.Hour, time.Hour}
	for b.Loop() {
		best[0], best[1] = min(best[0], pairs(plain)), min(best[1], pairs(counted))
	}
	b.ReportMetric(float64(best[0])/block, "ns/plain")
	b.ReportMetric(float64(best[1])/block, "ns/counted")
}
