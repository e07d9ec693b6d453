// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// latencies are the buckets of how long an answer took: 50 µs, each twice the
// last, to 0.8 s.
var latencies = tally.MustMakeExponentialDurationBuckets(50*time.Microsecond, 2, 15)

// Meter counts what comes to the doors, and how long answers take. Safe for
// concurrent use.
type Meter struct {
	scope tally.Scope
	calls sync.Map // full method to *callMeter; gRPC only asks for those that are there
}

// NewMeter returns a Meter whose metrics go to scope.
func NewMeter(scope tally.Scope) *Meter { return &Meter{scope: scope} }

// callMeter is of one method.
type callMeter struct {
	byCode [codes.Unauthenticated + 1]tally.Counter // by status code
	took   tally.Histogram
}

func newCallMeter(scope tally.Scope, fullMethod string) *callMeter {
	service, method, _ := strings.Cut(strings.TrimPrefix(fullMethod, "/"), "/")
	scope = scope.Tagged(map[string]string{"service": service, "method": method})
	m := &callMeter{took: scope.Histogram("grpc_latency_seconds", latencies)}
	for code := range m.byCode {
		m.byCode[code] = scope.Tagged(map[string]string{"code": codes.Code(code).String()}).Counter("grpc_calls")
	}
	return m
}

// Call measures one call of gRPC; it is a grpc.UnaryServerInterceptor.
func (m *Meter) Call(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	found, ok := m.calls.Load(info.FullMethod)
	if !ok {
		found, _ = m.calls.LoadOrStore(info.FullMethod, newCallMeter(m.scope, info.FullMethod))
	}
	began := time.Now()
	answer, err := handle(ctx, request)
	if of, ok := found.(*callMeter); ok {
		of.took.RecordDuration(time.Since(began))
		if code := status.Code(err); int(code) < len(of.byCode) {
			of.byCode[code].Inc(1)
		}
	}
	return answer, err
}

// timed measures how long next takes.
func (m *Meter) timed(next http.Handler) http.Handler {
	took := m.scope.Histogram("http_latency_seconds", latencies)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		next.ServeHTTP(w, r)
		took.RecordDuration(time.Since(began))
	})
}
