// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"time"

	"go.uber.org/yarpc"
	"go.uber.org/yarpc/api/transport"
	"go.uber.org/yarpc/transport/grpc"
	"go.uber.org/yarpc/yarpcerrors"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/internal/grpcconns"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/headgatepb/headgateyarpc"
)

// drain is how long Stop waits for calls to end, and for clients to leave, before it closes
// the connections that are left.
const drain = 300 * time.Millisecond

// maxHeaders bounds the headers of one call, in bytes. Decoded, they take up to 40 times what they
// take on the wire, where conns bounds them.
const maxHeaders = 16 << 10

// ServerOptions is the setup of a Server. With the zero value, connections are plain text,
// and the host is the one that the message names.
type ServerOptions struct {
	// MaxConnections bounds the connections at a time; the Server closes one more at
	// once. Zero and less are DefaultMaxConnections. Larger clusters need more.
	MaxConnections int

	// TLS, when not nil, encrypts. For mutual TLS it has ClientCAs and
	// requires certificates. With GetConfigForClient, they may change.
	TLS *tls.Config

	// Identify, when not nil, returns the name of the host that calls. The message
	// names claimed, and grpc's peer.FromContext(ctx) has the certificate. An error
	// refuses the call.
	Identify Identify
}

// Identify returns the name of the host that calls; its message names claimed. An owner
// hands keys over only under a name that is its address or identity as a member.
type Identify func(ctx context.Context, claimed string) (host string, err error)

// Server answers Update calls on a listener. Use NewServer.
type Server struct {
	dispatcher *yarpc.Dispatcher
	listener   *conns.Listener

	stop    sync.Once
	stopped chan struct{} // closed when stopping has ended
	err     error         // of stopping; read it after stopped
}

// NewServer returns a Server of decider, which takes over listener. Neither may be nil.
func NewServer(listener net.Listener, decider rpc.Decider, o ServerOptions) *Server {
	tracking := conns.Track(listener, cmp.Or(max(o.MaxConnections, 0), DefaultMaxConnections))
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	t := grpc.NewTransport(grpc.ServerMaxRecvMsgSize(MaxMessageBytes), grpc.ServerMaxSendMsgSize(MaxMessageBytes), grpc.ServerMaxHeaderListSize(maxHeaders))
	s := &Server{
		listener: tracking,
		stopped:  make(chan struct{}),
		dispatcher: yarpc.NewDispatcher(yarpc.Config{
			Name:     DefaultService,
			Inbounds: yarpc.Inbounds{t.NewInbound(tracking, grpc.InboundCredentials(grpcconns.Limited(creds)))},
		}),
	}
	s.dispatcher.Register(Procedures(decider, o.Identify))
	return s
}

// Addr is the listener's address.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Start begins to answer. A Server starts once.
func (s *Server) Start() error {
	if err := s.dispatcher.Start(); err != nil {
		return fmt.Errorf("serve on %s: %w", s.Addr(), err)
	}
	return nil
}

// Stop closes the listener, gives calls under way a third of a second, and then closes all
// connections, idle ones too. Stop returns when all of that has ended, or with an error
// when ctx ends, because a Decider may not return. Stop may be called again, and without
// Start.
func (s *Server) Stop(ctx context.Context) error {
	s.stop.Do(func() { go s.shut() })
	select {
	case <-s.stopped:
		return s.err
	case <-ctx.Done():
		s.listener.CloseAll()
		return fmt.Errorf("stop serving on %s: %w", s.Addr(), ctx.Err())
	}
}

func (s *Server) shut() {
	defer close(s.stopped)
	timer := time.AfterFunc(drain, s.listener.CloseAll)
	defer timer.Stop()
	s.err = s.dispatcher.Stop()
	s.listener.CloseAll()
	// The dispatcher closes only a listener that it has begun to serve.
	_ = s.listener.Close()
}

// Procedures are decider's YARPC procedures, for the Register of a service's
// own dispatcher. Identify is as in ServerOptions, and may be nil; decider may not.
func Procedures(decider rpc.Decider, identify Identify) []transport.Procedure {
	return headgateyarpc.BuildDeciderYARPCProcedures(handler{decider: decider, identify: identify})
}

type handler struct {
	decider  rpc.Decider
	identify Identify
}

func (h handler) Update(ctx context.Context, request *headgatepb.UpdateRequest) (*headgatepb.UpdateResponse, error) {
	host := request.GetHost()
	if h.identify != nil {
		var err error
		if host, err = h.identify(ctx, host); err != nil {
			return nil, yarpcerrors.Newf(yarpcerrors.CodePermissionDenied, "identify host %.200q: %v", request.GetHost(), err)
		}
	}
	ctx = rpc.WithReceived(ctx, yarpc.CallFromContext(ctx).Header)
	answer, err := rpc.Ask(ctx, h.decider, host, request.GetPayload())
	if err != nil {
		return nil, toWire(err)
	}
	return &headgatepb.UpdateResponse{Payload: answer}, nil
}
