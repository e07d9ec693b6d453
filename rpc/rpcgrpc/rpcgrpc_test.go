// SPDX-License-Identifier: Apache-2.0

package rpcgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/addresstest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

func TestMain(m *testing.M) { waittest.Main(m) }

// edge is a server on loopback with a health service.
type edge struct {
	address string
	server  *grpc.Server
	health  *health.Server
	calls   atomic.Int64
}

// serve runs an edge at address until the test ends.
func serve(t *testing.T, address string, d rpc.Decider, o rpcgrpc.ServerOptions) *edge {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	e := &edge{address: l.Addr().String(), server: grpc.NewServer(rpcgrpc.ServerDefaults()...), health: health.NewServer()}
	rpcgrpc.Register(e.server, rpc.DeciderFunc(func(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
		e.calls.Add(1)
		return d.Update(ctx, host, payload)
	}), o)
	grpc_health_v1.RegisterHealthServer(e.server, e.health)
	e.health.SetServingStatus(rpcgrpc.Service, grpc_health_v1.HealthCheckResponse_SERVING)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = e.server.Serve(l)
	}()
	t.Cleanup(func() {
		e.server.Stop()
		<-ended
	})
	return e
}

func newClient(t *testing.T, addresses ...string) *rpcgrpc.Client {
	t.Helper()
	c, err := rpcgrpc.NewClient(addresses, rpcgrpc.ClientOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// eventually waits for a condition, not for a time.
var eventually = waittest.Until

var word = &anypb.Any{TypeUrl: "x/y.Z", Value: []byte("word")}

var echo = rpc.DeciderFunc(func(_ context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	return &anypb.Any{TypeUrl: payload.GetTypeUrl(), Value: append([]byte(host+" says "), payload.GetValue()...)}, nil
})

func TestACallCarriesTheHostAndThePayload(t *testing.T) {
	c := newClient(t, serve(t, "127.0.0.1:0", echo, rpcgrpc.ServerOptions{}).address)
	answer, err := c.Update(t.Context(), "me", word)
	if err != nil || string(answer.Value) != "me says word" || answer.TypeUrl != word.TypeUrl {
		t.Errorf("%v, %v", answer, err)
	}
}

func TestErrorsThatCallersBranchOnPassThrough(t *testing.T) {
	var fails error
	c := newClient(t, serve(t, "127.0.0.1:0", rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
		if fails == nil {
			panic("boom")
		}
		return nil, fails
	}), rpcgrpc.ServerOptions{}).address)
	known := []error{rpc.ErrPayload, rpc.ErrUnknownType, context.DeadlineExceeded, context.Canceled}
	for _, tc := range []struct {
		err  error
		is   error // of the known ones
		code codes.Code
	}{
		{fmt.Errorf("row 3: %w", rpc.ErrPayload), rpc.ErrPayload, codes.InvalidArgument},
		{fmt.Errorf("%w x", rpc.ErrUnknownType), rpc.ErrUnknownType, codes.Unimplemented},
		{context.DeadlineExceeded, context.DeadlineExceeded, codes.DeadlineExceeded},
		{fmt.Errorf("gone: %w", context.Canceled), context.Canceled, codes.Canceled},
		{rpc.ErrNoOwner, nil, codes.Unavailable},
		{errors.New("disk full"), nil, codes.Unavailable},
		{errors.Join(status.Error(codes.ResourceExhausted, "too many hosts"), rpc.ErrPayload), nil, codes.ResourceExhausted},
		{nil, nil, codes.Internal}, // the panic
	} {
		fails = tc.err
		answer, err := c.Update(t.Context(), "me", word)
		if answer != nil || status.Code(err) != tc.code {
			t.Errorf("%v: got %v, %v; want code %v", tc.err, answer, err, tc.code)
			continue
		}
		for _, k := range known {
			if got, want := errors.Is(err, k), errors.Is(tc.is, k); got != want {
				t.Errorf("%v: %v is %v: %v", tc.err, err, k, got)
			}
		}
		if tc.err != nil && !strings.Contains(err.Error(), tc.err.Error()) {
			t.Errorf("%q does not say %q", err, tc.err)
		}
	}
}

func TestTheTransportSaysWhoCalls(t *testing.T) {
	c := newClient(t, serve(t, "127.0.0.1:0", echo, rpcgrpc.ServerOptions{
		Identify: func(_ context.Context, claimed string) (string, error) {
			if claimed == "liar" {
				return "", errors.New("the certificate is another's")
			}
			return "certified " + claimed, nil
		},
	}).address)
	if answer, err := c.Update(t.Context(), "me", word); err != nil || string(answer.Value) != "certified me says word" {
		t.Errorf("%v, %v", answer, err)
	}
	if _, err := c.Update(t.Context(), "liar", word); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), `"liar"`) {
		t.Errorf("a liar: %v", err)
	}
}

func TestCallsHaveDeadlinesOnBothSides(t *testing.T) {
	left := make(chan time.Duration, 1)
	e := serve(t, "127.0.0.1:0", rpc.DeciderFunc(func(ctx context.Context, _ string, payload *anypb.Any) (*anypb.Any, error) {
		deadline, ok := ctx.Deadline()
		if !ok {
			left <- 0
			return payload, nil
		}
		left <- time.Until(deadline)
		return payload, nil
	}), rpcgrpc.ServerOptions{})
	c := newClient(t, e.address)
	for _, tc := range []struct{ own, most time.Duration }{
		{0, rpcgrpc.DefaultTimeout},
		{time.Hour, rpcgrpc.MaxTimeout},
		{8 * time.Second, 8 * time.Second},
	} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if tc.own > 0 {
			ctx, cancel = context.WithTimeout(ctx, tc.own)
		}
		_, err := c.Update(ctx, "me", word)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		if got := <-left; got <= 0 || got > tc.most {
			t.Errorf("the caller has %v: the decider has %v, want at most %v", tc.own, got, tc.most)
		}
	}
}

// Errors are logged, and the other side chooses how long their texts are.
func TestAnErrorHasTheBeginningOfALongText(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.InvalidArgument} {
		c := newClient(t, serve(t, "127.0.0.1:0", rpc.DeciderFunc(func(context.Context, string, *anypb.Any) (*anypb.Any, error) {
			return nil, status.Error(code, strings.Repeat("x", 1<<20))
		}), rpcgrpc.ServerOptions{}).address)
		ctx, cancel := context.WithTimeout(t.Context(), rpcgrpc.MaxTimeout)
		_, err := c.Update(ctx, "me", word)
		cancel()
		if status.Code(err) != code || len(err.Error()) > 3000 || !strings.Contains(err.Error(), "xxx") {
			t.Errorf("%v: an error of %d bytes: %.100v", code, len(fmt.Sprint(err)), err)
		}
	}
}

func TestTooLargeAMessageIsAnErrorAndNothingMore(t *testing.T) {
	c := newClient(t, serve(t, "127.0.0.1:0", echo, rpcgrpc.ServerOptions{}).address)
	large := &anypb.Any{TypeUrl: "x/y.Z", Value: make([]byte, rpcgrpc.MaxMessageBytes+1)}
	if _, err := c.Update(t.Context(), "me", large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("sent: %v", err)
	}
	large.Value = large.Value[:rpcgrpc.MaxMessageBytes-100] // and the answer is longer
	if _, err := c.Update(t.Context(), strings.Repeat("h", 200), large); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("answered: %v", err)
	}
	if _, err := c.Update(t.Context(), "me", word); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

func TestAnyOfTheAddressesAnswers(t *testing.T) {
	var edges []*edge
	addresses := addresstest.Free(t, 3)
	for _, at := range addresses {
		edges = append(edges, serve(t, at, echo, rpcgrpc.ServerOptions{}))
	}
	c := newClient(t, addresses...)
	// calls returns who was asked by 30 calls, none of which may fail if sure.
	calls := func(sure bool) (per [3]int64) {
		for i, e := range edges {
			per[i] = -e.calls.Load()
		}
		for range 30 {
			if _, err := c.Update(t.Context(), "me", word); err != nil && sure {
				t.Fatal(err)
			}
		}
		for i, e := range edges {
			per[i] += e.calls.Load()
		}
		return per
	}
	even := [3]int64{10, 10, 10}
	eventually(t, "all three are asked alike", func() bool { return calls(true) == even })

	edges[1].health.SetServingStatus(rpcgrpc.Service, grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	eventually(t, "one that is not serving is left out, and no call fails", func() bool { return calls(true) == [3]int64{15, 0, 15} })

	edges[0].server.Stop()
	eventually(t, "one that died is left out", func() bool { return calls(false) == [3]int64{0, 0, 30} })
	if got := calls(true); got != [3]int64{0, 0, 30} {
		t.Errorf("with one left: %v", got)
	}

	edges[1].health.SetServingStatus(rpcgrpc.Service, grpc_health_v1.HealthCheckResponse_SERVING)
	edges[0] = serve(t, addresses[0], echo, rpcgrpc.ServerOptions{})
	eventually(t, "who is back is asked again", func() bool { return calls(true) == even })
}

func TestWhenNobodyIsThereCallsFailSoon(t *testing.T) {
	at := addresstest.Free(t, 1)[0]
	c := newClient(t, at)
	if _, err := c.Update(t.Context(), "me", word); status.Code(err) != codes.Unavailable {
		t.Errorf("%v", err)
	}
	e := serve(t, at, echo, rpcgrpc.ServerOptions{})
	eventually(t, "it connects when there is somebody", func() bool {
		_, err := c.Update(t.Context(), "me", word)
		return err == nil
	})
	if e.calls.Load() != 1 {
		t.Errorf("%d calls", e.calls.Load())
	}
	c.Close()
	if _, err := c.Update(t.Context(), "me", word); !errors.Is(err, context.Canceled) {
		t.Errorf("after Close: %v", err)
	}
}

func TestBadAddressesAreToldAllAtOnce(t *testing.T) {
	many := make([]string, rpcgrpc.MaxAddresses+1)
	for i := range many {
		many[i] = fmt.Sprintf("h%d:1", i)
	}
	for _, tc := range []struct {
		addresses []string
		want      []string
	}{
		{nil, []string{"0 addresses: give 1 to 64"}},
		{many, []string{"65 addresses: give 1 to 64"}},
		{[]string{"nowhere", ":7934", "h:", "h:1", "h:1"}, []string{`"nowhere" is not host:port`, `":7934" is not host:port`, `"h:" is not host:port`, `"h:1" stands twice`}},
		{[]string{"h:0", "h:99999", "h:-1"}, []string{`"h:0" has no port from 1 to 65535`, `"h:99999" has no port`, `"h:-1" has no port`}},
	} {
		c, err := rpcgrpc.NewClient(tc.addresses, rpcgrpc.ClientOptions{})
		if err == nil {
			c.Close()
			t.Errorf("%.80v: no error", tc.addresses)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%.80v: %v does not say %s", tc.addresses, err, want)
			}
		}
	}
}

// A call whose Identify panics is refused, and the server goes on: else any host that can connect
// might end it.
func TestACallThatCannotBeIdentifiedEndsNoServer(t *testing.T) {
	c := newClient(t, serve(t, "127.0.0.1:0", echo, rpcgrpc.ServerOptions{
		Identify: func(_ context.Context, claimed string) (string, error) {
			if claimed == "plain" {
				panic("no certificate")
			}
			return claimed, nil
		},
	}).address)
	if _, err := c.Update(t.Context(), "plain", word); status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "no certificate") {
		t.Errorf("a call that cannot be identified: %v", err)
	}
	if _, err := c.Update(t.Context(), "me", word); err != nil {
		t.Errorf("the next call: %v", err)
	}
}
