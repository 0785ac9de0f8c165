package otel

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"leasehold"
	"leasehold/engine"
)

const (
	// A call that waits longer than lookAfter reads the queue once, for who holds the
	// name: a short wait is not worth a request.
	lookAfter = 100 * time.Millisecond
	lookBound = time.Second
	maxLooks  = 8 // at a time, by one Client; others do without
)

// spans are those of one Client.
type spans struct {
	tracer  trace.Tracer
	engine  attribute.KeyValue
	next    func(leasehold.Event)
	client  atomic.Pointer[leasehold.Client]
	waiting sync.Map // the wait of Event.Call
	looks   atomic.Int32
}

// wait is the span of a call that waits.
type wait struct {
	span  trace.Span
	timer *time.Timer // of the look; nil: nobody records
}

func (s *spans) observe(e leasehold.Event) {
	// Events with the same Call come one after the other, so a wait has begun before it
	// ends, and nothing comes after that.
	switch {
	case e.Kind == leasehold.EventWaiting:
		s.begin(e)
	case e.Call != 0:
		s.end(e)
	case e.Kind == leasehold.EventLost:
		s.short(e, "leasehold lost", attribute.String(keyReason, e.Reason.String()))
	case e.Kind == leasehold.EventRevoke:
		s.short(e, "leasehold revoke")
	}
	if s.next != nil {
		s.next(e)
	}
}

func (s *spans) begin(e leasehold.Event) {
	ctx, span := s.tracer.Start(background(e.Context), "leasehold wait", trace.WithAttributes(s.engine, attribute.String(keyName, e.Name)))
	w := &wait{span: span}
	s.waiting.Store(e.Call, w)
	if span.IsRecording() {
		w.timer = time.AfterFunc(lookAfter, func() { s.look(ctx, span, e.Name) })
	}
}

// look writes into span who holds name. A span that has ended meanwhile takes nothing.
func (s *spans) look(ctx context.Context, span trace.Span, name string) {
	defer s.looks.Add(-1)
	c := s.client.Load()
	if s.looks.Add(1) > maxLooks || c == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	q, err := c.Queue(ctx, name)
	if err != nil {
		return // the end of the call says what is wrong
	}
	for i, cl := range q.Claims {
		if cl.State == engine.Held {
			span.SetAttributes(attribute.String(keyHolder, cl.Owner.String()), attribute.Int(keyAhead, ahead(q.Claims[i:])))
			return
		}
	}
}

// ahead counts those who wait for what others hold, the span's own call among them if it
// has a claim: the engine does not say whose claim is whose call's.
func ahead(claims []engine.Claim) (n int) {
	for _, cl := range claims {
		if cl.State == engine.Waiting {
			n++
		}
	}
	return n
}

func (s *spans) end(e leasehold.Event) {
	if e.Kind == leasehold.EventDeadlock {
		if have, ok := s.waiting.Load(e.Call); ok {
			have.(*wait).span.AddEvent("deadlock", trace.WithAttributes(attribute.String("leasehold.cycle", e.Err.Error())))
		}
		return // EventGaveUp comes
	}
	have, ok := s.waiting.LoadAndDelete(e.Call)
	if !ok {
		return
	}
	w := have.(*wait)
	if w.timer != nil {
		w.timer.Stop()
	}
	if e.Err != nil {
		if held, is := errors.AsType[*leasehold.HeldError](e.Err); is && len(held.By) > 0 {
			w.span.SetAttributes(attribute.String(keyHolder, held.By[0].Owner.String()), attribute.Int(keyAhead, held.Ahead))
		}
		w.span.RecordError(e.Err)
		w.span.SetStatus(codes.Error, e.Err.Error())
	} else {
		w.span.SetAttributes(attribute.String(keyToken, e.Token.String()))
	}
	w.span.End()
}

// short is a span of what happened at one moment, linked to the call that obtained the
// lease: that may have been hours ago, and its trace is long since written.
func (s *spans) short(e leasehold.Event, what string, also ...attribute.KeyValue) {
	opts := []trace.SpanStartOption{trace.WithNewRoot(), trace.WithAttributes(append(also, s.engine, attribute.String(keyName, e.Name), attribute.String(keyToken, e.Token.String()))...)}
	if e.Context != nil && trace.SpanContextFromContext(e.Context).IsValid() {
		opts = append(opts, trace.WithLinks(trace.LinkFromContext(e.Context)))
	}
	_, span := s.tracer.Start(background(e.Context), what, opts...)
	if e.Err != nil {
		span.RecordError(e.Err)
		span.SetStatus(codes.Error, e.Err.Error())
	}
	span.End()
}
