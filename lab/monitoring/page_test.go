package main

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"leasehold"
	"leasehold/engine/memlock"
	"leasehold/metrics"
	"leasehold/prometheus"
)

const pageFile = root + "/docs/monitoring.md"

// exposed are the metrics on the page of a program that holds a lease, by name, with what
// the page has of each: the type, and the names of its labels.
func exposed(t *testing.T) (kinds, labels map[string]string) {
	t.Helper()
	c, err := newCounted(memlock.New(), "memory", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l, err := c.Lock(t.Context(), "x")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Unlock()
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := web.Get("http://" + c.Addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	kinds, labels = map[string]string{}, map[string]string{}
	label := regexp.MustCompile(`(\w+)="`)
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); f[0] == "#" {
			if f[1] == "TYPE" {
				kinds[f[2]] = f[3]
			}
			continue
		}
		name, rest, _ := strings.Cut(line, "{")
		var names []string
		for _, m := range label.FindAllStringSubmatch(rest, -1) {
			names = append(names, m[1])
		}
		labels[name] = strings.Join(names, " ")
	}
	return kinds, labels
}

// What a program does not expose shows nothing on a dashboard, and an alert on it is silent
// for ever.
func TestRulesAndPanelsNameWhatIsExposed(t *testing.T) {
	_, labels := exposed(t)
	metric := regexp.MustCompile(`leasehold_[a-z_]+`)
	for _, file := range []string{"alerts.yml", "alerts_test.yml", "dashboard.json"} {
		n := 0
		for _, name := range metric.FindAllString(content(t, folder+"/"+file), -1) {
			if strings.HasPrefix(name, "leasehold_exporter_") {
				continue // of a program of its own
			}
			if n++; labels[name] == "" {
				t.Errorf("%s names %s, which no program exposes", file, name)
			}
		}
		if n < 10 {
			t.Errorf("%s names %d metrics only", file, n)
		}
	}
}

func TestThePageHasEveryMetric(t *testing.T) {
	text := content(t, pageFile)
	kinds, labels := exposed(t)
	var rows []string
	for _, m := range metrics.List(false) {
		name := prometheus.Name(m)
		kind, first := kinds[name], name
		if m.Kind == metrics.Histogram {
			first += "_count"
		}
		for _, l := range m.Labels {
			if !slices.Contains(strings.Fields(labels[first]), l) {
				t.Errorf("%s has the labels %q on the page of a program, and not %q", name, labels[first], l)
			}
		}
		delete(kinds, name)
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s | `%s` | %s |", name, m.Name, kind, strings.Join(m.Labels, "`, `"), strings.TrimSuffix(m.Help, ".")))
	}
	if len(kinds) > 0 {
		t.Errorf("a program exposes %v, which metrics.List does not have", kinds)
	}
	_, table, _ := strings.Cut(text, "| Prometheus | OpenTelemetry | kind | labels | meaning |\n|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if want := strings.Join(rows, "\n"); strings.TrimSpace(table) != want {
		t.Errorf("the table of docs/monitoring.md is not what programs expose, which is\n%s", want)
	}
}

func TestThePageHasEveryReasonAndEveryRule(t *testing.T) {
	text := content(t, pageFile)
	for r := leasehold.LossExpired; r < leasehold.LossClosed; r++ {
		if want := "`" + strings.ReplaceAll(r.String(), " ", "_") + "`"; !strings.Contains(text, want) {
			t.Errorf("docs/monitoring.md does not name the reason %s", want)
		}
	}
	names := alerts(t)
	for _, name := range names {
		if !strings.Contains(text, "\n| `"+name+"` | ") {
			t.Errorf("docs/monitoring.md has no reason for %s", name)
		}
	}
	for _, m := range regexp.MustCompile("`(Leasehold[A-Z]\\w+)`").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			t.Errorf("docs/monitoring.md has the rule %s, which is not there", m[1])
		}
	}
}

func TestThePictureIsSmall(t *testing.T) {
	b, err := os.ReadFile(root + "/docs/plots/monitoring.png")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(b)); err != nil || len(b) > 200_000 {
		t.Errorf("the picture has %d bytes (%v), want a PNG of 200,000 at most", len(b), err)
	}
}
