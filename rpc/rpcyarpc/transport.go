// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"

	"go.uber.org/yarpc"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/headgate/headgate/rpc"
)

// Standalone is a headgate.Transport with a listener and connections that
// nothing else uses. Set its fields before Start. Safe for concurrent use.
type Standalone struct {
	// Address is where to listen, host:port. With a Listener, Address is not used.
	Address string

	// Listener, when not nil, accepts the calls of other hosts. Standalone
	// closes it once it has started.
	Listener net.Listener

	Server ServerOptions
	Client ClientOptions

	mu     sync.Mutex // protects following fields
	server *Server
	client *Client // nil unless running
}

// Start has decider answer other hosts, and begins to call them. After an error, nothing
// runs.
func (s *Standalone) Start(ctx context.Context, decider rpc.Decider) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if decider == nil {
		return errors.New("rpcyarpc: the decider is nil: there is nothing that answers other hosts")
	}
	if s.Listener == nil {
		if s.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", s.Address); err != nil {
			return err
		}
	}
	s.server = NewServer(s.Listener, decider, s.Server)
	if err := s.server.Start(); err != nil {
		return errors.Join(err, s.server.Stop(ctx))
	}
	if s.client, err = NewClient(s.Client); err != nil {
		return errors.Join(err, s.server.Stop(ctx))
	}
	return nil
}

// Peer implements rpc.Peers.
func (s *Standalone) Peer(address string) (rpc.Decider, error) {
	if c := s.running(); c != nil {
		return c.Peer(address)
	}
	return nil, ErrClosed
}

// Keep closes the connections to all addresses but these; see Client.Keep.
func (s *Standalone) Keep(addresses []string) error {
	if c := s.running(); c != nil {
		return c.Keep(addresses)
	}
	return ErrClosed
}

func (s *Standalone) running() *Client {
	s.mu.Lock()
	defer s.mu.Unlock()

	return s.client
}

// Stop ends what Start began; see Server.Stop and Client.Close. Without Start, Stop does
// nothing. After an error, Stop may be called again.
func (s *Standalone) Stop(ctx context.Context) error {
	s.mu.Lock()
	server, client := s.server, s.client
	s.client = nil
	s.mu.Unlock()
	if server == nil {
		return nil
	}
	err := server.Stop(ctx)
	if client != nil {
		err = errors.Join(err, client.Close())
	}
	return err
}

// errNotServing is the answer of a host whose Dispatched does not run.
var errNotServing = errors.New("rpcyarpc: no decider runs on this host")

// Dispatched is a headgate.Transport over a service's own dispatcher, with its
// listener, connections, TLS and middleware. Use OnDispatcher. Safe for
// concurrent use.
type Dispatched struct {
	rpc.Peers

	chooser *Chooser

	mu      sync.Mutex // protects following fields
	decider rpc.Decider
	calls   *sync.WaitGroup // of decider
}

// OnDispatcher registers the procedures of a Decider with dispatcher, and calls
// other hosts by the outbound of that name. chooser is the outbound's:
//
//	chooser := rpcyarpc.NewChooser(transport.NewDialer()) // with the service's TLS
//	dispatcher := yarpc.NewDispatcher(yarpc.Config{
//		Name:     "orders",
//		Inbounds: yarpc.Inbounds{transport.NewInbound(listener)},
//		Outbounds: yarpc.Outbounds{
//			"headgate": {ServiceName: "orders", Unary: transport.NewOutbound(chooser)},
//		},
//	})
//	hosts, err := rpcyarpc.OnDispatcher(dispatcher, "headgate", chooser, nil)
//
// The outbound's ServiceName is the Name of the other hosts' dispatchers.
// identify is as in ServerOptions, and may be nil. Call OnDispatcher before the
// dispatcher starts, start the dispatcher before the Node, and stop it after.
func OnDispatcher(dispatcher *yarpc.Dispatcher, outbound string, chooser *Chooser, identify Identify) (*Dispatched, error) {
	if dispatcher == nil {
		return nil, errors.New("rpcyarpc: the dispatcher is nil: give the service's own, or leave headgate.WithTransport out")
	}
	config, ok := dispatcher.OutboundConfig(outbound)
	if !ok || config.Outbounds.Unary == nil {
		return nil, fmt.Errorf("rpcyarpc: the dispatcher has no unary outbound %q", outbound)
	}
	if chooser == nil {
		return nil, fmt.Errorf("rpcyarpc: outbound %q needs a Chooser: see NewChooser", outbound)
	}
	d := &Dispatched{Peers: PeersOver(config), chooser: chooser}
	dispatcher.Register(Procedures((*door)(d), identify))
	return d, nil
}

// Start has decider answer other hosts. Before Start, and after Stop, their calls get an
// error.
func (d *Dispatched) Start(_ context.Context, decider rpc.Decider) error {
	d.mu.Lock()
	defer d.mu.Unlock()

	d.decider, d.calls = decider, new(sync.WaitGroup)
	return nil
}

// Keep closes the connections to all addresses but these; see Chooser.Keep.
func (d *Dispatched) Keep(addresses []string) error { return d.chooser.Keep(addresses) }

// Stop refuses further calls of other hosts, waits for those under way, until
// ctx ends, and closes the connections to other hosts. The dispatcher goes on.
// After an error, Stop may be called again.
func (d *Dispatched) Stop(ctx context.Context) error {
	d.mu.Lock()
	calls := d.calls
	d.decider = nil
	d.mu.Unlock()
	if calls == nil {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		calls.Wait()
		close(ended)
	}()
	var err error
	select {
	case <-ended:
	case <-ctx.Done():
		err = fmt.Errorf("rpcyarpc: wait for calls of other hosts: %w", ctx.Err())
	}
	return errors.Join(err, d.chooser.Keep(nil))
}

// door is the Decider of a Dispatched.
type door Dispatched

func (d *door) Update(ctx context.Context, host string, payload *anypb.Any) (*anypb.Any, error) {
	d.mu.Lock()
	decider, calls := d.decider, d.calls
	if decider == nil {
		d.mu.Unlock()
		return nil, errNotServing
	}
	calls.Add(1)
	d.mu.Unlock()
	defer calls.Done()
	return decider.Update(ctx, host, payload)
}
