// SPDX-License-Identifier: Apache-2.0

package grpclimit_test

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate/internal/enginetest"
	"github.com/headgate/headgate/internal/waittest"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/middleware/grpclimit"
	"github.com/headgate/headgate/rpc/middleware/internal/askingtest"
)

func TestMain(m *testing.M) { waittest.Main(m) }

const (
	check = "/grpc.health.v1.Health/Check"

	limits = `
defaults: {algorithm: even}
limits:
  - {key: "calls:*", limit: 1/s, burst: 2, max_keys: 2}
unmatched: deny
`
)

func limit(t testing.TB, b edge.Engine, o grpclimit.Options) *grpclimit.Limit {
	t.Helper()
	o.Random = func() float64 { return 0 }
	l, err := grpclimit.New(b, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve serves health, which has a call of each kind.
func serve(t testing.TB, server []grpc.ServerOption, client ...grpc.DialOption) healthpb.HealthClient {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	s := grpc.NewServer(server...)
	healthpb.RegisterHealthServer(s, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:", append(client, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return l.Dial() }))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return healthpb.NewHealthClient(conn)
}

func serverOptions(l *grpclimit.Limit) []grpc.ServerOption {
	return []grpc.ServerOption{grpc.UnaryInterceptor(l.UnaryServer), grpc.StreamInterceptor(l.StreamServer)}
}

func TestServersRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		scope := tally.NewTestScope("", nil)
		client := serve(t, serverOptions(limit(t, enginetest.Of(t, limits), grpclimit.Options{Key: "{header:group}:{header:tenant}", Scope: scope})))
		for _, tc := range []struct {
			group, tenant string
			code          codes.Code
			pushback      string
		}{
			{"calls", "a", codes.OK, ""},
			{"calls", "a", codes.OK, ""},
			{"calls", "a", codes.ResourceExhausted, "1000"},
			{"calls", "b", codes.OK, ""},
			{"calls", "c", codes.ResourceExhausted, ""},
			{"calls:a", "", codes.PermissionDenied, ""},
		} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "group", tc.group, "tenant", tc.tenant)
			var trailer metadata.MD
			_, err := client.Check(ctx, &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
			if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","); status.Code(err) != tc.code || got != tc.pushback {
				t.Errorf("%s %s: %v, come again after %q", tc.group, tc.tenant, err, got)
			}
		}
		// A stream counts once.
		ctx := metadata.AppendToOutgoingContext(t.Context(), "group", "calls", "tenant", "b")
		for i, want := range []codes.Code{codes.OK, codes.ResourceExhausted} {
			ctx, cancel := context.WithCancel(ctx)
			watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err = watch.Recv(); status.Code(err) != want {
				t.Errorf("stream %d: %v", i, err)
			}
			if want != codes.OK && len(watch.Trailer().Get("grpc-retry-pushback-ms")) != 1 {
				t.Errorf("stream %d: %v", i, watch.Trailer())
			}
			cancel()
		}
		for reason, want := range map[string]int64{"granted": 4, "limited": 2, "unmatched": 1, "too-many-keys": 1} {
			if got := scope.Snapshot().Counters()["grpclimit.calls+reason="+reason].Value(); got != want {
				t.Errorf("%s: %d", reason, got)
			}
		}
	})
}

// A client is told never to try again only if that can never help. If it is not known
// when to come again, its own backoff decides.
func TestRetriesArePushedBackOnlyByWhatIsKnown(t *testing.T) {
	for want, d := range map[string]edge.Decision{
		"":     {Reason: edge.Limited},
		"1500": {Reason: edge.Limited, RetryAfter: 1500 * time.Millisecond},
		"-1":   {Reason: edge.TooCostly},
	} {
		client := serve(t, serverOptions(limit(t, &askingtest.Noting{Decision: d}, grpclimit.Options{Key: "k"})))
		var trailer metadata.MD
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}, grpc.Trailer(&trailer))
		if got := strings.Join(trailer.Get("grpc-retry-pushback-ms"), ","); status.Code(err) != codes.ResourceExhausted || got != want {
			t.Errorf("%+v: %v, come again after %q, want %q", d, err, got, want)
		}
	}
}

func TestCallsWaitForTheirTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := enginetest.Of(t, limits)
		client := serve(t, serverOptions(limit(t, b, grpclimit.Options{Key: "calls:x", MaxWait: time.Second})))
		began := time.Now()
		for i, want := range []time.Duration{0, 0, time.Second, 2 * time.Second} {
			if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil || time.Since(began) != want {
				t.Errorf("%d: %v after %v", i, err, time.Since(began))
			}
		}
		// One whose deadline comes before its turn does not wait.
		began = time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.ResourceExhausted || time.Since(began) != 0 {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		// One that leaves while it waits gives back what it took.
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(500*time.Millisecond, cancel)
		if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.Canceled {
			t.Errorf("%v", err)
		}
		synctest.Wait()
		if d := b.Decide(t.Context(), edge.Ask{Key: "calls:x"}); d.Left < 0.4 {
			t.Errorf("who left took its tokens along: %v are left", d.Left)
		}
	})
}

func TestClientsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := limit(t, enginetest.Of(t, limits), grpclimit.Options{Key: "calls:{method}{{{header:x}}}"})
		client := serve(t, nil, grpc.WithUnaryInterceptor(l.UnaryClient), grpc.WithStreamInterceptor(l.StreamClient))
		for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
			if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != want {
				t.Errorf("call %d: %v", i, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := client.Watch(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != want {
				t.Errorf("stream %d: %v", i, err)
			}
			cancel()
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x", "y")
		if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("a third key of two: %v", err)
		}
	})
}

func TestAttributesAndReasons(t *testing.T) {
	for reason, want := range map[edge.Reason]codes.Code{
		edge.Soft: codes.OK, edge.Limited: codes.ResourceExhausted, edge.TooCostly: codes.ResourceExhausted, edge.Unmatched: codes.PermissionDenied,
		edge.TooManyKeys: codes.ResourceExhausted, edge.InvalidKey: codes.InvalidArgument, edge.InvalidCost: codes.Unavailable,
		edge.Failed: codes.Unavailable, edge.InFlight: codes.Unavailable, edge.Reason(edge.Reasons): codes.Unavailable,
	} {
		n := &askingtest.Noting{Decision: edge.Decision{OK: reason == edge.Soft, Reason: reason}}
		l := limit(t, n, grpclimit.Options{
			Key:  "{path}:{ip}:{user}:{header:none}",
			User: func(context.Context) string { return "me" },
			Cost: func(_ context.Context, method string, request any) int64 {
				if method == check && request != nil {
					return 5
				}
				return 6
			},
		})
		client := serve(t, serverOptions(l))
		if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); status.Code(err) != want {
			t.Errorf("%v: %v", reason, err)
		}
		if n.Key != check+":bufconn:me:" || n.Cost != 5 {
			t.Errorf("%q, %d", n.Key, n.Cost)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for want, o := range map[string]grpclimit.Options{"has 0 bytes": {}, "a MaxWait of": {Key: "k", MaxWait: -1}} {
		if _, err := grpclimit.New(enginetest.Of(t, limits), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := grpclimit.New(nil, grpclimit.Options{Key: "k"}); err == nil || !strings.Contains(err.Error(), "use engine.New") {
		t.Errorf("without an engine: %v", err)
	}
}
