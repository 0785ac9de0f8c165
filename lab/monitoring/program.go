package main

import (
	"errors"
	"net"
	"net/http"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"leasehold"
	"leasehold/engine"
	"leasehold/metrics"
	"leasehold/prometheus"
)

// page serves what Prometheus reads.
type page struct {
	Addr   string // host:port
	server *http.Server
	over   chan struct{}
}

// serve begins a page of what collectors collect.
func serve(registry client.Gatherer) (*page, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
	p := &page{Addr: l.Addr().String(), server: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, over: make(chan struct{})}
	go func() {
		defer close(p.over)
		_ = p.server.Serve(l) // until Close
	}()
	return p, nil
}

// Close ends the page.
func (p *page) Close() error {
	err := p.server.Close()
	<-p.over
	return err
}

// counted is a client whose numbers are on a page.
type counted struct {
	*leasehold.Client
	*page
}

func newCounted(e engine.Engine, name string, o *leasehold.Options) (*counted, error) {
	m, err := metrics.New(metrics.Options{})
	if err != nil {
		return nil, err
	}
	registry := client.NewPedanticRegistry()
	if err := registry.Register(prometheus.New(m)); err != nil {
		return nil, err
	}
	c, err := m.Client(e, name, o)
	if err != nil {
		return nil, err
	}
	p, err := serve(registry)
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &counted{c, p}, nil
}

// Close ends both.
func (c *counted) Close() error { return errors.Join(c.Client.Close(), c.page.Close()) }
