package prometheus_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/lab/servers"
	"leasehold/metrics"
	leaseholdprometheus "leasehold/prometheus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// page is what Prometheus reads of a program that locks.
func page(t *testing.T, o metrics.Options) string {
	t.Helper()
	m, err := metrics.New(o)
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(leaseholdprometheus.New(m)); err != nil {
		t.Fatal(err)
	}
	c, err := m.Client(memlock.New(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, name := range []string{"order/1", "order/2", "stock/1"} {
		l, err := c.Lock(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Unlock()
	}
	if _, err := c.TryLock(t.Context(), "order/1"); !errors.Is(err, leasehold.ErrHeld) {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Code, answer.Body)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestAProgramThatLocksHasItsMetrics(t *testing.T) {
	got := page(t, metrics.Options{})
	for _, line := range []string{
		`leasehold_held{engine="memory"} 3`,
		`leasehold_granted_total{by="claim",engine="memory"} 3`,
		`leasehold_gave_up_total{engine="memory",reason="held"} 1`,
		`leasehold_lost_total{engine="memory",reason="expired"} 0`,
		`leasehold_wait_duration_seconds_bucket{engine="memory",outcome="held",le="100"} 3`,
		`leasehold_wait_duration_seconds_bucket{engine="memory",outcome="held",le="+Inf"} 3`,
		`leasehold_wait_duration_seconds_count{engine="memory",outcome="gave_up"} 1`,
		`leasehold_engine_up{engine="memory"} 1`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, got)
		}
	}
	_, sum, _ := strings.Cut(got, `leasehold_wait_duration_seconds_sum{engine="memory",outcome="held"} `)
	sum, _, _ = strings.Cut(sum, "\n")
	if seconds, err := strconv.ParseFloat(sum, 64); err != nil || seconds <= 0 || seconds > 60 {
		t.Errorf("three leases took %q seconds (%v)", sum, err)
	}
	if !strings.Contains(got, `leasehold_trust_ratio{engine="memory"} 0.`) {
		t.Errorf("trust is missing in\n%s", got)
	}
	if n := strings.Count(got, "\nleasehold_"); n > 50 {
		t.Errorf("%d series, want 50 at most:\n%s", n, got)
	}
}

func TestFoldedNamesAreALabel(t *testing.T) {
	got := page(t, metrics.Options{NameOf: func(name string) string { kind, _, _ := strings.Cut(name, "/"); return kind }})
	for _, line := range []string{
		`leasehold_granted_total{by="claim",engine="memory",name="order"} 2`,
		`leasehold_granted_total{by="claim",engine="memory",name="stock"} 1`,
		`leasehold_held{engine="memory"} 3`,
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, got)
		}
	}
}

// A name that is cut inside of a character is no reason to end the program.
func TestALabelIsUTF8(t *testing.T) {
	got := page(t, metrics.Options{NameOf: func(string) string { return "\xe4" }})
	if line := `leasehold_granted_total{by="claim",engine="memory",name="\ufffd"} 3`; !strings.Contains(got, strings.ReplaceAll(line, `\ufffd`, "\ufffd")) {
		t.Errorf("%s is missing in\n%s", line, got)
	}
}

// promtool is the judge of what Prometheus expects of names, units and help.
func TestPromtoolFindsNothing(t *testing.T) {
	servers.Need(t, "promtool")
	for _, o := range []metrics.Options{{}, {NameOf: func(name string) string { return name }}} {
		check := exec.Command("promtool", "check", "metrics")
		check.Stdin = bytes.NewReader([]byte(page(t, o)))
		if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

// A scrape of an engine with as many names as there may be, and of one without names.
func BenchmarkScrape(b *testing.B) {
	for name, o := range map[string]metrics.Options{"alone": {}, "names": {NameOf: func(name string) string { return name }}} {
		b.Run(name, func(b *testing.B) {
			m, err := metrics.New(o)
			if err != nil {
				b.Fatal(err)
			}
			registry := prometheus.NewRegistry()
			registry.MustRegister(leaseholdprometheus.New(m))
			c, err := m.Client(memlock.New(), "memory", nil)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			for i := range 1000 {
				l, err := c.Lock(b.Context(), fmt.Sprint(i))
				if err != nil {
					b.Fatal(err)
				}
				defer l.Unlock()
			}
			scrape := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
			for b.Loop() {
				scrape.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
			}
		})
	}
}
