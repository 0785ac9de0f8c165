package main

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"leasehold/service"
)

// serviceCollector shows what a server does to Prometheus. What stands in the queues is for
// "leasehold exporter".
type serviceCollector struct {
	server                             *service.Server
	requests, waiting, claims, watches *prometheus.Desc
	answers                            *prometheus.Desc
}

func serviceMetrics(s *service.Server) *serviceCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("leasehold_service_"+name, help, labels, nil)
	}
	return &serviceCollector{
		server:   s,
		requests: desc("requests", "Requests under way, those that wait for a lock among them."),
		waiting:  desc("waiting_requests", "Requests that wait for a lock."),
		claims:   desc("claims", "Claims that this server knows of, held and waiting."),
		watches:  desc("watches", "Clients of https:// that this server notifies."),
		answers:  desc("answers_total", "Answers, by the first digit of their status.", "class"),
	}
}

// Describe implements prometheus.Collector.
func (c *serviceCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.waiting, c.claims, c.watches, c.answers} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c *serviceCollector) Collect(values chan<- prometheus.Metric) {
	st := c.server.Stats()
	gauge := func(d *prometheus.Desc, n int) {
		values <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	gauge(c.requests, st.Requests)
	gauge(c.waiting, st.Waiting)
	gauge(c.claims, st.Claims)
	gauge(c.watches, st.Watches)
	for i, n := range st.Answers[2:] {
		values <- prometheus.MustNewConstMetric(c.answers, prometheus.CounterValue, float64(n), fmt.Sprintf("%dxx", i+2))
	}
}
