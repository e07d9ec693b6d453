// SPDX-License-Identifier: Apache-2.0

package rpcgrpc

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/headgatepb/headgategrpc"
)

const (
	// Service is the gRPC name of the service, also for health checks.
	Service = "headgate.v1.Decider"

	// MaxMessageBytes bounds one message, in either direction.
	MaxMessageBytes = 4 << 20

	// DefaultTimeout bounds a call whose context has no deadline.
	DefaultTimeout = 5 * time.Second

	// MaxTimeout bounds what a server spends on one call, whatever its
	// caller allows.
	MaxTimeout = 10 * time.Second
)

// A Client pings a connection with calls under way on which nothing has arrived for
// quietAfter, and closes the connection if no answer comes within answerWithin. So the Client
// notices a server that has crashed or hangs, also if no call times out: see silentFor. Servers allow
// twice as many pings.
const (
	quietAfter   = 10 * time.Second
	answerWithin = 5 * time.Second
	pingsAllowed = 5 * time.Second
)

// ServerOptions is the setup of Register. With the zero value, the host is the one that
// the message names.
type ServerOptions struct {
	// Identify, when not nil, returns the name of the host that calls. The message
	// names claimed, and grpc's peer.FromContext(ctx) has the certificate. An error
	// refuses the call.
	Identify func(ctx context.Context, claimed string) (host string, err error)
}

// Register makes decider answer Update calls on s, before s serves. A call has
// at most MaxTimeout.
func Register(s grpc.ServiceRegistrar, decider rpc.Decider, o ServerOptions) {
	headgategrpc.RegisterDeciderServer(s, &handler{decider: decider, o: o})
}

// ServerDefaults are what a grpc.Server needs that Clients of this package
// call: messages of MaxMessageBytes, and permission for Clients to ping. Without the
// permission, grpc closes their connections, because they ping more often than every five minutes.
// The server sends no pings; see ServerAges.
func ServerDefaults() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: pingsAllowed, PermitWithoutStream: true}),
		grpc.KeepaliveParams(ServerAges(0, 0, 0)),
	}
}

// ServerAges are the keepalive of ServerDefaults, for a server that also closes
// connections: those without a call for idle, and, with a part more or less by
// chance, those as old as age, whose calls have grace to end. 0 is never.
//
// The server sends no pings, because grpc compares wall clocks: after the clock is set back,
// pings close connections that live. The kernel notices hosts that have crashed.
func ServerAges(idle, age, grace time.Duration) keepalive.ServerParameters {
	return keepalive.ServerParameters{
		Time:              math.MaxInt64,
		MaxConnectionIdle: idle, MaxConnectionAge: age, MaxConnectionAgeGrace: grace,
	}
}

type handler struct {
	headgategrpc.UnimplementedDeciderServer

	decider rpc.Decider
	o       ServerOptions
}

func (h *handler) Update(ctx context.Context, request *headgatepb.UpdateRequest) (*headgatepb.UpdateResponse, error) {
	host := request.GetHost()
	if h.o.Identify != nil {
		var err error
		if host, err = h.identify(ctx, host); err != nil {
			return nil, status.Errorf(codes.PermissionDenied, "identify host %.200q: %v", request.GetHost(), err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, MaxTimeout)
	defer cancel()
	ctx = rpc.WithReceived(ctx, header(ctx))
	answer, err := rpc.Ask(ctx, h.decider, host, request.GetPayload())
	if err != nil {
		return nil, toWire(err)
	}
	return &headgatepb.UpdateResponse{Payload: answer}, nil
}

// identify is Identify, which is anybody's code: a panic in it is an error.
func (h *handler) identify(ctx context.Context, claimed string) (host string, err error) {
	defer rpc.Recovered(&err)
	return h.o.Identify(ctx, claimed)
}

// header returns what finds the headers of a call that is answered with ctx.
func header(ctx context.Context) func(name string) string {
	return func(name string) string {
		if values := metadata.ValueFromIncomingContext(ctx, name); len(values) > 0 {
			return values[0]
		}
		return ""
	}
}
