// Package otel hands what Clients do to OpenTelemetry: the numbers of package metrics
// as metrics, and a span for each call that waited. It uses the stable API only; the
// program chooses the SDK, as everywhere in OpenTelemetry.
//
//	telemetry, err := otel.New(otel.Options{})
//	client, err := telemetry.Client(engine, "redis", nil)
//	defer telemetry.Close()
//
// The metrics are those of [metrics.List].
//
// A span "leasehold wait" begins where a call has to wait, and ends where it has the
// lease or gives up. It is a child of the span in the call's context. Its attributes say
// for which name it waited and with which token it went on; after 100 ms also who held
// the name and how many waited then, this call among them. A lease has no span of its own, for it
// may last for hours. [Link] links any other span to the call that obtained the lease.
// A loss and a revocation are short spans, with such a link if a call asked for the lease.
package otel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"leasehold"
	"leasehold/engine"
	"leasehold/metrics"
)

// scope is the name of this instrumentation.
const scope = "leasehold/otel"

// Options are the choices of Telemetry. The zero value uses the global providers and
// has no attribute for names in metrics.
type Options struct {
	MeterProvider  metric.MeterProvider // default: otel.GetMeterProvider()
	TracerProvider trace.TracerProvider // default: otel.GetTracerProvider()

	// Metrics are the choices of package metrics, NameOf and MaxNames among them.
	// Bounds advises the SDK about the histograms. Record is not for the program.
	Metrics metrics.Options
}

// Telemetry makes Clients that OpenTelemetry sees.
type Telemetry struct {
	metrics *metrics.Metrics
	tracer  trace.Tracer
	reading metric.Registration

	wait, hold metric.Float64Histogram
	sets       sets
}

// New registers the metrics. It fails if Options.Metrics make no sense, or if the
// MeterProvider refuses an instrument.
func New(o Options) (*Telemetry, error) {
	if o.Metrics.Record != nil {
		return nil, errors.New("leasehold/otel: Options.Metrics.Record is set: this package records durations with it")
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	t := &Telemetry{tracer: o.TracerProvider.Tracer(scope)}
	o.Metrics.Record = t.record
	if o.Metrics.Bounds == nil {
		o.Metrics.Bounds = metrics.DefaultBounds()
	}
	var err error
	if t.metrics, err = metrics.New(o.Metrics); err != nil {
		return nil, err
	}
	return t, t.register(o.MeterProvider.Meter(scope), o.Metrics)
}

// Client is leasehold.New with a Client that is seen. name is the attribute engine of
// its metrics and spans, as [metrics.Metrics.Client] has it.
func (t *Telemetry) Client(eng engine.Engine, name string, o *leasehold.Options) (*leasehold.Client, error) {
	var opts leasehold.Options
	if o != nil {
		opts = *o
	}
	s := &spans{tracer: t.tracer, engine: attribute.String(metrics.LabelEngine, name), next: opts.Observer}
	opts.Observer = s.observe
	c, err := t.metrics.Client(eng, name, &opts)
	if err != nil {
		return nil, err
	}
	s.client.Store(c)
	return c, nil
}

// Close ends the metrics: the MeterProvider reads them no longer. Clients go on.
func (t *Telemetry) Close() error { return t.reading.Unregister() }

// Link links a span to the call that obtained l: a job that runs under a lease, to the
// request that waited for it.
func Link(l *leasehold.Lease) trace.Link {
	return trace.LinkFromContext(l.Context(), attribute.String(keyName, l.Name()), attribute.String(keyToken, l.Token().String()))
}

// The attributes of spans.
const (
	keyName   = "leasehold.name"
	keyToken  = "leasehold.token"
	keyHolder = "leasehold.holder"
	keyAhead  = "leasehold.ahead"
	keyReason = "leasehold.reason"
)

func background(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
