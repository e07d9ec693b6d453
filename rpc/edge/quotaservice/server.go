// SPDX-License-Identifier: Apache-2.0

package quotaservice

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"

	"github.com/headgate/headgate/internal/bucketkey"
	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
)

// ServerOptions is the setup of a Server.
type ServerOptions struct {
	// Scope is where metrics go: `quotaservice.requests`, by status; default
	// nowhere.
	Scope tally.Scope
}

// Server answers quotaservice's clients. Use NewServer. Safe for concurrent
// use.
type Server struct {
	quotaservicepb.UnimplementedQuotaServiceServer

	engine   edge.Engine
	requests [statuses]tally.Counter // by status
}

var _ quotaservicepb.QuotaServiceServer = (*Server)(nil)

const statuses = int(quotaservicepb.AllowResponse_REJECTED_SERVER_ERROR) + 1

// NewServer returns a Server that asks engine.
func NewServer(engine edge.Engine, o ServerOptions) *Server {
	s := &Server{engine: engine}
	scope := scopes.Guard(o.Scope, slog.Default()).SubScope("quotaservice")
	for i := range s.requests {
		status := strings.ToLower(quotaservicepb.AllowResponse_Status(i).String())
		s.requests[i] = scope.Tagged(map[string]string{"status": status}).Counter("requests")
	}
	return s
}

// Register makes registrar, usually a *grpc.Server, serve
// quotaservice.QuotaService.
func (s *Server) Register(registrar grpc.ServiceRegistrar) {
	quotaservicepb.RegisterQuotaServiceServer(registrar, s)
}

// Allow takes tokens of one bucket. It never returns an error.
func (s *Server) Allow(ctx context.Context, r *quotaservicepb.AllowRequest) (*quotaservicepb.AllowResponse, error) {
	answer := s.allow(ctx, r)
	s.requests[answer.GetStatus()].Inc(1)
	return answer, nil
}

func (s *Server) allow(ctx context.Context, r *quotaservicepb.AllowRequest) *quotaservicepb.AllowResponse {
	namespace, bucket := r.GetNamespace(), r.GetBucketName()
	if namespace == "" || bucket == "" {
		return &quotaservicepb.AllowResponse{Status: quotaservicepb.AllowResponse_REJECTED_INVALID_REQUEST}
	}
	d := s.engine.Decide(ctx, edge.Ask{Key: bucketkey.Of(namespace, bucket), Cost: max(r.GetTokensRequested(), 1), Longest: longest(r)})
	if !d.OK {
		return &quotaservicepb.AllowResponse{Status: rejection(d.Reason)}
	}
	return &quotaservicepb.AllowResponse{TokensGranted: r.GetTokensRequested(), WaitMillis: d.Wait.Milliseconds()}
}

// longest is how long the caller would wait. An override only lowers what the rule of
// the bucket lets callers wait.
func longest(r *quotaservicepb.AllowRequest) time.Duration {
	if !r.GetMaxWaitTimeOverride() {
		return edge.AsLongAsTheRule
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	return time.Duration(min(max(r.GetMaxWaitMillisOverride(), 0), most)) * time.Millisecond
}

// rejection is the status of a decision that is not OK.
func rejection(r edge.Reason) quotaservicepb.AllowResponse_Status {
	switch r {
	case edge.Limited:
		return quotaservicepb.AllowResponse_REJECTED_TIMEOUT
	case edge.Unmatched, edge.InFlight: // no bucket that gives tokens
		return quotaservicepb.AllowResponse_REJECTED_NO_BUCKET
	case edge.TooManyKeys:
		return quotaservicepb.AllowResponse_REJECTED_TOO_MANY_BUCKETS
	case edge.TooCostly:
		return quotaservicepb.AllowResponse_REJECTED_TOO_MANY_TOKENS_REQUESTED
	case edge.InvalidKey, edge.InvalidCost, edge.Forbidden:
		return quotaservicepb.AllowResponse_REJECTED_INVALID_REQUEST
	default:
		return quotaservicepb.AllowResponse_REJECTED_SERVER_ERROR
	}
}
