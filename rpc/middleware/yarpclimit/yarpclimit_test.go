// SPDX-License-Identifier: Apache-2.0

package yarpclimit_test

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
	"go.uber.org/yarpc"
	"go.uber.org/yarpc/api/transport"
	"go.uber.org/yarpc/encoding/raw"
	"go.uber.org/yarpc/transport/grpc"
	"go.uber.org/yarpc/transport/http"
	"go.uber.org/yarpc/yarpcerrors"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/middleware/internal/askingtest"
	"github.com/headgate/headgate/rpc/middleware/yarpclimit"
)

func TestMain(m *testing.M) { waittest.Main(m) }

const limits = `
defaults: {algorithm: even}
limits:
  - {key: "calls:*", limit: 1/h, burst: 2, max_keys: 2}
unmatched: deny
`

func limit(t testing.TB, b edge.Engine, o yarpclimit.Options) *yarpclimit.Limit {
	t.Helper()
	o.Random = func() float64 { return 0 }
	l, err := yarpclimit.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve starts service, whose procedures of each kind do nothing, and a client
// of it; either has the middleware, if not nil.
func serve(t *testing.T, server, client *yarpclimit.Limit) *yarpc.Dispatcher {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls, oneways := grpc.NewTransport(), http.NewTransport()
	byHTTP := oneways.NewInbound("127.0.0.1:0")
	service := yarpc.Config{Name: "service", Inbounds: yarpc.Inbounds{calls.NewInbound(l), byHTTP}}
	if server != nil {
		service.InboundMiddleware = yarpc.InboundMiddleware{Unary: server, Oneway: server, Stream: server}
	}
	serving := yarpc.NewDispatcher(service)
	serving.Register(raw.Procedure("unary", func(context.Context, []byte) ([]byte, error) { return []byte("done"), nil }))
	serving.Register(raw.OnewayProcedure("oneway", func(context.Context, []byte) error { return nil }))
	serving.Register([]transport.Procedure{{
		Name: "stream", Service: "service", Encoding: raw.Encoding, HandlerSpec: transport.NewStreamHandlerSpec(streaming{}),
	}})
	run(t, serving)
	out := calls.NewSingleOutbound(l.Addr().String())
	caller := yarpc.Config{Name: "caller", Outbounds: yarpc.Outbounds{"service": {
		Unary: out, Stream: out, Oneway: oneways.NewSingleOutbound("http://" + byHTTP.Addr().String()),
	}}}
	if client != nil {
		caller.OutboundMiddleware = yarpc.OutboundMiddleware{Unary: client, Oneway: client, Stream: client}
	}
	calling := yarpc.NewDispatcher(caller)
	run(t, calling)
	return calling
}

func run(t *testing.T, d *yarpc.Dispatcher) {
	t.Helper()
	if err := d.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// streaming ends each stream as it begins.
type streaming struct{}

func (streaming) HandleStream(*transport.ServerStream) error { return nil }

// call calls one procedure, and returns the code of its error, and when to come
// again.
func call(t *testing.T, d *yarpc.Dispatcher, procedure, tenant string) (code yarpcerrors.Code, later string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	config := d.ClientConfig("service")
	client := raw.New(config)
	var err error
	switch procedure {
	case "unary":
		var headers map[string]string
		_, err = client.Call(ctx, procedure, nil, yarpc.WithHeader("tenant", tenant), yarpc.ResponseHeaders(&headers))
		later = headers[yarpclimit.RetryAfter]
	case "oneway":
		_, err = client.CallOneway(ctx, procedure, nil, yarpc.WithHeader("tenant", tenant))
	case "stream":
		err = stream(ctx, d.MustOutboundConfig("service"), tenant)
	}
	if err == nil {
		return yarpcerrors.CodeOK, later
	}
	return yarpcerrors.FromError(err).Code(), later
}

func stream(ctx context.Context, config *transport.OutboundConfig, tenant string) error {
	s, err := config.Outbounds.Stream.CallStream(ctx, &transport.StreamRequest{Meta: &transport.RequestMeta{
		Caller: "caller", Service: "service", Encoding: raw.Encoding, Procedure: "stream",
		Headers: transport.NewHeaders().With("tenant", tenant),
	}})
	if err != nil {
		return err
	}
	if _, err = s.ReceiveMessage(ctx); err == io.EOF { //nolint:errorlint // the transport's very own
		return nil
	}
	return err
}

func TestServicesRefuse(t *testing.T) {
	for _, procedure := range []string{"unary", "stream"} {
		scope := tally.NewTestScope("", nil)
		client := serve(t, limit(t, enginetest.Of(t, limits), yarpclimit.Options{Key: "calls:{header:tenant}", Scope: scope}), nil)
		for i, tc := range []struct {
			tenant string
			code   yarpcerrors.Code
			later  bool
		}{
			{"a", yarpcerrors.CodeOK, false},
			{"a", yarpcerrors.CodeOK, false},
			{"a", yarpcerrors.CodeResourceExhausted, true},
			{"b", yarpcerrors.CodeOK, false},
			{"c", yarpcerrors.CodeResourceExhausted, false},
		} {
			code, later := call(t, client, procedure, tc.tenant)
			if code != tc.code || (later != "") != (tc.later && procedure == "unary") || later != "" && !strings.HasPrefix(later, "3") {
				t.Errorf("%s %d: %v, come again after %q", procedure, i, code, later)
			}
		}
		for reason, want := range map[string]int64{"granted": 3, "limited": 1, "too-many-keys": 1} {
			if got := scope.Snapshot().Counters()["yarpclimit.calls+reason="+reason].Value(); got != want {
				t.Errorf("%s %s: %d", procedure, reason, got)
			}
		}
	}
}

// Nobody hears what became of a oneway call but the service itself.
func TestServicesRefuseOnewayCalls(t *testing.T) {
	scope := tally.NewTestScope("", nil)
	client := serve(t, limit(t, enginetest.Of(t, limits), yarpclimit.Options{Key: "calls:{user}", Scope: scope}), nil)
	for range 3 {
		if code, _ := call(t, client, "oneway", ""); code != yarpcerrors.CodeOK {
			t.Errorf("%v", code)
		}
	}
	counted := func(reason string) int64 {
		return scope.Snapshot().Counters()["yarpclimit.calls+reason="+reason].Value()
	}
	waittest.Until(t, "two granted and one limited", func() bool { return counted("granted") == 2 && counted("limited") == 1 })
}

func TestCallersRefuse(t *testing.T) {
	for _, procedure := range []string{"unary", "oneway", "stream"} {
		client := serve(t, nil, limit(t, enginetest.Of(t, limits), yarpclimit.Options{Key: "calls:{path}"}))
		for i, want := range []yarpcerrors.Code{yarpcerrors.CodeOK, yarpcerrors.CodeOK, yarpcerrors.CodeResourceExhausted} {
			if code, _ := call(t, client, procedure, ""); code != want {
				t.Errorf("%s %d: %v", procedure, i, code)
			}
		}
	}
}

// asked has l asked about one call without a transport.
func asked(ctx context.Context, l *yarpclimit.Limit) error {
	request := &transport.Request{
		Caller: "me", Service: "orders", Procedure: "List", Headers: transport.NewHeaders().With("x", "y"),
	}
	_, err := l.Call(ctx, request, granting{})
	return err
}

// granting is an outbound that answers.
type granting struct{ transport.UnaryOutbound }

func (granting) Call(context.Context, *transport.Request) (*transport.Response, error) {
	return &transport.Response{}, nil
}

func TestAttributesAndReasons(t *testing.T) {
	for reason, want := range map[edge.Reason]yarpcerrors.Code{
		edge.Soft: yarpcerrors.CodeOK, edge.Limited: yarpcerrors.CodeResourceExhausted, edge.TooCostly: yarpcerrors.CodeResourceExhausted,
		edge.Unmatched: yarpcerrors.CodePermissionDenied, edge.TooManyKeys: yarpcerrors.CodeResourceExhausted,
		edge.InvalidKey: yarpcerrors.CodeInvalidArgument, edge.InvalidCost: yarpcerrors.CodeUnavailable, edge.Failed: yarpcerrors.CodeUnavailable,
		edge.InFlight: yarpcerrors.CodeUnavailable, edge.Reason(edge.Reasons): yarpcerrors.CodeUnavailable,
	} {
		n := &askingtest.Noting{Decision: edge.Decision{OK: reason == edge.Soft, Reason: reason}}
		err := asked(t.Context(), limit(t, n, yarpclimit.Options{
			Key:  "{method}|{path}|{user}|{header:X}|{header:none}",
			Cost: func(_ context.Context, call *transport.RequestMeta) int64 { return int64(len(call.Procedure)) },
		}))
		if code := yarpcerrors.FromError(err).Code(); code != want {
			t.Errorf("%v: %v", reason, err)
		}
		if n.Key != "List|orders%3A%3AList|me|y|" || n.Cost != 4 {
			t.Errorf("%q, %d", n.Key, n.Cost)
		}
	}
	n := &askingtest.Noting{Decision: edge.Decision{OK: true}}
	o := yarpclimit.Options{Key: "{user}", User: func(context.Context, *transport.RequestMeta) string { return "you" }}
	if err := asked(t.Context(), limit(t, n, o)); err != nil || n.Key != "you" || n.Cost != 1 {
		t.Errorf("%q, %d, %v", n.Key, n.Cost, err)
	}
}

func TestCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, enginetest.Of(t, limits), yarpclimit.Options{Key: "calls:x", MaxWait: 2 * time.Hour})
		began := time.Now()
		for i, want := range []time.Duration{0, 0, time.Hour, 2 * time.Hour} {
			if err := asked(t.Context(), l); err != nil || time.Since(began).Round(time.Second) != want {
				t.Errorf("%d: %v after %v", i, err, time.Since(began))
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now() // its deadline comes before its turn
		if code := yarpcerrors.FromError(asked(ctx, l)).Code(); code != yarpcerrors.CodeResourceExhausted || time.Since(began) != 0 {
			t.Errorf("%v after %v", code, time.Since(began))
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if code := yarpcerrors.FromError(asked(ctx, l)).Code(); code != yarpcerrors.CodeCancelled {
			t.Errorf("%v", code)
		}
	})
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]yarpclimit.Options{
		"has 0 bytes": {}, "a MaxWait of": {Key: "k", MaxWait: -1}, "than {ip}": {Key: "k:{ip/24}"},
	} {
		if _, err := yarpclimit.New(enginetest.Of(t, limits), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := yarpclimit.New(nil, yarpclimit.Options{Key: "k"}); err == nil || !strings.Contains(err.Error(), "use engine.New") {
		t.Errorf("without an engine: %v", err)
	}
}
