// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/limiter/engine"
	"github.com/headgate/headgate/rpc/edge/httpapi"
	"github.com/headgate/headgate/rpc/edge/quotaservice"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/middleware/grpclimit"
	"github.com/headgate/headgate/rpc/middleware/httplimit"
)

// answer is what a way in says of a take or a hold.
type answer struct {
	ok   bool
	wait time.Duration

	// left is what the way says is left; NaN where it does not say.
	left float64

	// settle says what the event did cost, and release that it did not happen; nil
	// where the way has no such thing.
	settle  func(actual int)
	release func()
}

// way is one way in.
type way struct {
	name string

	// take takes n tokens. longest is how long the caller would wait; forever: as long
	// as it is let.
	take func(key string, n int, longest time.Duration) answer

	// hold is take with what can be settled; nil: there is none.
	hold func(key string, n int) answer

	// charge takes what is used already, and returns what is left; nil: there is none.
	charge func(key string, n int) (left float64)

	// finite: callers wait for a second at most where the rule has no max_wait.
	finite bool
}

// forever is the longest of a caller that does not care.
const forever = time.Duration(math.MaxInt64)

var unknown = math.NaN()

// ways are all ways into node that take tokens.
func ways(t *testing.T, node *headgate.Node) []way {
	t.Helper()
	e := engine.New(node.Group(), node.Limits().Current)
	all := []way{library(t, node), reservations(node), overHTTP(t, httpapi.New(e, httpapi.Options{}))}
	all = append(all, overQuotaservice(t, quotaservice.NewServer(e, quotaservice.ServerOptions{})))
	return append(all, overMiddleware(t, e)...)
}

// library is limiter.Limiter with decisions.
func library(t *testing.T, node *headgate.Node) way {
	bounded := func(longest time.Duration) time.Duration {
		if longest == forever {
			return -1 // as long as the rule says
		}
		return longest
	}
	return way{
		name: "Go: Decide, Take, Charge",
		take: func(key string, n int, longest time.Duration) answer {
			d := node.For(key).Decide(t.Context(), n, bounded(longest))
			return answer{ok: d.OK, wait: d.Wait, left: d.Left}
		},
		hold: func(key string, n int) answer {
			e := node.For(key).Take(t.Context(), n, 0)
			return answer{ok: e.OK(), left: e.Decision().Left, settle: e.Settle, release: e.Cancel}
		},
		charge: func(key string, n int) float64 {
			node.For(key).Charge(n)
			return node.For(key).Tokens()
		},
	}
}

// reservations are the methods of x/time/rate.
func reservations(node *headgate.Node) way {
	return way{
		name: "Go: Allow, Reserve, Wait",
		take: func(key string, n int, longest time.Duration) answer {
			if longest == 0 {
				return answer{ok: node.For(key).AllowN(time.Now(), n), left: unknown}
			}
			ctx, cancel := context.WithTimeout(context.Background(), min(longest, time.Hour))
			defer cancel()
			began := time.Now()
			err := node.For(key).WaitN(ctx, n)
			return answer{ok: err == nil, wait: time.Since(began), left: unknown}
		},
		hold: func(key string, n int) answer {
			r := node.For(key).ReserveN(time.Now(), n)
			if !r.OK() || r.Delay() > 0 {
				r.Cancel()
				return answer{}
			}
			return answer{ok: true, left: unknown, release: r.Cancel}
		},
	}
}

// overHTTP is the API of programs in other languages.
func overHTTP(t *testing.T, api http.Handler) way {
	type body struct {
		Allowed     bool     `json:"allowed"`
		WaitMS      float64  `json:"wait_ms"`
		Remaining   *float64 `json:"remaining"`
		Reservation string   `json:"reservation"`
	}
	known := []int{http.StatusOK, http.StatusTooManyRequests, http.StatusNotFound} // 404: settled before
	post := func(path string, ask map[string]any) (b body, left float64) {
		text, err := json.Marshal(ask)
		if err != nil {
			t.Fatal(err)
		}
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, bytes.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		api.ServeHTTP(w, r)
		if err := json.Unmarshal(w.Body.Bytes(), &b); err != nil || !slices.Contains(known, w.Code) {
			t.Fatalf("%s of %s: %d, %s", path, text, w.Code, w.Body)
		}
		left = unknown
		if b.Remaining != nil {
			left = *b.Remaining
		}
		return b, left
	}
	return way{
		name: "HTTP", finite: true,
		take: func(key string, n int, longest time.Duration) answer {
			b, left := post("/v1/allow", map[string]any{"key": key, "cost": n, "max_wait_ms": min(longest, 24*time.Hour).Milliseconds()})
			return answer{ok: b.Allowed, wait: time.Duration(b.WaitMS) * time.Millisecond, left: left}
		},
		hold: func(key string, n int) answer {
			b, left := post("/v1/reserve", map[string]any{"key": key, "cost": n})
			settle := func(actual int) {
				post("/v1/settle", map[string]any{"reservation": b.Reservation, "cost": actual})
			}
			return answer{ok: b.Allowed, left: left, settle: settle, release: func() { settle(0) }}
		},
		charge: func(key string, n int) float64 {
			_, left := post("/v1/charge", map[string]any{"key": key, "cost": n})
			return left
		},
	}
}

// overQuotaservice is what quotaservice's clients ask.
func overQuotaservice(t *testing.T, server *quotaservice.Server) way {
	return way{
		name: "quotaservice", finite: true,
		take: func(key string, n int, longest time.Duration) answer {
			namespace, bucket, _ := strings.Cut(key, ":")
			r := &quotaservicepb.AllowRequest{Namespace: namespace, BucketName: bucket, TokensRequested: int64(n)}
			if longest != forever {
				r.MaxWaitTimeOverride, r.MaxWaitMillisOverride = true, longest.Milliseconds()
			}
			a, err := server.Allow(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			return answer{
				ok:   a.GetStatus() == quotaservicepb.AllowResponse_OK,
				wait: time.Duration(a.GetWaitMillis()) * time.Millisecond, left: unknown,
			}
		},
	}
}

// overMiddleware are the interceptors of servers. They wait themselves.
func overMiddleware(t *testing.T, e *engine.Engine) []way {
	return []way{{
		name: "httplimit",
		take: func(key string, n int, longest time.Duration) answer {
			throttle := httplimit.Queue
			if longest == 0 {
				throttle = httplimit.Reject
			}
			limit, err := httplimit.New(e, httplimit.Options{
				Key: "{header:X-Namespace}:{header:X-Bucket}", Throttle: throttle, MaxWait: max(min(longest, time.Hour), time.Nanosecond),
				Cost: func(r *http.Request) int64 { c, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64); return c },
			})
			if err != nil {
				t.Fatal(err)
			}
			namespace, bucket, _ := strings.Cut(key, ":")
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Header.Set("X-Namespace", namespace)
			r.Header.Set("X-Bucket", bucket)
			r.Header.Set("X-Cost", strconv.Itoa(n))
			began, w := time.Now(), httptest.NewRecorder()
			limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })).ServeHTTP(w, r)
			return answer{ok: w.Code == http.StatusNoContent, wait: time.Since(began), left: unknown}
		},
	}, {
		name: "grpclimit",
		take: func(key string, n int, longest time.Duration) answer {
			limit, err := grpclimit.New(e, grpclimit.Options{
				Key: key, MaxWait: min(longest, time.Hour),
				Cost: func(context.Context, string, any) int64 { return int64(n) },
			})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			_, err = limit.UnaryServer(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/s/m"}, func(context.Context, any) (any, error) { return nil, nil })
			if err != nil && status.Code(err) != codes.ResourceExhausted {
				t.Fatal(err)
			}
			return answer{ok: err == nil, wait: time.Since(began), left: unknown}
		},
	}}
}
