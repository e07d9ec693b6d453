// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/gossip"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/shadow"
)

// Config is what a Node must know of its own host.
type Config struct {
	// Address of this host, host:port, as the list of members has it and as
	// other hosts dial it. Required.
	Address string

	// Listen is where to listen for other hosts; default Address. Set it
	// when the address that others dial is not one of this host's own.
	Listen string
}

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	for name, address := range map[string]string{"address": c.Address, "listen": c.listen()} {
		if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
			errs = append(errs, fmt.Errorf("headgate: %s %q is not host:port", name, address))
		}
	}
	return errors.Join(errs...)
}

func (c Config) listen() string {
	if c.Listen == "" {
		return c.Address
	}
	return c.Listen
}

// Node is one host of a cluster: it limits, and it decides for the keys that
// it owns. It is safe for concurrent use.
type Node struct {
	config     Config
	log        *slog.Logger
	source     dynamicconfig.Source
	members    ringpop.Members
	listener   net.Listener
	limits     *dynamicconfig.Live
	ring       *ringpop.Live
	group      *limiter.Group
	aggregator *aggregator.Aggregator
	mux        *rpc.Mux
	fanout     *rpc.Fanout
	taker      *rpc.Taker
	takes      *rpc.ForwardTakes // of the edge
	mesh       *gossip.Mesh
	cluster    string              // what it is called above
	parent     aggregator.Claiming // nil without a cluster above

	mu     sync.Mutex // protects following fields
	client *rpcyarpc.Client
	server *rpcyarpc.Server
	stop   context.CancelFunc    // nil unless started
	leave  func(context.Context) // nil unless reports are under way
	loops  *sync.WaitGroup
}

// New returns a Node that is not yet started. It loads the limits from source
// once, and refuses to go on without: a service that starts with a broken
// file should not find out by its limits.
func New(config Config, source dynamicconfig.Source, members ringpop.Members, opts ...Option) (*Node, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	o := options{log: slog.Default(), scope: tally.NoopScope, registry: algorithm.Builtin()}
	for _, option := range opts {
		option(&o)
	}
	if err := errors.Join(o.errs...); err != nil {
		return nil, err
	}
	snapshot, err := source.Load(context.Background())
	if err == nil {
		err = o.check(snapshot)
	}
	if err != nil {
		return nil, fmt.Errorf("headgate: load limits: %w", err)
	}
	n := &Node{
		config:   config,
		log:      o.log,
		source:   source,
		members:  members,
		listener: o.listener,
		limits:   dynamicconfig.NewLive(snapshot, dynamicconfig.WithCheck(o.check)),
		ring:     ringpop.NewLive(o.points, ringpop.WithLogger(o.log)),
		mux:      new(rpc.Mux),
		cluster:  o.cluster,
		parent:   o.parent,
	}
	n.taker = &rpc.Taker{Host: config.Address, Placement: n.ring, Self: config.Address}
	n.takes = &rpc.ForwardTakes{Taker: n.taker, Others: n.others}
	n.mesh = n.newMesh(snapshot, &o)
	n.group = limiter.NewGroup(snapshot, 0, n.elsewhere(o.remotes), limiter.WithLogger(o.log), limiter.WithScope(o.scope), limiter.WithEager(o.registry.Stateful()...), limiter.WithWants(o.registry.Leasing()...),
		limiter.WithMigration(func(old, new limiter.Stepper, mode dynamicconfig.Mode) limiter.Migrator {
			return shadow.FromSteps(old, new, mode)
		}))
	n.aggregator, err = aggregator.New(o.registry, snapshot, aggregator.WithLogger(o.log), aggregator.WithScope(o.scope))
	if err != nil {
		return nil, err
	}
	n.taker.Local = n.aggregator
	if err := n.register(o.payloads); err != nil {
		return nil, err
	}
	n.fanout = &rpc.Fanout{
		Host:      config.Address,
		Placement: n.ring,
		Self:      config.Address,
		Local:     n.mux,
		Codecs:    make(map[string]rpc.Codec),
	}
	for _, p := range o.payloads {
		n.fanout.Codecs[p.algorithm] = p.codec
	}
	return n, nil
}

// register puts the deciders of all payloads behind one door.
func (n *Node) register(payloads []payload) error {
	var err error
	for _, typeURL := range []string{rpc.UsageTypeURL, rpc.ClaimsTypeURL, rpc.TakesTypeURL} {
		err = errors.Join(err, n.mux.Register(typeURL, n.aggregator))
	}
	err = errors.Join(err, n.mux.Register(rpc.GossipTypeURL, n.mesh), n.mux.Register(rpc.WithdrawalsTypeURL, rpc.Withdrawn{Edge: n.takes}))
	for _, p := range payloads {
		err = errors.Join(err, n.mux.Register(p.typeURL, p.decider))
	}
	return err
}

// Address is this host's, as other hosts know it.
func (n *Node) Address() string { return n.config.Address }

// For returns the limiter of key, which is a `group:name`. It never fails and
// never waits; see limiter.Group.
func (n *Node) For(key string) limiter.Limiter { return n.group.For(key) }

// Group returns the node's limiters.
func (n *Node) Group() *limiter.Group { return n.group }

// Limits returns the live config, for typed properties.
func (n *Node) Limits() *dynamicconfig.Live { return n.limits }

// Ring returns the hosts as this node sees them now.
func (n *Node) Ring() *ringpop.Ring { return n.ring.Ring() }
