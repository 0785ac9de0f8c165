// Package prometheus hands the numbers of package metrics to the Prometheus client
// library: one Collector, to be registered once.
//
//	m, err := metrics.New(metrics.Options{})
//	client, err := m.Client(engine, "redis", nil)
//	prometheus.MustRegister(leaseholdprometheus.New(m))
//
// The names of the metrics are those that the OpenTelemetry exporter for Prometheus
// makes of [metrics.List], so a dashboard or an alert works with either.
package prometheus

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"leasehold/metrics"
)

// New returns a Collector of everything that m counts. It asks no engine when it is
// collected.
func New(m *metrics.Metrics) prometheus.Collector {
	c := &collector{metrics: m, descs: map[string]*prometheus.Desc{}}
	for _, l := range metrics.List(m.Names()) {
		c.descs[l.Name] = prometheus.NewDesc(Name(l), l.Help, l.Labels, nil)
	}
	return c
}

type collector struct {
	metrics *metrics.Metrics
	descs   map[string]*prometheus.Desc
}

// Describe sends what New made.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		descs <- d
	}
}

// Collect sends what is so now.
func (c *collector) Collect(values chan<- prometheus.Metric) {
	for v := range c.metrics.All() {
		desc := c.descs[v.Metric.Name]
		switch v.Metric.Kind {
		case metrics.Counter:
			values <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, v.Number, v.Labels...)
		case metrics.Gauge:
			values <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v.Number, v.Labels...)
		case metrics.Histogram:
			d, below := v.Distribution, uint64(0)
			buckets := make(map[float64]uint64, len(d.Bounds))
			for i, b := range d.Bounds {
				below += d.Counts[i]
				buckets[b.Seconds()] = below
			}
			values <- prometheus.MustNewConstHistogram(desc, d.Count, d.Sum.Seconds(), buckets, v.Labels...)
		}
	}
}

// Name returns the name of a metric in Prometheus: leasehold_wait_duration_seconds,
// leasehold_lost_total.
func Name(m metrics.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch m.Unit {
	case "s":
		name += "_seconds"
	case "1":
		name += "_ratio"
	}
	if m.Kind == metrics.Counter {
		name += "_total"
	}
	return name
}
