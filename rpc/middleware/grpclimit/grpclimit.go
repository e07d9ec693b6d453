// SPDX-License-Identifier: Apache-2.0

package grpclimit

import (
	"context"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/uber-go/tally/v4"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc/edge"
	"github.com/headgate/headgate/rpc/middleware/internal/asking"
)

// Options is the setup of a Limit.
type Options struct {
	// Key is the template of a call's key; required.
	Key string

	// MaxWait is the longest that a call waits for its turn; the key's rule
	// may have less. Default 0: what is over the limit is refused at once.
	MaxWait time.Duration

	// User says who calls, for {user}; default none.
	User func(ctx context.Context) string

	// Cost says what a call costs, in tokens, by its method and request,
	// which is nil for streams; default 1. 0 is free.
	Cost func(ctx context.Context, method string, request any) int64

	// Random returns numbers in [0, 1) that spread when to come again;
	// default rand.Float64.
	Random func() float64

	// Scope is where metrics go: `grpclimit.calls`, by reason; default
	// nowhere.
	Scope tally.Scope
}

// Limit has interceptors. Use New. It is safe for concurrent use.
type Limit struct {
	asker *asking.Asker
	o     Options
}

// New returns a Limit that asks engine. The error says what is wrong with o.
func New(engine edge.Engine, o Options) (*Limit, error) {
	asker, err := asking.New(engine, asking.Setup{
		Name: "grpclimit", Counter: "calls", Key: o.Key, MaxWait: o.MaxWait, Random: o.Random, Scope: o.Scope,
	})
	if err != nil {
		return nil, err
	}
	return &Limit{asker, o}, nil
}

// UnaryServer is a grpc.UnaryServerInterceptor.
func (l *Limit) UnaryServer(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if err := l.serve(ctx, info.FullMethod, request, func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) }); err != nil {
		return nil, err
	}
	return handle(ctx, request)
}

// StreamServer is a grpc.StreamServerInterceptor.
func (l *Limit) StreamServer(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	if err := l.serve(stream.Context(), info.FullMethod, nil, stream.SetTrailer); err != nil {
		return err
	}
	return handle(srv, stream)
}

// UnaryClient is a grpc.UnaryClientInterceptor.
func (l *Limit) UnaryClient(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if err := l.call(ctx, method, request); err != nil {
		return err
	}
	return invoke(ctx, method, request, reply, conn, opts...)
}

// StreamClient is a grpc.StreamClientInterceptor.
func (l *Limit) StreamClient(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if err := l.call(ctx, method, nil); err != nil {
		return nil, err
	}
	return stream(ctx, desc, conn, method, opts...)
}

// serve is nil if a call that has come in may go on.
func (l *Limit) serve(ctx context.Context, method string, request any, trailer func(metadata.MD)) error {
	d, err := l.decide(ctx, source{ctx, &l.o, method, metadata.ValueFromIncomingContext}, request)
	if err == nil && d.OK {
		return nil
	}
	if err != nil {
		return status.FromContextError(err).Err()
	}
	const never = -1 // the client must not try again
	if later := l.asker.Later(&d); d.Reason == edge.TooCostly {
		pushBack(trailer, never)
	} else if d.Reason == edge.Limited && later > 0 { // otherwise the client's own backoff says when
		pushBack(trailer, edge.Millis(later))
	}
	return refused(d.Reason)
}

// pushBack says to gRPC's own retries when to come again.
func pushBack(trailer func(metadata.MD), millis int64) {
	trailer(metadata.Pairs("grpc-retry-pushback-ms", strconv.FormatInt(millis, 10)))
}

// call is nil if a call may go out.
func (l *Limit) call(ctx context.Context, method string, request any) error {
	d, err := l.decide(ctx, source{ctx, &l.o, method, outgoing}, request)
	switch {
	case err != nil:
		return status.FromContextError(err).Err()
	case !d.OK:
		return refused(d.Reason)
	}
	return nil
}

func (l *Limit) decide(ctx context.Context, of source, request any) (edge.Decision, error) {
	cost := int64(1)
	if l.o.Cost != nil {
		cost = l.o.Cost(ctx, of.method, request)
	}
	s, _ := sources.Get().(*source) // nothing else is put there
	*s = of
	d, err := l.asker.Decide(ctx, s, cost)
	*s = source{}
	sources.Put(s)
	return d, err
}

// refused is the error of a reason.
func refused(r edge.Reason) error {
	code, text := asking.Explain(r)
	return status.Error(codes.Code(code), text)
}

// source has the attributes of a call.
type source struct {
	ctx    context.Context
	o      *Options
	method string
	values func(ctx context.Context, header string) []string
}

// sources keeps the memory of sources.
var sources = sync.Pool{New: func() any { return new(source) }}

// outgoing are the values of a header that a client sends.
func outgoing(ctx context.Context, header string) []string {
	md, _ := metadata.FromOutgoingContext(ctx)
	return md.Get(header)
}

// Attribute implements keys.Source.
func (s *source) Attribute(name, arg string) string {
	switch name {
	case "method", "path", "route":
		return s.method
	case "header":
		if v := s.values(s.ctx, arg); len(v) > 0 {
			return v[0]
		}
	case "ip":
		return address(s.ctx)
	case "user":
		if s.o.User != nil {
			return s.o.User(s.ctx)
		}
	}
	return ""
}

// address is that of who calls a server.
func address(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	at, err := netip.ParseAddrPort(p.Addr.String())
	if err != nil {
		return p.Addr.String()
	}
	return at.Addr().Unmap().String()
}
