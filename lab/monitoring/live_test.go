package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"

	"leasehold"
	"leasehold/engine/redis"
	"leasehold/lab/servers"
	"leasehold/otel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// logs is what an operator reads: a line of JSON for each event.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines are those with that message.
func (l *logs) lines(t *testing.T, message string) (found []map[string]any) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		if fields["msg"] == message {
			found = append(found, fields)
		}
	}
	return found
}

// observed is a client that an SDK of OpenTelemetry sees, with its metrics for a reader of
// the test and on a page.
type observed struct {
	*leasehold.Client
	*page
	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
}

// observe makes one on the Redis at url.
func observe(t *testing.T, url string, o *leasehold.Options) *observed {
	t.Helper()
	registry := client.NewRegistry()
	scraped, err := exporter.New(exporter.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	s := &observed{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	telemetry, err := otel.New(otel.Options{
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(s.reader), metric.WithReader(scraped)),
		TracerProvider: trace.NewTracerProvider(trace.WithSpanProcessor(s.spans)),
	})
	if err != nil {
		t.Fatal(err)
	}
	eng, err := redis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if s.Client, err = telemetry.Client(eng, "redis", o); err != nil {
		t.Fatal(err)
	}
	if s.page, err = serve(registry); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(s.Client.Close(), s.page.Close(), telemetry.Close()) }) // its engine is gone
	return s
}

// read is what the SDK's reader has, by "name{attributes}"; of histograms the count.
func (s *observed) read(t *testing.T) map[string]float64 {
	t.Helper()
	var got metricdata.ResourceMetrics
	if err := s.reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
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
				}
			}
		}
	}
	return all
}

// ended are the spans of that name.
func (s *observed) ended(name string) (found []trace.ReadOnlySpan) {
	for _, span := range s.spans.Ended() {
		if span.Name() == name {
			found = append(found, span)
		}
	}
	return found
}

func attr(span trace.ReadOnlySpan, key string) string {
	for _, a := range span.Attributes() {
		if string(a.Key) == key {
			return a.Value.String()
		}
	}
	return ""
}

// eventually waits until ok returns "", and fails with what it said last.
func eventually(t *testing.T, ok func() string) {
	t.Helper()
	var said string
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if said = ok(); said == "" {
			return
		}
	}
	t.Fatal(said)
}

// is compares a query, of one value, with a number.
func is(t *testing.T, p *servers.PrometheusServer, query string, want float64) {
	t.Helper()
	eventually(t, func() string {
		got, err := p.Query(query)
		if err != nil || len(got) != 1 || got[0].Value != want {
			return fmt.Sprintf("%s is %v (%v), want %v", query, got, err, want)
		}
		return ""
	})
}

// raised waits for an alert.
func raised(t *testing.T, p *servers.PrometheusServer, alert, job, state string) {
	t.Helper()
	eventually(t, func() string {
		all, err := p.Alerts()
		if err != nil || !slices.ContainsFunc(all, func(a servers.Alert) bool {
			return a.Labels["alertname"] == alert && a.Labels["job"] == job && a.State == state
		}) {
			return fmt.Sprintf("%s is not %s for %s (%v): %v", alert, state, job, err, all)
		}
		return ""
	})
}

// startExporter runs leasehold exporter, and returns where it listens.
func startExporter(t *testing.T, url string) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "leasehold")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "leasehold/cmd/leasehold")
	build.Dir = root // go.work
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	port, err := servers.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p, err := servers.Start(servers.Command{Program: program, Args: []string{"exporter", "--listen", addr, "--every", "200ms"}, Dir: dir, Env: []string{"LEASEHOLD_ENGINE=" + url}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.Tail())
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return addr
}

// circle has two callers wait for each other, until one of them gives up.
func circle(ctx context.Context, c *leasehold.Client) error {
	a, err1 := c.Lock(ctx, "a")
	b, err2 := c.Lock(ctx, "b")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	then := func(have *leasehold.Lease, want string) error {
		l, err := c.Lock(have.Context(), want)
		if err == nil {
			err = l.Unlock()
		}
		return errors.Join(err, have.Unlock())
	}
	other := make(chan error)
	go func() { other <- then(a, "b") }()
	err := errors.Join(then(b, "a"), <-other)
	if !errors.Is(err, leasehold.ErrDeadlock) {
		return fmt.Errorf("got %w, want a deadlock", err)
	}
	return nil
}

// A cycle, an engine that is killed, and the lease that is lost with it: each is seen by a
// real Prometheus (the Collector's page, and that of OpenTelemetry's own exporter, which must
// have the same names), by a reader of the SDK, in the spans, and in the log. The alerts rise,
// and each panel of the dashboard has something to show.
func TestWhatGoesWrongIsSeenEverywhere(t *testing.T) {
	servers.Need(t, "redis-server", "prometheus")
	store := servers.Redis(t, nil)
	url := "redis://" + store.Addr
	var log logs
	o := &leasehold.Options{TTL: 6 * time.Second, NoLocalHandoff: true, DeadlockAfter: 100 * time.Millisecond,
		Observer: leasehold.LogTo(slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelInfo})))}
	eng, err := redis.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := newCounted(eng, "redis", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plain.Close() }) // its engine is gone
	seen := observe(t, url, o)
	prom := servers.Prometheus(t, &servers.PrometheusOptions{
		Targets: map[string]string{"collector": plain.Addr, "opentelemetry": seen.page.Addr, "exporter": startExporter(t, url)},
		Rules:   []string{alertsFile}, Every: 200 * time.Millisecond,
	})
	jobs := map[string]*leasehold.Client{"collector": plain.Client, "opentelemetry": seen.Client}
	of := func(job, name, labels string) string {
		return fmt.Sprintf("%s{job=%q,engine=\"redis\"%s}", name, job, labels)
	}
	for job := range jobs {
		is(t, prom, of(job, "leasehold_engine_up", ""), 1)
	}

	for job, c := range jobs {
		if err := circle(t.Context(), c); err != nil {
			t.Fatal(job, err)
		}
		is(t, prom, of(job, "leasehold_deadlocks_total", ""), 1)
		is(t, prom, of(job, "leasehold_gave_up_total", `,reason="deadlock"`), 1)
	}
	request := trace.NewTracerProvider().Tracer("test")
	ctx, caller := request.Start(t.Context(), "request")
	waits := make(chan error)
	leases := map[string]*leasehold.Lease{}
	for job, c := range jobs {
		l, err := c.Lock(ctx, "stock/"+job)
		if err != nil {
			t.Fatal(err)
		}
		leases[job] = l
		is(t, prom, of(job, "leasehold_held", ""), 1)
		go func() {
			_, err := c.With(leasehold.LockOptions{Wait: 4 * time.Second}).Lock(ctx, "stock/"+job)
			waits <- err
		}()
		is(t, prom, of(job, "leasehold_waiting", ""), 1)
	}
	is(t, prom, "leasehold_exporter_engine_up", 1)
	is(t, prom, `leasehold_exporter_holders{prefix=""}`, 2)
	shown := map[string]bool{}
	look := func(job string) {
		for _, e := range expressions(t, job) {
			if got, err := prom.Query(e); err != nil {
				t.Errorf("%s: %v", e, err)
			} else if len(got) > 0 {
				shown[e] = true
			}
		}
	}
	for job := range jobs {
		look(job)
	}

	killed := time.Now()
	if err := store.Kill(); err != nil {
		t.Fatal(err)
	}
	for job, c := range jobs {
		if _, err := c.With(leasehold.LockOptions{Wait: time.Second}).Lock(ctx, "order/"+job); !errors.Is(err, leasehold.ErrUnavailable) {
			t.Errorf("a call to an engine that is gone got %v, want ErrUnavailable", err)
		}
	}
	for range jobs { // they have a place in the queue: the engine said before that the name is held
		if err := <-waits; !errors.Is(err, leasehold.ErrHeld) && !errors.Is(err, leasehold.ErrUnavailable) {
			t.Errorf("a call that waited while the engine was killed got %v", err)
		}
	}
	for job, l := range leases {
		<-l.Context().Done()
		is(t, prom, of(job, "leasehold_lost_total", `,reason="expired"`), 1)
		is(t, prom, "sum("+of(job, "leasehold_gave_up_total", `,reason=~"held|unavailable"`)+")", 2)
		is(t, prom, of(job, "leasehold_gave_up_total", `,reason="unavailable"`)+" > bool 0", 1)
		is(t, prom, of(job, "leasehold_engine_up", ""), 0)
		is(t, prom, of(job, "leasehold_engine_outages_total", ""), 1)
		is(t, prom, of(job, "leasehold_held", ""), 0)
		is(t, prom, of(job, "leasehold_waiting", ""), 0)
		is(t, prom, of(job, "leasehold_hold_duration_seconds_count", ""), 4)
		is(t, prom, "sum("+of(job, "leasehold_granted_total", "")+")", 4)
		look(job)
		for _, e := range expressions(t, job) {
			if !shown[e] {
				t.Errorf("a panel shows nothing: %s", e)
			}
		}
		for alert, state := range map[string]string{"LeaseholdLeaseLost": "firing", "LeaseholdDeadlock": "firing", "LeaseholdTrustLow": "firing", "LeaseholdEngineDown": "pending"} {
			raised(t, prom, alert, job, state)
		}
	}
	raised(t, prom, "LeaseholdExporterBlind", "exporter", "pending")

	got := seen.read(t)
	for key, want := range map[string]float64{
		"leasehold.lost{engine=redis,reason=expired}": 1, "leasehold.deadlocks{engine=redis}": 1, "leasehold.engine.up{engine=redis}": 0,
		"leasehold.engine.outages{engine=redis}":                1,
		"leasehold.wait.duration{engine=redis,outcome=gave_up}": 3, "leasehold.hold.duration{engine=redis}": 4, "leasehold.held{engine=redis}": 0,
	} {
		if have, is := got[key]; have != want || !is {
			t.Errorf("the SDK has %v of %s, want %v", have, key, want)
		}
	}

	var victim, unavailable int
	for _, span := range seen.ended("leasehold wait") {
		switch {
		case slices.ContainsFunc(span.Events(), func(e trace.Event) bool { return e.Name == "deadlock" }):
			victim++
		case span.Status().Code == codes.Error && strings.Contains(span.Status().Description, leasehold.ErrUnavailable.Error()):
			unavailable++
			if span.Parent().SpanID() != caller.SpanContext().SpanID() {
				t.Error("the span of a call that got no answer is not its caller's child")
			}
		}
	}
	if victim != 1 || unavailable < 1 {
		t.Errorf("%d spans of a victim and %d of a call without an answer, want one, and one or two", victim, unavailable)
	}
	if lost := seen.ended("leasehold lost"); len(lost) != 1 || attr(lost[0], "leasehold.name") != "stock/opentelemetry" || attr(lost[0], "leasehold.reason") != "expired" ||
		len(lost[0].Links()) != 1 || lost[0].Links()[0].SpanContext.TraceID() != caller.SpanContext().TraceID() {
		t.Errorf("the spans of losses are %v", lost)
	}

	for _, line := range log.lines(t, "leasehold: deadlock") {
		if line["level"] != "WARN" || !strings.Contains(fmt.Sprint(line["error"]), "a") {
			t.Errorf("the log has %v of a cycle", line)
		}
	}
	if n := len(log.lines(t, "leasehold: deadlock")); n != 2 {
		t.Errorf("the log has %d cycles, want one, and one or two client", n)
	}
	for _, message := range []string{"leasehold: lost", "leasehold: engine down"} {
		lines := log.lines(t, message)
		if len(lines) != 2 {
			t.Errorf("the log has %d lines %q, want one, and one or two client", len(lines), message)
		}
		for _, line := range lines {
			name, lost := line["name"], message == "leasehold: lost"
			if lost != (line["level"] == "ERROR" && line["reason"] == "expired" && strings.HasPrefix(fmt.Sprint(name), "stock/")) || lost != (name != nil) ||
				!strings.Contains(fmt.Sprint(line["error"]), "connection refused") {
				t.Errorf("the log has %v: want what was lost, why, and which call failed", line)
			}
			at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(line["time"]))
			if err != nil || at.Before(killed.Add(-time.Millisecond)) {
				t.Errorf("%v is from before the engine was killed (%v)", line, err)
			}
		}
	}
}
