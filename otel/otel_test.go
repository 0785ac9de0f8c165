package otel_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"leasehold"
	"leasehold/engine"
	"leasehold/engine/memlock"
	"leasehold/metrics"
	"leasehold/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a program with an SDK whose metrics and spans the test reads.
type seen struct {
	*otel.Telemetry
	t      *testing.T
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func see(t *testing.T, o metrics.Options) *seen {
	t.Helper()
	s := &seen{t: t, reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	s.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(s.spans))
	var err error
	s.Telemetry, err = otel.New(otel.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(s.reader)), TracerProvider: s.tracer, Metrics: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *seen) client(e engine.Engine, o *leasehold.Options) *leasehold.Client {
	s.t.Helper()
	c, err := s.Client(e, "memory", o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	return c
}

// metrics are the values that the SDK has, by "name{attributes}"; of histograms the count.
func (s *seen) metrics() map[string]float64 {
	s.t.Helper()
	var got metricdata.ResourceMetrics
	if err := s.reader.Collect(s.t.Context(), &got); err != nil {
		s.t.Fatal(err)
	}
	all := map[string]float64{}
	put := func(name string, set attribute.Set, v float64) {
		all[name+"{"+set.Encoded(attribute.DefaultEncoder())+"}"] = v
	}
	for _, scope := range got.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					put(m.Name, p.Attributes, float64(p.Count))
					put(m.Name+" sum", p.Attributes, p.Sum)
					for _, e := range p.Exemplars {
						put(m.Name+" in trace "+hex.EncodeToString(e.TraceID), p.Attributes, e.Value)
					}
				}
			}
		}
	}
	return all
}

// span waits for the n-th span of that name to end.
func (s *seen) span(name string, n int) trace.ReadOnlySpan {
	s.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var found []trace.ReadOnlySpan
		for _, span := range s.spans.Ended() {
			if span.Name() == name {
				found = append(found, span)
			}
		}
		if len(found) > n {
			return found[n]
		}
	}
	s.t.Fatalf("no span %q has ended", name)
	return nil
}

func attr(span trace.ReadOnlySpan, key string) string {
	for _, a := range span.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// waiting returns when the client has n calls that wait.
func waiting(t *testing.T, c *leasehold.Client, n int) {
	t.Helper()
	until(t, "nobody waits", func() bool { return c.Stats().Waiting == n })
}

func until(t *testing.T, why string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(why)
		}
	}
}

func TestACallThatWaitsHasASpanOfItsCaller(t *testing.T) {
	s := see(t, metrics.Options{})
	store := memlock.New()
	holder, err := leasehold.New(store, &leasehold.Options{Label: "holder"})
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	c := s.client(store, nil)
	first, err := holder.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	ctx, caller := s.tracer.Tracer("test").Start(t.Context(), "request")
	leases := make(chan *leasehold.Lease)
	go func() {
		l, err := c.Lock(ctx, "x")
		if err != nil {
			t.Error(err)
		}
		leases <- l
	}()
	waiting(t, c, 1)
	until(t, "it has not looked who holds", func() bool {
		for _, span := range s.spans.Started() {
			if span.Name() == "leasehold wait" && attr(span, "leasehold.holder") != "" {
				return true
			}
		}
		return false
	})
	if err := first.Unlock(); err != nil {
		t.Fatal(err)
	}
	l := <-leases
	got := s.span("leasehold wait", 0)
	if got.Parent().SpanID() != caller.SpanContext().SpanID() || got.Status().Code == codes.Error {
		t.Errorf("the span's parent is %v with status %v, want the caller's %v", got.Parent().SpanID(), got.Status(), caller.SpanContext().SpanID())
	}
	if attr(got, "leasehold.name") != "x" || attr(got, "leasehold.token") != l.Token().String() || attr(got, "leasehold.holder") == "" || attr(got, "leasehold.ahead") == "" || attr(got, "engine") != "memory" {
		t.Errorf("the span has %v, want the name, the token, who held it and how many waited", got.Attributes())
	}
	if link := otel.Link(l); link.SpanContext.SpanID() != caller.SpanContext().SpanID() {
		t.Errorf("the lease is linked to %v, want the caller's span", link.SpanContext.SpanID())
	}
	// What does not wait has no span.
	before := len(s.spans.Ended())
	y, err := c.Lock(ctx, "y")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryLock(ctx, "x"); !errors.Is(err, leasehold.ErrHeld) {
		t.Error(err)
	}
	if after := len(s.spans.Ended()); after != before {
		t.Errorf("%d spans of calls that did not wait", after-before)
	}
	if err := errors.Join(l.Unlock(), y.Unlock()); err != nil {
		t.Error(err)
	}
	caller.End()
	for _, key := range []string{"leasehold.wait.duration in trace %v{engine=memory,outcome=held}", "leasehold.hold.duration in trace %v{engine=memory}"} {
		if key, got := fmt.Sprintf(key, caller.SpanContext().TraceID()), s.metrics(); got[key] == 0 {
			t.Errorf("no exemplar %s in %v", key, got)
		}
	}
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

// A loss, a cycle and an engine that is down show in metrics and in spans.
func TestWhatGoesWrongIsSeen(t *testing.T) {
	s := see(t, metrics.Options{})
	e := &silent{Engine: memlock.New()}
	c := s.client(e, &leasehold.Options{TTL: 3 * time.Second, NoLocalHandoff: true, DeadlockAfter: 50 * time.Millisecond})
	ctx, caller := s.tracer.Tracer("test").Start(t.Context(), "request")
	a, err := c.Lock(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	b, err := c.Lock(ctx, "b")
	if err != nil {
		t.Fatal(err)
	}
	other := make(chan error)
	go func() {
		l, err := c.Lock(a.Context(), "b")
		if err == nil {
			err = l.Unlock()
		}
		other <- errors.Join(err, a.Unlock())
	}()
	l, err := c.Lock(b.Context(), "a")
	if err == nil {
		err = l.Unlock()
	}
	if err = errors.Join(err, b.Unlock(), <-other); !errors.Is(err, leasehold.ErrDeadlock) {
		t.Fatalf("got %v, want a deadlock", err)
	}
	victims := 0
	for i := range 2 {
		span := s.span("leasehold wait", i)
		if span.Status().Code == codes.Error && slices.ContainsFunc(span.Events(), func(e trace.Event) bool { return e.Name == "deadlock" }) {
			victims++
		}
	}
	if victims != 1 {
		t.Errorf("%d spans are of a victim, want one", victims)
	}
	y, err := c.Lock(ctx, "y")
	if err != nil {
		t.Fatal(err)
	}
	e.fails.Store(true)
	<-y.Context().Done()
	lost := s.span("leasehold lost", 0)
	if attr(lost, "leasehold.reason") != "expired" || attr(lost, "leasehold.name") != "y" || lost.Status().Code != codes.Error {
		t.Errorf("the loss has %v and %v", lost.Attributes(), lost.Status())
	}
	if links := lost.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != caller.SpanContext().SpanID() || lost.Parent().IsValid() {
		t.Errorf("the loss has the links %v and the parent %v, want a link to the caller alone", links, lost.Parent())
	}
	got := s.metrics()
	if held := got["leasehold.hold.duration sum{engine=memory}"]; held < 2.5 {
		t.Errorf("leases were held for %v s, want the TTL of the one that was lost, less a little", held)
	}
	for key, want := range map[string]float64{
		"leasehold.lost{engine=memory,reason=expired}": 1, "leasehold.deadlocks{engine=memory}": 1,
		"leasehold.gave_up{engine=memory,reason=deadlock}": 1, "leasehold.engine.outages{engine=memory}": 1, "leasehold.engine.up{engine=memory}": 0,
		"leasehold.wait.duration{engine=memory,outcome=gave_up}": 1, "leasehold.wait.duration{engine=memory,outcome=held}": 4, "leasehold.hold.duration{engine=memory}": 4,
	} {
		if have, is := got[key]; have != want || !is {
			t.Errorf("%s is %v, want %v; all: %v", key, have, want, got)
		}
	}
	_ = y.Unlock()
	caller.End()
}

// 10,000 names make no more attributes than MaxNames, in histograms too.
func TestHostileNamesMakeNoAttributes(t *testing.T) {
	s := see(t, metrics.Options{NameOf: func(name string) string { return name }, MaxNames: 2})
	c := s.client(memlock.New(), nil)
	for i := range 10_000 {
		l, err := c.Lock(t.Context(), fmt.Sprint("n", i))
		if err == nil {
			err = l.Unlock()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got := s.metrics()
	if got["leasehold.hold.duration{engine=memory,name=other}"] != 9_998 || got["leasehold.hold.duration{engine=memory,name=n0}"] != 1 || len(got) > 100 {
		t.Errorf("%d series: %v", len(got), got)
	}
}

// A NameOf that leaves a name empty is a NameOf: all metrics of an event have one set of
// attributes.
func TestAnEmptyNameIsAnAttributeOfAllMetrics(t *testing.T) {
	s := see(t, metrics.Options{NameOf: func(string) string { return "" }})
	l, err := s.client(memlock.New(), nil).Lock(t.Context(), "x")
	if err == nil {
		err = l.Unlock()
	}
	if err != nil {
		t.Fatal(err)
	}
	got := s.metrics()
	for _, key := range []string{
		"leasehold.granted{by=claim,engine=memory,name=}",
		"leasehold.wait.duration{engine=memory,name=,outcome=held}",
		"leasehold.hold.duration{engine=memory,name=}",
	} {
		if got[key] != 1 {
			t.Errorf("%s is %v, want 1; all: %v", key, got[key], got)
		}
	}
}

func TestRecordIsTaken(t *testing.T) {
	if _, err := otel.New(otel.Options{Metrics: metrics.Options{Record: func(metrics.Record) {}}}); err == nil {
		t.Error("a Record of the program is dropped without a word")
	}
}

func BenchmarkPair(b *testing.B) {
	for _, counted := range []bool{false, true} {
		b.Run(fmt.Sprintf("seen=%v", counted), func(b *testing.B) {
			t, err := otel.New(otel.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))})
			if err != nil {
				b.Fatal(err)
			}
			defer t.Close()
			newClient := leasehold.New
			if counted {
				newClient = func(e engine.Engine, o *leasehold.Options) (*leasehold.Client, error) {
					return t.Client(e, "memory", o)
				}
			}
			c, err := newClient(memlock.New(), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			b.ReportAllocs()
			for b.Loop() {
				l, err := c.Lock(b.Context(), "x")
				if err == nil {
					err = l.Unlock()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// A revocation is a span, the program's own observer goes on, and Close ends the metrics.
func TestRevocationsObserversAndClose(t *testing.T) {
	s := see(t, metrics.Options{})
	var events atomic.Int64
	c := s.client(memlock.New(), &leasehold.Options{Observer: func(leasehold.Event) { events.Add(1) }})
	l, err := c.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.RevokeNow(t.Context(), "x", l.Token().Ticket()); err != nil {
		t.Fatal(err)
	}
	if got := s.span("leasehold revoke", 0); attr(got, "leasehold.name") != "x" || attr(got, "leasehold.token") == "" || attr(got, "engine") != "memory" || got.Parent().IsValid() {
		t.Errorf("the revocation has %v and the parent %v", got.Attributes(), got.Parent())
	}
	s.span("leasehold lost", 0)
	until(t, "the program's own observer did not get a lease, its revocation and its loss", func() bool { return events.Load() >= 3 })
	if got := s.metrics(); got["leasehold.revoked{engine=memory}"] != 1 {
		t.Errorf("got %v, want one revocation", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.metrics(); got["leasehold.revoked{engine=memory}"] != 0 {
		t.Errorf("got %v after Close", got)
	}
}
