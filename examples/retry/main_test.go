// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
)

func TestTheExampleRuns(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"http: 4 calls", "grpc: 4 calls", "local: 4 calls"} {
		if !strings.Contains(out.String(), kind) {
			t.Errorf("no %q in %q", kind, &out)
		}
	}
}

// answers is a server that gives one answer after another, then 200.
type answers []http.Response

// RoundTrip implements http.RoundTripper.
func (a *answers) RoundTrip(*http.Request) (*http.Response, error) {
	next := http.Response{StatusCode: http.StatusOK}
	if len(*a) > 0 {
		next, *a = (*a)[0], (*a)[1:]
	}
	next.Status, next.Body = http.StatusText(next.StatusCode), http.NoBody
	return &next, nil
}

func answer(code int, after string) http.Response {
	return http.Response{StatusCode: code, Header: http.Header{"Retry-After": {after}}}
}

func TestGetComesBackWhenTheServerSays(t *testing.T) {
	for _, tc := range []struct {
		name        string
		first       http.Response
		least, most time.Duration
		fails       string
	}{
		{"seconds", answer(429, "3"), 3 * time.Second, 3301 * time.Millisecond, ""},
		{"unavailable", answer(503, "1"), time.Second, 1101 * time.Millisecond, ""},
		{"a date", answer(429, "Sat, 01 Jan 2000 00:00:05 GMT"), 5 * time.Second, 5501 * time.Millisecond, ""},
		{"a date that is past", answer(429, "Fri, 31 Dec 1999 00:00:00 GMT"), 1, time.Second, ""},
		{"not said", answer(429, ""), 1, time.Second, ""},
		{"nonsense", answer(429, "99999999999999999999"), 1, time.Second, ""},
		{"too late", answer(429, "3600"), 0, 0, "over the limit"},
		{"another error", answer(404, "1"), 0, 0, "Not Found"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which begins at 2000-01-01 00:00 UTC
				began := time.Now()
				_, err := get(t.Context(), &http.Client{Transport: &answers{tc.first}}, "http://server")
				if (err == nil) != (tc.fails == "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("error %v, want %q", err, tc.fails)
				}
				if took := time.Since(began); took < tc.least || took > tc.most {
					t.Errorf("took %v, want %v to %v", took, tc.least, tc.most)
				}
			})
		})
	}
}

func TestGetGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server answers
		for range 10 {
			server = append(server, answer(429, "1"))
		}
		_, err := get(t.Context(), &http.Client{Transport: &server}, "http://server")
		if !errors.Is(err, errThrottled) || len(server) != 5 {
			t.Errorf("%v with %d answers left", err, len(server))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := get(ctx, &http.Client{Transport: &server}, "http://server"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}

func newGroup(t *testing.T) *limiter.Group {
	t.Helper()
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	return limiter.NewGroup(snapshot, 1)
}

// At 2/s and a burst of 2, the fourth call is served a second after the first.
func TestGRPCComesBackWhenTheServerSays(t *testing.T) {
	for _, tc := range []struct {
		config string
		want   codes.Code
	}{{serviceConfig, codes.OK}, {"{}", codes.ResourceExhausted}} {
		synctest.Test(t, func(t *testing.T) {
			listener := bufconn.Listen(1 << 16)
			server, err := serveGRPC(newGroup(t), listener)
			if err != nil {
				t.Fatal(err)
			}
			defer server.Stop()
			conn, err := grpc.NewClient("passthrough:server", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultServiceConfig(tc.config),
				grpc.WithContextDialer(func(context.Context, string) (net.Conn, error) { return listener.Dial() }))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			began := time.Now()
			for range 4 {
				_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), nil)
			}
			if status.Code(err) != tc.want {
				t.Fatal(err)
			}
			if took := time.Since(began); tc.want == codes.OK && (took < time.Second || took > 2*time.Second) {
				t.Errorf("4 calls took %v", took)
			}
		})
	}
}

func TestTakeComesBackWhenTheDecisionSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, began := newGroup(t).For("k"), time.Now()
		for range 4 {
			if err := take(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took < time.Second || took > 1200*time.Millisecond {
			t.Errorf("4 took %v", took)
		}
	})
}
