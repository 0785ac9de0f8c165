package otel

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"leasehold/metrics"
)

// register makes an instrument for each metric. Histograms are recorded as they come,
// for the API has no observable ones; all else is read when the SDK collects.
func (t *Telemetry) register(meter metric.Meter, o metrics.Options) error {
	var bounds []float64
	for _, b := range o.Bounds {
		bounds = append(bounds, b.Seconds())
	}
	observed := map[string]metric.Float64Observable{}
	var all []metric.Observable
	for _, m := range metrics.List(t.metrics.Names()) {
		switch m.Kind {
		case metrics.Histogram:
			h, err := meter.Float64Histogram(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help), metric.WithExplicitBucketBoundaries(bounds...))
			if err != nil {
				return err
			}
			if len(m.Labels) > 1 && m.Labels[1] == metrics.LabelOutcome {
				t.wait = h
			} else {
				t.hold = h
			}
		case metrics.Counter:
			c, err := meter.Float64ObservableCounter(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
			if err != nil {
				return err
			}
			observed[m.Name], all = c, append(all, c)
		case metrics.Gauge:
			g, err := meter.Float64ObservableGauge(m.Name, metric.WithUnit(m.Unit), metric.WithDescription(m.Help))
			if err != nil {
				return err
			}
			observed[m.Name], all = g, append(all, g)
		}
	}
	var err error
	t.reading, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for v := range t.metrics.All() {
			if v.Distribution != nil {
				continue
			}
			labels := make([]attribute.KeyValue, len(v.Labels))
			for i, l := range v.Labels {
				labels[i] = attribute.String(v.Metric.Labels[i], l)
			}
			to.ObserveFloat64(observed[v.Metric.Name], v.Number, metric.WithAttributes(labels...))
		}
		return nil
	}, all...)
	return err
}

func (t *Telemetry) record(r metrics.Record) {
	// The context is for exemplars: the SDK takes the trace from it.
	ctx, with := background(r.Event.Context), t.sets.of(r, t.metrics.Names())
	if r.Outcome == "" {
		t.hold.Record(ctx, r.Event.Held.Seconds(), with...)
		return
	}
	t.wait.Record(ctx, r.Event.Waited.Seconds(), with...)
}

// sets keeps the attributes of durations: to make them anew costs memory for each. There
// are few, for names are folded.
type sets struct{ made sync.Map }

type setKey struct{ engine, name, outcome string }

func (s *sets) of(r metrics.Record, names bool) []metric.RecordOption {
	key := setKey{r.Engine, r.Name, r.Outcome}
	if have, ok := s.made.Load(key); ok {
		return have.([]metric.RecordOption)
	}
	attrs := []attribute.KeyValue{attribute.String(metrics.LabelEngine, r.Engine)}
	if r.Outcome != "" {
		attrs = append(attrs, attribute.String(metrics.LabelOutcome, r.Outcome))
	}
	if names { // also an empty one: observed metrics have it, too
		attrs = append(attrs, attribute.String(metrics.LabelName, r.Name))
	}
	have, _ := s.made.LoadOrStore(key, []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attrs...))})
	return have.([]metric.RecordOption)
}
