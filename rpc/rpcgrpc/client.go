// SPDX-License-Identifier: Apache-2.0

package rpcgrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/health" // without it, grpc ignores healthCheckConfig
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/headgatepb"
	"github.com/headgate/headgate/rpc/headgatepb/headgategrpc"
)

// MaxAddresses is the most addresses of one Client: it keeps a connection to
// each.
const MaxAddresses = 64

// roundRobin sends each call to the next of the deciders that are connected and say
// that they are serving.
const roundRobin = `{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": "` + Service + `"}}`

// redial is how soon a connection that broke is tried again. grpc's own two
// minutes would be how long a Client does not notice that a decider is back.
var redial = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
	MinConnectTimeout: 3 * time.Second,
}

// ClientOptions is the setup of a Client. The zero value is plain text.
type ClientOptions struct {
	// TLS, when not nil, encrypts. Give it certificates for mutual TLS.
	TLS *tls.Config

	// Dial, when not nil, connects instead of a net.Dialer.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// Client asks any of several deciders, each of which answers for all keys.
// The calls go to the deciders in turn. The Client leaves out a decider that is down, does
// not answer for a second, or says that it is not serving, until the decider is back. Use NewClient. Safe for
// concurrent use.
type Client struct {
	conn    *grpc.ClientConn
	decider headgategrpc.DeciderClient
}

var _ rpc.Decider = (*Client)(nil)

// NewClient returns a Client of the deciders at addresses, each a host:port.
// A single address may be a DNS name of many hosts: the Client asks all of them. The
// Client dials in the background, when it is first asked. Close ends it.
func NewClient(addresses []string, o ClientOptions) (*Client, error) {
	if err := checkAddresses(addresses); err != nil {
		return nil, err
	}
	dial := []grpc.DialOption{
		grpc.WithDefaultServiceConfig(roundRobin),
		grpc.WithDisableServiceConfig(), // a TXT record in DNS must not configure the Client
		grpc.WithConnectParams(redial),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: quietAfter, Timeout: answerWithin}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithNoProxy(),
	}
	if o.TLS != nil {
		dial = append(dial, grpc.WithTransportCredentials(credentials.NewTLS(o.TLS)))
	} else {
		dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	dial = append(dial, grpc.WithContextDialer(hearing(o.Dial)))
	target := "dns:///" + addresses[0]
	if len(addresses) > 1 {
		listed := listing(addresses)
		target = listed.Scheme() + ":///edge"
		dial = append(dial, grpc.WithResolvers(listed))
	}
	conn, err := grpc.NewClient(target, dial...)
	if err != nil {
		return nil, fmt.Errorf("rpcgrpc: connect to %q: %w", addresses, err)
	}
	return &Client{conn: conn, decider: headgategrpc.NewDeciderClient(conn)}, nil
}

func checkAddresses(addresses []string) error {
	var errs []error
	if len(addresses) == 0 || len(addresses) > MaxAddresses {
		errs = append(errs, fmt.Errorf("rpcgrpc: %d addresses: give 1 to %d", len(addresses), MaxAddresses))
	}
	seen := make(map[string]bool, len(addresses))
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		switch {
		case err != nil || host == "" || port == "":
			errs = append(errs, fmt.Errorf("rpcgrpc: address %q is not host:port", address))
		case !validPort(port):
			errs = append(errs, fmt.Errorf("rpcgrpc: address %q has no port from 1 to 65535", address))
		case seen[address]:
			errs = append(errs, fmt.Errorf("rpcgrpc: address %q stands twice", address))
		}
		seen[address] = true
	}
	return errors.Join(errs...)
}

// validPort reports whether port is a number from 1 to 65535, or the name of a service.
func validPort(port string) bool {
	n, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port)
	return err == nil && n > 0
}

// listing is a resolver whose result is these addresses, and does not change.
func listing(addresses []string) *manual.Resolver {
	var endpoints []resolver.Endpoint
	for _, address := range addresses {
		host, _, _ := net.SplitHostPort(address) // checked before
		endpoints = append(endpoints, resolver.Endpoint{
			// Certificates are for the host's own name.
			Addresses: []resolver.Address{{Addr: address, ServerName: host}},
		})
	}
	listed := manual.NewBuilderWithScheme("headgate")
	listed.InitialState(resolver.State{Endpoints: endpoints})
	return listed
}

// Update asks one of the deciders. While none is connected it waits for the
// first attempts to connect, and then fails at once. A ctx without a deadline
// has DefaultTimeout.
func (c *Client) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, DefaultTimeout)
		defer cancel()
	}
	for name, value := range rpc.Headers(ctx) {
		ctx = metadata.AppendToOutgoingContext(ctx, name, value)
	}
	var at peer.Peer
	began := time.Now()
	response, err := c.decider.Update(ctx, &headgatepb.UpdateRequest{Host: host, Payload: payload}, grpc.Peer(&at))
	if err != nil {
		if status.Code(err) == codes.DeadlineExceeded {
			timedOut(&at, began)
		}
		return nil, fromWire(err)
	}
	return response.GetPayload(), nil
}

// Close closes all connections; calls under way end with an error.
func (c *Client) Close() error { return c.conn.Close() }
