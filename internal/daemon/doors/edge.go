// SPDX-License-Identifier: Apache-2.0

package doors

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/rpc/edge/quotaservice/quotaservicepb"
	"github.com/headgate/headgate/rpc/rpcgrpc"
)

// Caps of the edge port, beside those of rpcgrpc.ServerDefaults.
const (
	// maxStreams bounds the calls at once on one connection.
	maxStreams = 100
	// maxHeaders bounds the metadata of one call, in bytes.
	maxHeaders = 16 << 10
	// maxUnfinished bounds what the requests of one connection that have not arrived
	// whole have sent, in bytes, and maxUnfinishedTotal those of a door.
	maxUnfinished      = 8 << 20
	maxUnfinishedTotal = 16 << 20
	// maxMoreCalls bounds the calls at once at a door, beside one of each connection.
	// Each takes some 12 kB until it is answered.
	maxMoreCalls = 4096
	// readBuffer is what each connection takes for what arrives, in bytes.
	readBuffer = 4 << 10
	// greeting is how long a new connection may take to say what it is.
	greeting = 5 * time.Second
	// An edge that stops, and has had no call for as long as quiet, closes the connections that clients leave
	// open. Programs in Python leave theirs open between calls.
	quiet = time.Second
	// maxIdle is how long a connection may have no call.
	maxIdle = 10 * time.Minute
	// maxAge is after how long a connection takes no more calls, so that clients
	// spread over daemons again, and maxAgeGrace how long those under way may last.
	maxAge      = time.Hour
	maxAgeGrace = 30 * time.Second
)

// Edge is the gRPC server for programs that run no decider.
type Edge struct {
	server   *grpc.Server
	health   *health.Server
	listener *conns.Listener
	intake   *intake
	more     []*splitter // what else it serves, set before Serve
	services []string    // since Serve
	ending   *Ending
	loops    sync.WaitGroup

	draining context.Context // ends when the edge begins to
	drain    context.CancelFunc
}

// NewEdge makes an edge on l that is not serving yet. More services are
// registered on its server before Serve.
func NewEdge(l *conns.Listener, turns Turns, ending *Ending, options ...grpc.ServerOption) *Edge {
	e := &Edge{health: health.NewServer(), listener: l, intake: newIntake(turns), ending: ending}
	e.draining, e.drain = context.WithCancel(context.Background())
	options = append(append(rpcgrpc.ServerDefaults(),
		grpc.ForceServerCodecV2(e.intake),
		grpc.ChainStreamInterceptor(e.untilDraining),
		grpc.ChainUnaryInterceptor(e.intake.call, small),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.ReadBufferSize(readBuffer),
		grpc.ConnectionTimeout(greeting),
		grpc.KeepaliveParams(rpcgrpc.ServerAges(maxIdle, maxAge, maxAgeGrace)),
	), options...)
	e.server = grpc.NewServer(options...)
	grpc_health_v1.RegisterHealthServer(e.server, e.health)
	// Until Serve, callers get an error that says so.
	e.health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	return e
}

// RegisterService implements grpc.ServiceRegistrar. Call it before Serve.
func (e *Edge) RegisterService(of *grpc.ServiceDesc, server any) {
	e.server.RegisterService(of, server)
}

// Addr is where e listens.
func (e *Edge) Addr() net.Addr { return e.listener.Addr() }

// Refused is how many connections were closed because there was no room.
func (e *Edge) Refused() int64 { return e.listener.Refused() }

// Large is the memory that large requests take now, in bytes.
func (e *Edge) Large() int64 { return e.intake.taken.Load() }

// Retire says to who asks for its health that e takes no more calls.
func (e *Edge) Retire() { e.health.Shutdown() }

// Services are the names of what e serves since Serve, but for reflection, sorted.
func (e *Edge) Services() []string { return e.services }

// registered are the names of all that e serves, sorted.
func (e *Edge) registered() (names []string) {
	for name := range e.server.GetServiceInfo() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Serve begins to answer, and says so to who asks for its health.
func (e *Edge) Serve() {
	e.services = e.registered()
	reflection.Register(e.server)
	for _, name := range append(e.registered(), "") {
		e.health.SetServingStatus(name, grpc_health_v1.HealthCheckResponse_SERVING)
	}
	e.serve(e.listener)
	for _, l := range e.more {
		e.serve(l.grpc)
	}
}

func (e *Edge) serve(l net.Listener) {
	e.loops.Go(func() { e.ending.End(e.server.Serve(l)) })
}

// calls is how many calls are under way.
func (e *Edge) calls() int {
	n := e.listener.Calls()
	for _, l := range e.more {
		n += l.from.Calls()
	}
	return n
}

// noCalls returns once no call was under way for quiet, or ctx has ended.
func (e *Edge) noCalls(ctx context.Context) {
	tick := time.NewTicker(quiet / 10)
	defer tick.Stop()
	for last := time.Now(); ctx.Err() == nil && time.Since(last) < quiet; {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
		if e.calls() > 0 {
			last = time.Now()
		}
	}
}

// Stop lets calls end for as long as drain, and ends the others, which is no
// error: a client that hangs must not make a restart look like a failure. It
// returns when none runs any more, or, with an error, soon after ctx ends. In
// between it calls hangUp, which ends the connections of listeners that are not
// its own.
func (e *Edge) Stop(ctx context.Context, drain time.Duration, log *slog.Logger, hangUp func()) error {
	e.drain()
	graceful := make(chan struct{})
	go func() {
		defer close(graceful)
		e.server.GracefulStop()
	}()
	draining, cancel := context.WithTimeout(ctx, drain)
	defer cancel()
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.noCalls(draining) // grpc also waits for clients without a call which do not read that it ends
	}()
	select {
	case <-graceful:
		cancel()
		<-ended
	case <-ended:
		switch n := e.calls(); {
		case ctx.Err() != nil:
			err = fmt.Errorf("calls to the edge were ended: %w", ctx.Err())
		case n > 0:
			log.Warn("calls to the edge did not end in time, and are ended", "drain", drain, "calls", n)
		}
	}
	// Also what connected and never said a word, which grpc waits for.
	e.listener.CloseAll()
	hangUp()
	e.server.Stop()
	<-graceful
	e.loops.Wait()
	return err
}

// untilDraining is a grpc.StreamServerInterceptor. It ends streams when e begins to
// end: those that watch the health, and those of reflection, would delay it. The handler
// returns soon after, because its stream has ended.
func (e *Edge) untilDraining(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	handled := make(chan error, 1)
	go func() { handled <- handle(srv, stream) }()
	select {
	case err := <-handled:
		return err
	case <-e.draining.Done():
		return status.Error(codes.Unavailable, "the daemon stops: ask another one")
	}
}

// maxSmall bounds the request of a method where one key is all there is, in bytes.
const maxSmall = 64 << 10

// smallMethods are those methods. Requests of others are lists.
var smallMethods = map[string]bool{
	quotaservicepb.QuotaService_Allow_FullMethodName: true,
	grpc_health_v1.Health_Check_FullMethodName:       true,
}

// small is a grpc.UnaryServerInterceptor that refuses large requests of smallMethods.
func small(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	if message, ok := request.(proto.Message); ok && smallMethods[info.FullMethod] {
		if size := proto.Size(message); size > maxSmall {
			return nil, status.Errorf(codes.ResourceExhausted, "the request has %d bytes: send at most %d", size, maxSmall)
		}
	}
	return handle(ctx, request)
}

// Abandon gives up an edge that was never served.
func (e *Edge) Abandon() {
	e.drain()
	e.server.Stop()
	_ = e.listener.Close()
}
