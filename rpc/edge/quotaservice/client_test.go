// SPDX-License-Identifier: Apache-2.0

package quotaservice_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/edge/quotaservice"
	pb "github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// wire is a connection to a server, as tests want it to be.
type wire struct {
	grpc.ClientConnInterface
	asked int
	allow func(ctx context.Context, r *pb.AllowRequest) (*pb.AllowResponse, error)
}

func (w *wire) Invoke(ctx context.Context, _ string, args, reply any, _ ...grpc.CallOption) error {
	w.asked++
	r, err := w.allow(ctx, args.(*pb.AllowRequest))
	if err == nil {
		to := reply.(*pb.AllowResponse)
		to.Status, to.TokensGranted, to.WaitMillis = r.Status, r.TokensGranted, r.WaitMillis
	}
	return err
}

func newClient(t *testing.T, w *wire, o quotaservice.ClientOptions) *quotaservice.Client {
	t.Helper()
	c, err := quotaservice.NewClient(w, fixed{edge.Decision{OK: true, Reason: edge.Soft}}, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A client of a real server is told what its limiters decide.
func TestClientsHearWhatIsDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := quotaservice.NewServer(engine.New(limiter.NewGroup(snapshot(t, "namespaces: {a: {max_dynamic_buckets: 1, dynamic_bucket_template: {size: 2, fill_rate: 1, max_tokens_per_request: 2}}}"), 1), nil), quotaservice.ServerOptions{})
		c := newClient(t, &wire{allow: server.Allow}, quotaservice.ClientOptions{})
		for _, tc := range []struct {
			key     string
			n       int64
			longest time.Duration
			want    edge.Decision
		}{
			{"a:b:c", 2, 0, edge.Decision{OK: true}},
			{"a:b:c", 2, 0, edge.Decision{OK: true}}, // in debt now, for 2 s
			{"a:b:c", 1, 0, edge.Decision{Reason: edge.Limited}},
			{"a:b:c", 3, 0, edge.Decision{Reason: edge.TooCostly}},
			{"a:b:c", 0, 0, edge.Decision{OK: true}},
			{"a:b:c", -1, 0, edge.Decision{Reason: edge.InvalidCost}},
			{"a:b:c", 1, edge.AsLongAsTheRule, edge.Decision{Reason: edge.Limited}},
			{"a:x", 1, 0, edge.Decision{Reason: edge.TooManyKeys}},
			{"x:y", 1, 0, edge.Decision{Reason: edge.Unmatched}},
			{"a:" + strings.Repeat("x", 2000), 1, 0, edge.Decision{Reason: edge.TooManyKeys}},
			{"x", 1, 0, edge.Decision{Reason: edge.InvalidKey}},
			{":x", 1, 0, edge.Decision{Reason: edge.InvalidKey}},
			{"x:", 1, 0, edge.Decision{Reason: edge.InvalidKey}},
		} {
			if got := c.Decide(t.Context(), edge.Ask{Key: tc.key, Cost: tc.n, Longest: tc.longest}); got != tc.want {
				t.Errorf("%.10s %d: %+v, want %+v", tc.key, tc.n, got, tc.want)
			}
		}
		time.Sleep(1001 * time.Millisecond)
		if got := c.Decide(t.Context(), edge.Ask{Key: "a:b:c", Cost: 1, Longest: edge.AsLongAsTheRule}); !got.OK || got.Wait != 999*time.Millisecond {
			t.Errorf("%+v", got)
		}
	})
}

func TestClientsFallBackLeaveServersAloneAndComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context, _ *pb.AllowRequest) (*pb.AllowResponse, error) {
			<-ctx.Done()
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		w := &wire{allow: silent}
		scope := tally.NewTestScope("", nil)
		c := newClient(t, w, quotaservice.ClientOptions{Timeout: 50 * time.Millisecond, Failures: 3, Probe: time.Second, Scope: scope})
		decide := func(reason edge.Reason, took time.Duration) {
			t.Helper()
			began := time.Now()
			if d := c.Decide(t.Context(), edge.Ask{Key: "a:b", Cost: 1}); !d.OK || d.Reason != reason || time.Since(began) != took {
				t.Errorf("%+v after %v", d, time.Since(began))
			}
		}
		for range 3 {
			decide(edge.Soft, 50*time.Millisecond)
		}
		for range 10 {
			decide(edge.Soft, 0) // nobody is asked
		}
		if w.asked != 3 {
			t.Errorf("asked %d times", w.asked)
		}
		time.Sleep(1500 * time.Millisecond)
		decide(edge.Soft, 50*time.Millisecond) // the probe
		decide(edge.Soft, 0)
		w.allow = func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) { return &pb.AllowResponse{}, nil }
		time.Sleep(1500 * time.Millisecond)
		for range 3 {
			decide(edge.Granted, 0)
		}
		if w.asked != 7 {
			t.Errorf("asked %d times", w.asked)
		}
		counters := scope.Snapshot().Counters()
		for name, want := range map[string]int64{"decisions+by=server": 3, "decisions+by=fallback": 15, "timeouts+": 4, "failures+": 4, "opened+": 1} {
			if got := counters["quotaservice_client."+name].Value(); got != want {
				t.Errorf("%s: %d, want %d", name, got, want)
			}
		}
	})
}

// Failures between answers are not in a row.
func TestAnAnswerEndsARowOfFailures(t *testing.T) {
	fails := false
	w := &wire{allow: func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) {
		if fails = !fails; fails {
			return nil, status.Error(codes.Unavailable, "no")
		}
		return &pb.AllowResponse{}, nil
	}}
	c := newClient(t, w, quotaservice.ClientOptions{Failures: 2})
	for range 10 {
		c.Decide(t.Context(), edge.Ask{Key: "a:b", Cost: 1})
	}
	if w.asked != 10 {
		t.Errorf("asked %d times", w.asked)
	}
}

// What a server cannot mean is no answer, and who leaves is no failure of it.
func TestNonsenseIsAFailureAndLeavingIsNot(t *testing.T) {
	for name, allow := range map[string]func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error){
		"server error": func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) {
			return &pb.AllowResponse{Status: serverError}, nil
		},
		"no status": func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) {
			return &pb.AllowResponse{Status: 77}, nil
		},
		"negative wait": func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) {
			return &pb.AllowResponse{WaitMillis: -1}, nil
		},
		"endless wait": func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) {
			return &pb.AllowResponse{WaitMillis: math.MaxInt64}, nil
		},
		"unavailable": func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) {
			return nil, status.Error(codes.Unavailable, "")
		},
		"other": func(context.Context, *pb.AllowRequest) (*pb.AllowResponse, error) { return nil, errors.New("x") },
	} {
		w := &wire{allow: allow}
		c := newClient(t, w, quotaservice.ClientOptions{Failures: 2})
		for range 5 {
			if d := c.Decide(t.Context(), edge.Ask{Key: "a:b", Cost: 1}); d.Reason != edge.Soft {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if w.asked != 2 {
			t.Errorf("%s: asked %d times", name, w.asked)
		}
	}
	w := &wire{allow: func(ctx context.Context, _ *pb.AllowRequest) (*pb.AllowResponse, error) { return nil, ctx.Err() }}
	c := newClient(t, w, quotaservice.ClientOptions{Failures: 2})
	gone, leave := context.WithCancel(t.Context())
	leave()
	for range 5 {
		if d := c.Decide(gone, edge.Ask{Key: "a:b", Cost: 1}); d.OK || d.Reason != edge.Failed {
			t.Errorf("%+v", d)
		}
	}
	if w.asked != 5 {
		t.Errorf("asked %d times", w.asked)
	}
	if _, err := quotaservice.NewClient(w, fixed{}, quotaservice.ClientOptions{Timeout: -1}); err == nil {
		t.Error("a negative timeout is taken")
	}
}
