// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"

	"go.uber.org/yarpc"
	"go.uber.org/yarpc/api/transport"
	"go.uber.org/yarpc/transport/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/internal/conns"
	"github.com/headgate/headgate/internal/grpcconns"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/headgatepb/headgateyarpc"
)

// Defaults of both sides.
const (
	// DefaultService is the YARPC service name that deciders answer to.
	DefaultService = "headgate"

	// MaxMessageBytes bounds one message, in either direction.
	MaxMessageBytes = 4 << 20

	// DefaultMaxConnections bounds the connections to one Server: other hosts
	// have one each, or two while they change.
	DefaultMaxConnections = 10_000
)

// ClientOptions is the setup of a Client. The zero value is plain text.
type ClientOptions struct {
	// Caller is the YARPC name of the calling service; default DefaultService.
	Caller string

	// TLS, when not nil, encrypts. Give it certificates for mutual TLS.
	TLS *tls.Config

	// RotatingTLS, when not nil, is called for each connection, instead of TLS: its
	// certificates and authorities may change. Several goroutines call it at once.
	RotatingTLS func() *tls.Config

	// Dial, when not nil, connects instead of a net.Dialer.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Client is the rpc.Peers of other hosts over YARPC: one connection per
// address, dialled by the first call. Use NewClient. Safe for concurrent use.
type Client struct {
	rpc.Peers

	transport *grpc.Transport
	outbound  *grpc.Outbound
	chooser   *Chooser
}

var _ rpc.Peers = (*Client)(nil)

// NewClient returns a Client that is ready; Close ends it.
func NewClient(o ClientOptions) (*Client, error) {
	t := grpc.NewTransport(grpc.ClientMaxRecvMsgSize(MaxMessageBytes), grpc.ClientMaxSendMsgSize(MaxMessageBytes))
	dial := []grpc.DialOption{grpc.ContextDialer(dialing(o.Dial))}
	switch {
	case o.RotatingTLS != nil:
		dial = append(dial, grpc.DialerCredentials(grpcconns.Rotating(o.RotatingTLS)))
	case o.TLS != nil:
		dial = append(dial, grpc.DialerCredentials(credentials.NewTLS(o.TLS)))
	}
	chooser := NewChooser(t.NewDialer(dial...))
	c := &Client{transport: t, outbound: t.NewOutbound(chooser), chooser: chooser}
	c.Peers = PeersOver(&transport.OutboundConfig{
		CallerName: cmp.Or(o.Caller, DefaultService),
		Outbounds: transport.Outbounds{
			ServiceName: DefaultService,
			Unary:       c.outbound,
		},
	})
	if err := errors.Join(t.Start(), c.outbound.Start()); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// dialing is dial, or a net.Dialer if that is nil. The kernel closes its connections to hosts
// that are gone.
func dialing(dial func(ctx context.Context, address string) (net.Conn, error)) func(context.Context, string) (net.Conn, error) {
	if dial == nil {
		dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	return func(ctx context.Context, address string) (net.Conn, error) {
		c, err := dial(ctx, address)
		if err == nil {
			conns.CloseDead(c)
		}
		return c, err
	}
}

// Keep closes the connections to all addresses but these, once the calls
// under way on them have ended: call it when hosts have left the ring. See Chooser.Keep.
func (c *Client) Keep(addresses []string) error { return c.chooser.Keep(addresses) }

// Close closes all connections, and returns when they are closed. Calls under way end with
// an error, and later calls get an error at once.
func (c *Client) Close() error {
	return errors.Join(c.outbound.Stop(), c.transport.Stop())
}

// PeersOver is the rpc.Peers over a service's own dispatcher: config is what
// dispatcher.ClientConfig returns for an outbound that has a Chooser, and may not be nil.
func PeersOver(config transport.ClientConfig) rpc.Peers {
	return peers{client: headgateyarpc.NewDeciderYARPCClient(config)}
}

type peers struct {
	client headgateyarpc.DeciderYARPCClient
}

func (p peers) Peer(address string) (rpc.Decider, error) {
	if _, _, err := net.SplitHostPort(address); err != nil {
		return nil, &net.AddrError{Err: "not a host:port", Addr: address}
	}
	return remote{client: p.client, address: address}, nil
}

// remote is the Decider at one address.
type remote struct {
	client  headgateyarpc.DeciderYARPCClient
	address string
}

// Update makes the call. ctx needs a deadline: YARPC refuses calls without.
func (r remote) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	request := &headgatepb.UpdateRequest{Host: host, Payload: payload}
	options := []yarpc.CallOption{yarpc.WithShardKey(r.address)}
	for name, value := range rpc.Headers(ctx) {
		options = append(options, yarpc.WithHeader(name, value))
	}
	response, err := r.client.Update(ctx, request, options...)
	if err != nil {
		return nil, fromWire(err)
	}
	return response.GetPayload(), nil
}
