// SPDX-License-Identifier: Apache-2.0

package quotaservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/internal/breaker"
	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// Defaults of ClientOptions.
const (
	DefaultTimeout  = 100 * time.Millisecond
	DefaultFailures = 5
	DefaultProbe    = time.Second
)

// ClientOptions is the setup of a Client. The zero ClientOptions is good.
type ClientOptions struct {
	// Timeout bounds one question; default DefaultTimeout. Longer waits
	// longer for a slow server before the fallback decides.
	Timeout time.Duration

	// Failures is after how many questions in a row without an answer the
	// server is no longer asked; default DefaultFailures.
	Failures int

	// Probe is for how long it is then not asked, with a random part more,
	// at most a half; default DefaultProbe. One question after that shows
	// whether it is back.
	Probe time.Duration

	// Scope is where metrics go: `quotaservice_client.decisions`, by who
	// decided, `.timeouts`, `.failures` and `.opened`; default nowhere.
	Scope tally.Scope
}

// Client asks a server of quotaservice's protocol for each event: it is an
// edge.Engine for a program without limits of its own. What the server does
// not answer, the fallback decides. After some failures the server is left
// alone, until a probe shows that it is back. It is safe for concurrent use.
//
// Package limiter/client costs less: it decides in memory, by what deciders
// grant.
type Client struct {
	server   quotaservicepb.QuotaServiceClient
	fallback edge.Engine
	timeout  time.Duration
	breaker  *breaker.Breaker
	began    time.Time // what the breaker's time counts from

	served, fellBack, timeouts, failures, opened tally.Counter
}

var _ edge.Engine = (*Client)(nil)

// NewClient returns a Client that asks at conn, and fallback instead of it.
func NewClient(conn grpc.ClientConnInterface, fallback edge.Engine, o ClientOptions) (*Client, error) {
	if o.Timeout < 0 || o.Failures < 0 || o.Probe < 0 {
		return nil, fmt.Errorf("quotaservice: timeout %v, %d failures, probe after %v: use 0 for the default, or more", o.Timeout, o.Failures, o.Probe)
	}
	o.Timeout, o.Failures, o.Probe = cmp.Or(o.Timeout, DefaultTimeout), cmp.Or(o.Failures, DefaultFailures), cmp.Or(o.Probe, DefaultProbe)
	scope := scopes.Guard(o.Scope, slog.Default()).SubScope("quotaservice_client")
	by := func(who string) tally.Counter { return scope.Tagged(map[string]string{"by": who}).Counter("decisions") }
	return &Client{
		server:   quotaservicepb.NewQuotaServiceClient(conn),
		fallback: fallback,
		timeout:  o.Timeout,
		breaker:  breaker.New(breaker.Config{Failures: o.Failures, Pause: o.Probe, Jitter: o.Probe / 2}),
		began:    time.Now(),
		served:   by("server"),
		fellBack: by("fallback"),
		timeouts: scope.Counter("timeouts"),
		failures: scope.Counter("failures"),
		opened:   scope.Counter("opened"),
	}, nil
}

// Decide implements edge.Engine. The key is `namespace:bucket`. The Decision has no
// Limit, Burst, Left or RetryAfter: the protocol does not say. A cost of 0 is granted
// and not asked for, as the protocol has no such question. It cannot give back or
// charge either: what the server granted to a Hold stays taken, and a Charge has Failed.
func (c *Client) Decide(ctx context.Context, a edge.Ask) edge.Decision {
	switch a.Kind {
	case edge.Take, edge.Hold:
	case edge.Settle, edge.Release, edge.Wait:
		return c.fallback.Decide(ctx, a) // which may hold it
	default:
		return edge.Decision{Reason: edge.Failed}
	}
	n, longest := a.Cost, a.Longest
	namespace, bucket, ok := strings.Cut(a.Key, ":")
	switch {
	case !ok || namespace == "" || bucket == "":
		return edge.Decision{Reason: edge.InvalidKey}
	case n < 0:
		return edge.Decision{Reason: edge.InvalidCost}
	case n == 0:
		return edge.Decision{OK: true}
	}
	call, ok := c.breaker.Begin(c.now())
	if !ok {
		return c.instead(ctx, a)
	}
	r := &quotaservicepb.AllowRequest{Namespace: namespace, BucketName: bucket, TokensRequested: n}
	if longest != edge.AsLongAsTheRule {
		r.MaxWaitTimeOverride, r.MaxWaitMillisOverride = true, max(longest, 0).Milliseconds()
	}
	within, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	answer, err := c.server.Allow(within, r)
	d, decided := decisionOf(answer, err)
	switch {
	case decided:
		c.breaker.End(call, c.now(), breaker.Success)
		c.served.Inc(1)
		return d
	case ctx.Err() != nil: // the caller left, and the server is not to blame
		c.breaker.End(call, c.now(), breaker.Neither)
		return edge.Decision{Reason: edge.Failed}
	}
	c.failures.Inc(1)
	if status.Code(err) == codes.DeadlineExceeded || errors.Is(err, context.DeadlineExceeded) {
		c.timeouts.Inc(1)
	}
	if c.breaker.End(call, c.now(), breaker.Failure) == breaker.Opened {
		c.opened.Inc(1)
	}
	return c.instead(ctx, a)
}

// now is the time for the breaker.
func (c *Client) now() time.Duration { return time.Since(c.began) }

// instead lets the fallback decide.
func (c *Client) instead(ctx context.Context, a edge.Ask) edge.Decision {
	c.fellBack.Inc(1)
	return c.fallback.Decide(ctx, a)
}

// decisionOf is what an answer says; false if it decides nothing.
func decisionOf(r *quotaservicepb.AllowResponse, err error) (edge.Decision, bool) {
	const longest = 365 * 24 * time.Hour
	switch {
	case err != nil:
		return edge.Decision{}, false
	case r.GetStatus() == quotaservicepb.AllowResponse_OK:
		wait := r.GetWaitMillis()
		return edge.Decision{OK: true, Wait: time.Duration(wait) * time.Millisecond}, wait >= 0 && wait <= longest.Milliseconds()
	}
	for _, reason := range []edge.Reason{edge.Limited, edge.Unmatched, edge.TooManyKeys, edge.TooCostly, edge.InvalidKey} {
		if rejection(reason) == r.GetStatus() {
			return edge.Decision{Reason: reason}, true
		}
	}
	return edge.Decision{}, false // a server error, or a status that is none
}
