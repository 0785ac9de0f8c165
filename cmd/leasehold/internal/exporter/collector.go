package exporter

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector shows the outcome of a reading.
type collector struct {
	readings *readings
	show     func(string) string
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("leasehold_exporter_"+name, help, labels, nil)
}

// metric is one whose value comes from the figures of a prefix.
type metric struct {
	desc    *prometheus.Desc
	value   func(*sums) float64
	waiters bool // means nothing where the engine does not show who waits
}

// all describes the metrics. They are made for each scrape: there are no globals.
type all struct {
	up, readings, failures, took, good *prometheus.Desc
	prefix                             []metric
	nameWaiters, nameOldest            *prometheus.Desc
}

func describe() all {
	count := func(of func(*sums) int) func(*sums) float64 {
		return func(s *sums) float64 { return float64(of(s)) }
	}
	age := func(of func(*sums) time.Duration) func(*sums) float64 {
		return func(s *sums) float64 { return of(s).Seconds() }
	}
	const prefix = "prefix"
	return all{
		up:       desc("engine_up", "1 if the last reading of the engine was complete, 0 if it failed or did not end in time."),
		readings: desc("readings_total", "Readings of the engine that ended, well or not."),
		failures: desc("reading_failures_total", "Readings of the engine that failed or did not end in time."),
		took:     desc("reading_duration_seconds", "How long the last reading of the engine took."),
		good:     desc("reading_timestamp_seconds", "When the last reading began that did not fail, in seconds since 1970."),
		prefix: []metric{
			{desc("names", "Names that are held or waited for.", prefix), count(func(s *sums) int { return s.names }), false},
			{desc("contended_names", "Names that somebody waits for.", prefix), count(func(s *sums) int { return s.contended }), true},
			{desc("holders", "Claims that are held.", prefix), count(func(s *sums) int { return s.holders }), false},
			{desc("waiters", "Claims that wait.", prefix), count(func(s *sums) int { return s.waiters }), true},
			{desc("revoked_holders", "Claims that were revoked and still keep their permits.", prefix), count(func(s *sums) int { return s.revoked }), false},
			{desc("oldest_waiter_age_seconds", "How long ago the waiter asked that asked first, by its own clock; 0 without a waiter.", prefix), age(func(s *sums) time.Duration { return s.oldestWaiter }), true},
			{desc("oldest_holder_age_seconds", "How long ago the holder asked that asked first, by its own clock; 0 without a holder.", prefix), age(func(s *sums) time.Duration { return s.oldestHolder }), false},
			{desc("cut", "1 if there are more names than the exporter reads, so that the figures are too small; 0 if not.", prefix), func(s *sums) float64 {
				if s.cut {
					return 1
				}
				return 0
			}, false},
		},
		nameWaiters: desc("name_waiters", "Claims that wait for the name, of the names whose waiters have waited longest.", "name"),
		nameOldest:  desc("name_oldest_waiter_age_seconds", "How long ago the waiter of the name asked that asked first, by its own clock.", "name"),
	}
}

// Describe sends what may be shown.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	d := describe()
	for _, one := range []*prometheus.Desc{d.up, d.readings, d.failures, d.took, d.good, d.nameWaiters, d.nameOldest} {
		descs <- one
	}
	for _, m := range d.prefix {
		descs <- m.desc
	}
}

// Collect sends what the last reading has found.
func (c *collector) Collect(values chan<- prometheus.Metric) {
	d, last := describe(), c.readings.get()
	gauge := func(desc *prometheus.Desc, v float64, labels ...string) {
		values <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, v, labels...)
	}
	values <- prometheus.MustNewConstMetric(d.readings, prometheus.CounterValue, float64(last.done))
	values <- prometheus.MustNewConstMetric(d.failures, prometheus.CounterValue, float64(last.failures))
	gauge(d.took, last.took.Seconds())
	if !last.good.IsZero() {
		gauge(d.good, float64(last.good.UnixMilli())/1000)
	}
	if last.figures == nil {
		gauge(d.up, 0)
		return
	}
	gauge(d.up, 1)
	for _, s := range last.figures.prefixes {
		for _, m := range d.prefix {
			if last.figures.waiters || !m.waiters {
				gauge(m.desc, m.value(s), s.prefix)
			}
		}
	}
	for _, w := range last.figures.worst {
		name := c.show(w.name)
		gauge(d.nameWaiters, float64(w.waiters), name)
		gauge(d.nameOldest, w.oldest.Seconds(), name)
	}
}
