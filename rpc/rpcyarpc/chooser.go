// SPDX-License-Identifier: Apache-2.0

package rpcyarpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/yarpc/api/peer"
	"go.uber.org/yarpc/api/transport"
	"go.uber.org/yarpc/peer/hostport"
	"go.uber.org/yarpc/yarpcerrors"
)

// redialAfter is the least age at which the Chooser replaces a connection that is not up.
// gRPC alone would wait up to two minutes before the next attempt, and would not notice
// for so long that an owner is back.
const redialAfter = time.Second

// ErrClosed is the error of a Chooser that is not running.
var ErrClosed = errors.New("rpcyarpc: closed")

// Chooser is a peer.Chooser that sends each request to the address in its
// shard key, over one connection per address. The Chooser dials an address when a request
// names it first, and keeps the connection until Keep or Stop. From the first Keep on, a
// connection to an address that is not to be kept lasts for as long as its calls. If a call
// fails because its connection is down, the Chooser dials again, at most once a second.
//
// Use NewChooser. Safe for concurrent use.
type Chooser struct {
	transport peer.Transport
	now       func() time.Time

	mu    sync.Mutex
	peers map[string]*conn
	keep  map[string]bool // nil: all addresses
	state lifecycle
}

type lifecycle uint8

const (
	idle lifecycle = iota
	running
	stopped
)

// conn is a retained peer, and the transport's subscriber to it, so that an
// old and a new one to the same address differ. The Chooser counts the calls of a conn,
// because giving the peer back to the transport ends the calls that use it.
type conn struct {
	peer    peer.Peer
	since   time.Time
	calls   int  // under way
	leaving bool // to be given back when calls is 0: its address is not to be kept
}

// NotifyStatusChanged is for the transport. The Chooser looks at a peer's status only when
// a call has failed.
func (*conn) NotifyStatusChanged(peer.Identifier) {}

var _ peer.Chooser = (*Chooser)(nil)

// NewChooser returns a Chooser that dials by t, a gRPC transport or its dialer; t may not be nil.
func NewChooser(t peer.Transport) *Chooser {
	return &Chooser{transport: t, now: time.Now, peers: make(map[string]*conn)}
}

// Start makes the Chooser ready; the outbound that has it calls this.
func (c *Chooser) Start() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stopped {
		return ErrClosed
	}
	c.state = running
	return nil
}

// Stop closes all connections, and ends the calls that use them.
func (c *Chooser) Stop() error {
	c.mu.Lock()
	c.state = stopped
	var closing []*conn
	for address, p := range c.peers {
		delete(c.peers, address)
		closing = append(closing, p)
	}
	c.mu.Unlock()
	return c.release(closing)
}

// IsRunning reports whether the Chooser is between Start and Stop.
func (c *Chooser) IsRunning() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state == running
}

// Keep closes the connections to all addresses but these, once the calls under way on
// them have ended. An address that is asked for later is dialled again, for those
// calls: the caller may not know yet that a host has left.
func (c *Chooser) Keep(addresses []string) error {
	keep := make(map[string]bool, len(addresses))
	for _, address := range addresses {
		keep[address] = true
	}
	c.mu.Lock()
	c.keep = keep
	var closing []*conn
	for address, p := range c.peers {
		if p.leaving = !keep[address]; p.leaving && p.calls == 0 { // otherwise its last call gives it back
			delete(c.peers, address)
			closing = append(closing, p)
		}
	}
	c.mu.Unlock()
	return c.release(closing)
}

// Choose returns the connection to the request's shard key. Choose does not wait until
// that is up: the call does, until its deadline.
func (c *Chooser) Choose(_ context.Context, request *transport.Request) (peer.Peer, func(error), error) {
	address := request.ShardKey
	if address == "" {
		return nil, nil, yarpcerrors.InvalidArgumentErrorf("the request has no shard key: call by way of rpcyarpc.PeersOver")
	}
	p, err := c.take(address)
	if err != nil {
		return nil, nil, err
	}
	return p.peer, func(err error) { c.finish(address, p, err) }, nil
}

func (c *Chooser) take(address string) (*conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != running {
		return nil, ErrClosed
	}
	p := c.peers[address]
	if p == nil {
		p = &conn{since: c.now(), leaving: c.keep != nil && !c.keep[address]}
		// The transport dials in the background, so that this is short.
		retained, err := c.transport.RetainPeer(hostport.PeerIdentifier(address), p)
		if err != nil {
			return nil, fmt.Errorf("dial %q: %w", address, err)
		}
		p.peer = retained
		c.peers[address] = p
	}
	p.calls++
	return p, nil
}

// finish ends a call, and gives up its connection if the connection has failed.
func (c *Chooser) finish(address string, p *conn, err error) {
	c.mu.Lock()
	p.calls--
	current := c.peers[address] == p // otherwise it has been given back
	// The other calls on a connection that is down wait in vain, and until they end, new
	// calls would get the same connection.
	down := err != nil && p.peer.Status().ConnectionStatus != peer.Available && c.now().Sub(p.since) >= redialAfter
	release := current && (down || p.leaving && p.calls == 0)
	if release {
		delete(c.peers, address)
	}
	c.mu.Unlock()
	if release {
		_ = c.release([]*conn{p}) // the call's own error is the one to report
	}
}

// release gives peers back to the transport, which closes their connections.
func (c *Chooser) release(peers []*conn) error {
	var errs []error
	for _, p := range peers {
		if err := c.transport.ReleasePeer(p.peer, p); err != nil {
			errs = append(errs, fmt.Errorf("close the connection to %q: %w", p.peer.Identifier(), err))
		}
	}
	return errors.Join(errs...)
}
