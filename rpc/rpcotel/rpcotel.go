// SPDX-License-Identifier: Apache-2.0

package rpcotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

// Name is the instrumentation scope of the spans and metrics.
const Name = "github.com/headgate/headgate/rpc/rpcotel"

// Config is the providers of the service.
type Config struct {
	// Tracers makes the spans; default the global provider.
	Tracers trace.TracerProvider

	// Meters makes the metrics; default the global provider.
	Meters metric.MeterProvider

	// Propagator carries the trace context to the host that answers; default W3C's
	// traceparent and tracestate. All hosts should have the same.
	Propagator propagation.TextMapPropagator
}

// Calls is an rpc.Instrument. Use New. Safe for concurrent use.
type Calls struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	client     side
	server     side
}

var _ rpc.Instrument = (*Calls)(nil)

// side is the metrics of one end of the calls.
type side struct {
	took              metric.Float64Histogram
	request, response metric.Int64Histogram
}

// New returns an Instrument with these providers. The error is that of a provider which
// refuses a metric.
func New(c Config) (*Calls, error) {
	if c.Tracers == nil {
		c.Tracers = otel.GetTracerProvider()
	}
	if c.Meters == nil {
		c.Meters = otel.GetMeterProvider()
	}
	if c.Propagator == nil {
		c.Propagator = propagation.TraceContext{}
	}
	meter := c.Meters.Meter(Name)
	client, clientErr := newSide(meter, "client")
	server, serverErr := newSide(meter, "server")
	if err := errors.Join(clientErr, serverErr); err != nil {
		return nil, err
	}
	return &Calls{tracer: c.Tracers.Tracer(Name), propagator: c.Propagator, client: client, server: server}, nil
}

// newSide returns the metrics of "client" or "server".
func newSide(meter metric.Meter, which string) (s side, err error) {
	var errs [3]error
	s.took, errs[0] = meter.Float64Histogram("rpc."+which+".call.duration", metric.WithUnit("s"),
		metric.WithDescription("How long a call between hosts takes."),
		metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5))
	sizes := metric.WithExplicitBucketBoundaries(64, 256, 1<<10, 1<<12, 1<<14, 1<<16, 1<<18, 1<<20, 1<<22)
	s.request, errs[1] = meter.Int64Histogram("headgate.rpc."+which+".request.size", metric.WithUnit("By"),
		metric.WithDescription("How large the message of a call between hosts is."), sizes)
	s.response, errs[2] = meter.Int64Histogram("headgate.rpc."+which+".response.size", metric.WithUnit("By"),
		metric.WithDescription("How large the answer is."), sizes)
	return s, errors.Join(errs[:]...)
}

// Caller implements rpc.Instrument.
func (c *Calls) Caller(address string, d rpc.Decider) rpc.Decider {
	return observed{calls: c, side: &c.client, kind: trace.SpanKindClient, next: d, address: []attribute.KeyValue{attribute.String("server.address", address)}}
}

// Answerer implements rpc.Instrument.
func (c *Calls) Answerer(d rpc.Decider) rpc.Decider {
	return observed{calls: c, side: &c.server, kind: trace.SpanKindServer, next: d}
}

// observed is a Decider with a span for each call, in its caller or where it answers.
type observed struct {
	calls   *Calls
	side    *side
	kind    trace.SpanKind
	next    rpc.Decider
	address []attribute.KeyValue // of next, if it is another host
}

// Update implements rpc.Decider.
func (o observed) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	message := rpc.KindOf(payload)
	labels := []attribute.KeyValue{
		attribute.String("rpc.system.name", "headgate"),
		attribute.String("rpc.method", "headgate.v1.Decider/Update"),
		attribute.String("headgate.message", message),
	}
	if o.kind == trace.SpanKindServer {
		ctx = o.calls.propagator.Extract(ctx, carrier{ctx: ctx})
	}
	size := int64(len(payload.GetValue()))
	ctx, span := o.calls.tracer.Start(ctx, "headgate "+message, trace.WithSpanKind(o.kind),
		trace.WithAttributes(labels...), trace.WithAttributes(o.address...), trace.WithAttributes(attribute.Int64("headgate.request.size", size)))
	defer span.End()
	if o.kind == trace.SpanKindClient {
		sent := carrier{headers: make(map[string]string, 2)}
		o.calls.propagator.Inject(ctx, sent)
		ctx = rpc.WithHeaders(ctx, sent.headers)
	}

	start := time.Now()
	answer, err := rpc.Ask(ctx, o.next, host, payload)
	took := time.Since(start)

	if err != nil {
		reason := attribute.String("error.type", rpc.ReasonOf(err))
		labels = append(labels, reason)
		span.SetAttributes(reason)
		span.SetStatus(codes.Error, err.Error())
	} else {
		span.SetAttributes(attribute.Int64("headgate.response.size", int64(len(answer.GetValue()))))
	}
	set := metric.WithAttributeSet(attribute.NewSet(labels...))
	o.side.took.Record(ctx, took.Seconds(), set)
	o.side.request.Record(ctx, size, set)
	if err == nil {
		o.side.response.Record(ctx, int64(len(answer.GetValue())), set)
	}
	return answer, err
}

// carrier is the headers of a call: those of ctx, which were received, or those to send.
type carrier struct {
	ctx     context.Context //nolint:containedctx // it lives as long as one Extract
	headers map[string]string
}

func (c carrier) Get(name string) string { return rpc.Received(c.ctx, name) }
func (c carrier) Set(name, value string) { c.headers[name] = value }
func (c carrier) Keys() (names []string) { return nil }
