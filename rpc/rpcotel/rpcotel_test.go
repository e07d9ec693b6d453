// SPDX-License-Identifier: Apache-2.0

package rpcotel_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/memory"
	"github.com/headgate/headgate/internal/rpctest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/limiter/client"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/static"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/rpcotel"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// service is one with OpenTelemetry, whose spans and metrics stay in memory.
type service struct {
	*rpcotel.Calls

	tracers *sdktrace.TracerProvider
	spans   *tracetest.SpanRecorder
	metrics *sdkmetric.ManualReader
}

func newService(t *testing.T) *service {
	t.Helper()
	s := &service{spans: tracetest.NewSpanRecorder(), metrics: sdkmetric.NewManualReader()}
	s.tracers = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	calls, err := rpcotel.New(rpcotel.Config{
		Tracers: s.tracers,
		Meters:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.metrics)),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Calls = calls
	return s
}

// ended returns the spans of one kind.
func (s *service) ended(kind trace.SpanKind) (spans []sdktrace.ReadOnlySpan) {
	for _, span := range s.spans.Ended() {
		if span.SpanKind() == kind {
			spans = append(spans, span)
		}
	}
	return spans
}

// counts returns how many values each histogram has, by its name, kind of message and error.
func (s *service) counts(t *testing.T) map[string]uint64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.metrics.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]uint64)
	add := func(name string, set attribute.Set, n uint64) {
		message, _ := set.Value("headgate.message")
		reason, _ := set.Value("error.type")
		counts[name+" "+message.AsString()+" "+reason.AsString()] += n
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch data := m.Data.(type) {
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Count)
				}
			case metricdata.Histogram[int64]:
				for _, p := range data.DataPoints {
					add(m.Name, p.Attributes, p.Count)
				}
			default:
				t.Errorf("%s is %T", m.Name, m.Data)
			}
		}
	}
	return counts
}

var usage = &anypb.Any{TypeUrl: "type.googleapis.com/headgate.v1.Usage", Value: []byte("usage")}

// transports carry calls to a Decider, each in its way.
var transports = map[string]func(t *testing.T, d rpc.Decider) rpc.Decider{
	"rpctest": func(t *testing.T, d rpc.Decider) rpc.Decider {
		network := rpctest.New(1)
		network.Host("b").Serve(d)
		return peer(t, network.Host("a").Peers(), "b")
	},
	"rpcyarpc": func(t *testing.T, d rpc.Decider) rpc.Decider {
		s := rpcyarpc.NewServer(listen(t), d, rpcyarpc.ServerOptions{})
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
		c, err := rpcyarpc.NewClient(rpcyarpc.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := errors.Join(c.Close(), s.Stop(context.Background())); err != nil {
				t.Error(err)
			}
		})
		return peer(t, c, s.Addr().String())
	},
	"rpcgrpc": func(t *testing.T, d rpc.Decider) rpc.Decider {
		l, s := listen(t), grpc.NewServer(rpcgrpc.ServerDefaults()...)
		rpcgrpc.Register(s, d, rpcgrpc.ServerOptions{})
		go func() { _ = s.Serve(l) }()
		t.Cleanup(s.Stop)
		c, err := rpcgrpc.NewClient([]string{l.Addr().String()}, rpcgrpc.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	},
}

func peer(t *testing.T, peers rpc.Peers, address string) rpc.Decider {
	t.Helper()
	d, err := peers.Peer(address)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The spans of a call that an edge passes on to an owner are one trace: each is below the
// one that made the call.
func TestATraceGoesThroughEveryTransport(t *testing.T) {
	for name, through := range transports {
		t.Run(name, func(t *testing.T) {
			program, edge, owner := newService(t), newService(t), newService(t)
			decide := owner.Answerer(rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
				return &anypb.Any{TypeUrl: "a/headgate.v1.Grants", Value: []byte("grants!")}, nil
			}))
			pass := edge.Answerer(edge.Caller("owner:1", through(t, decide)))
			call := program.Caller("edge:1", through(t, pass))

			ctx, request := program.tracers.Tracer("test").Start(t.Context(), "request")
			ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
			defer cancel()
			if _, err := call.Update(ctx, "me", usage); err != nil {
				t.Fatal(err)
			}
			request.End()

			parent := request.SpanContext()
			for i, step := range []struct {
				of   *service
				kind trace.SpanKind
			}{
				{program, trace.SpanKindClient},
				{edge, trace.SpanKindServer},
				{edge, trace.SpanKindClient},
				{owner, trace.SpanKindServer},
			} {
				spans := step.of.ended(step.kind)
				if len(spans) != 1 {
					t.Fatalf("step %d: %d spans", i, len(spans))
				}
				span := spans[0]
				if span.Parent().TraceID() != parent.TraceID() || span.Parent().SpanID() != parent.SpanID() {
					t.Errorf("step %d: below %v, want %v", i, span.Parent(), parent)
				}
				if span.Name() != "headgate Usage" || span.Status().Code != codes.Unset {
					t.Errorf("step %d: %q, %+v", i, span.Name(), span.Status())
				}
				if want := attribute.Int64("headgate.response.size", 7); !slices.Contains(span.Attributes(), want) {
					t.Errorf("step %d: %v lacks %v", i, span.Attributes(), want)
				}
				parent = span.SpanContext()
			}
			if want := attribute.String("server.address", "owner:1"); !slices.Contains(edge.ended(trace.SpanKindClient)[0].Attributes(), want) {
				t.Errorf("the edge's span lacks %v", want)
			}
			for of, want := range map[*service][]string{
				program: {"rpc.client.call.duration Usage ", "headgate.rpc.client.request.size Usage ", "headgate.rpc.client.response.size Usage "},
				owner:   {"rpc.server.call.duration Usage ", "headgate.rpc.server.request.size Usage ", "headgate.rpc.server.response.size Usage "},
			} {
				got := of.counts(t)
				for _, metric := range want {
					if got[metric] != 1 {
						t.Errorf("%s: %d, of %v", metric, got[metric], got)
					}
				}
			}
		})
	}
}

// A host without OpenTelemetry between two hosts, or at either end, answers as before.
func TestHostsWithoutOpenTelemetryAnswer(t *testing.T) {
	for name, through := range transports {
		if name == "rpctest" {
			continue // its hosts share the caller's context, and what is in it
		}
		t.Run(name, func(t *testing.T) {
			program, owner := newService(t), newService(t)
			echo := rpc.DeciderFunc(func(_ context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) { return payload, nil })
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for _, d := range []rpc.Decider{
				program.Caller("b", through(t, echo)),
				through(t, owner.Answerer(echo)),
				program.Caller("edge", through(t, through(t, owner.Answerer(echo)))),
			} {
				if answer, err := d.Update(ctx, "me", usage); err != nil || string(answer.GetValue()) != "usage" {
					t.Errorf("%v, %v", answer, err)
				}
			}
			// No trace context came from the host without: these spans begin traces.
			for _, span := range owner.ended(trace.SpanKindServer) {
				if span.Parent().IsValid() {
					t.Errorf("the owner's span is below %v", span.Parent())
				}
			}
			if n := len(program.ended(trace.SpanKindClient)) + len(owner.ended(trace.SpanKindServer)); n != 4 {
				t.Errorf("%d spans, want 4", n)
			}
		})
	}
}

func TestErrorsHaveAReason(t *testing.T) {
	s := newService(t)
	for _, row := range []struct {
		err    error
		reason string
	}{
		{context.DeadlineExceeded, "timeout"},
		{context.Canceled, "canceled"},
		{rpc.Refuse("too large"), "refused"},
		{rpc.ErrUnknownType, "unknown-type"},
		{errors.New("no route"), "failed"},
		{nil, "panic"},
	} {
		d := s.Caller("b:1", rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
			if row.err == nil {
				panic("boom")
			}
			return nil, row.err
		}))
		if _, err := d.Update(t.Context(), "me", &anypb.Any{TypeUrl: "x/of.somebody.Else"}); err == nil {
			t.Errorf("%s: no error", row.reason)
		}
		spans := s.ended(trace.SpanKindClient)
		span := spans[len(spans)-1]
		if span.Name() != "headgate other" || span.Status().Code != codes.Error || !slices.Contains(span.Attributes(), attribute.String("error.type", row.reason)) {
			t.Errorf("%s: %q, %+v, %v", row.reason, span.Name(), span.Status(), span.Attributes())
		}
		if n := s.counts(t)["rpc.client.call.duration other "+row.reason]; n != 1 {
			t.Errorf("%s: counted %d times", row.reason, n)
		}
	}
}

// Two Nodes and a program with the instrument have spans of their reports, and of the events
// that they ask for.
func TestNodesAndProgramsTraceTheirCalls(t *testing.T) {
	const limits = `
defaults: {update_interval: 100ms}
limits: [{key: "few:*", limit: 1/h, burst: 2}]
`
	snapshot, problems := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if problems != nil {
		t.Fatal(problems)
	}
	listeners := []net.Listener{listen(t), listen(t)}
	members, err := static.New(ringpop.Host{Address: listeners[0].Addr().String()}, ringpop.Host{Address: listeners[1].Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	var nodes []*headgate.Node
	both := newService(t)
	for _, l := range listeners {
		n, err := headgate.New(headgate.Config{Address: l.Addr().String()}, memory.New(snapshot), members,
			headgate.WithListen(l), headgate.WithLogger(quiet), headgate.WithInstrument(both))
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := n.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
		nodes = append(nodes, n)
	}
	edge, program := newService(t), newService(t)
	l, s := listen(t), grpc.NewServer(rpcgrpc.ServerDefaults()...)
	rpcgrpc.Register(s, edge.Answerer(nodes[0].Edge(nil)), rpcgrpc.ServerOptions{})
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	c, err := client.New(client.Config{Addresses: []string{l.Addr().String()}}, memory.New(snapshot), client.WithLogger(quiet), client.WithInstrument(program))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })

	names := func(s *service) map[string]bool {
		all := make(map[string]bool)
		for _, span := range s.spans.Ended() {
			all[span.SpanKind().String()+" "+span.Name()] = true
		}
		return all
	}
	waittest.Until(t, "all have spans", func() bool {
		for _, key := range []string{"few:a", "few:b", "few:c", "few:d"} {
			c.For(key).Allow()
			nodes[0].For(key).Allow()
			nodes[1].For(key).Allow()
		}
		of, below, above := names(both), names(program), names(edge)
		return of["client headgate Usage"] && of["server headgate Usage"] && of["client headgate Takes"] && of["server headgate Takes"] &&
			below["client headgate Usage"] && below["client headgate Takes"] && above["server headgate Usage"] && above["server headgate Takes"]
	})
}
