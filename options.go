// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/gossip"
	"github.com/headgate/headgate/rpc"
)

// Option is a collaborator of a Node, or an algorithm of its own.
type Option func(*options)

type options struct {
	log      *slog.Logger
	scope    tally.Scope
	listener net.Listener
	points   int
	registry *algorithm.Registry
	payloads []payload
	remotes  map[string]limiter.Remote
	cluster  string
	parent   aggregator.Claiming
	errs     []error
}

// payload is an algorithm with messages of its own.
type payload struct {
	algorithm string
	codec     rpc.Codec
	typeURL   string
	decider   rpc.Decider
}

// known tells whether rules may name algorithm.
func (o *options) known(name string) bool {
	if _, err := o.registry.Lookup(name); err == nil || builtIn(name) || o.remotes[name] != nil {
		return true
	}
	for _, p := range o.payloads {
		if p.algorithm == name {
			return true
		}
	}
	return false
}

// check returns what limits say of algorithms that is not so here.
func (o *options) check(limits *dynamicconfig.Snapshot) error {
	return errors.Join(limits.Check(o.known), limits.CheckParameters(o.takes))
}

// takes tells what is wrong with the parameters of an algorithm. What a service
// brought along looks at its own.
func (o *options) takes(name string, parameters map[string]string) error {
	if builtIn(name) {
		return fmt.Errorf("%s takes none: remove them", name)
	}
	if _, err := o.registry.Lookup(name); err != nil {
		return nil
	}
	_, err := o.registry.Build(name, parameters)
	return err
}

// builtIn tells whether name is an algorithm that no Registry has.
func builtIn(name string) bool {
	return name == limiter.Even || name == algorithm.NameExact || name == gossip.Name
}

// WithLogger sets the logger; default slog.Default().
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithScope sets where metrics go; default nowhere.
func WithScope(scope tally.Scope) Option { return func(o *options) { o.scope = scope } }

// WithListener makes the node serve other hosts on l, and close it in the
// end, instead of listening by itself.
func WithListener(l net.Listener) Option { return func(o *options) { o.listener = l } }

// WithPoints sets how many points a host has on the ring; default
// ringpop.DefaultPoints. More even out the keys and cost memory. All hosts of
// a cluster must have the same.
func WithPoints(points int) Option { return func(o *options) { o.points = points } }

// WithParent makes this cluster part of a larger one: keys whose rule says
// `parent: true` share what parent leases to them. There, the cluster is known
// as name, which all its nodes must have in common and no other cluster may
// have. An rpc.Claimant is a parent, and so is a client of its edge.
func WithParent(name string, parent aggregator.Claiming) Option {
	return func(o *options) {
		if name == "" || parent == nil {
			o.errs = append(o.errs, errors.New("headgate: a cluster above needs a name for this one, and a way to ask it"))
			return
		}
		o.cluster, o.parent = name, parent
	}
}

// WithAlgorithm lets rules name an algorithm of the service's own. All hosts
// of a cluster must have it.
func WithAlgorithm(name string, a algorithm.Algorithm) Option {
	return func(o *options) {
		if builtIn(name) {
			o.errs = append(o.errs, fmt.Errorf("headgate: algorithm %q is built in", name))
			return
		}
		if err := o.registry.Register(name, a); err != nil {
			o.errs = append(o.errs, err)
		}
	}
}

// WithPayload lets rules name an algorithm whose messages and state are the
// service's own: codec speaks for this host, and decider answers messages of
// typeURL for the keys that this host owns.
func WithPayload(name string, codec rpc.Codec, typeURL string, decider rpc.Decider) Option {
	return func(o *options) {
		if o.known(name) {
			o.errs = append(o.errs, fmt.Errorf("headgate: algorithm %q: %w", name, algorithm.ErrTaken))
		}
		o.payloads = append(o.payloads, payload{name, codec, typeURL, decider})
	}
}

// WithRemote lets rules name an algorithm whose buckets are elsewhere, such as
// "redis" with package limiter/redis: r is asked for each event.
func WithRemote(name string, r limiter.Remote) Option {
	return func(o *options) {
		switch {
		case name == "" || r == nil:
			o.errs = append(o.errs, errors.New("headgate: a bucket elsewhere needs a name that rules give, and somebody to ask"))
		case o.known(name):
			o.errs = append(o.errs, fmt.Errorf("headgate: algorithm %q: %w", name, algorithm.ErrTaken))
		case o.remotes == nil:
			o.remotes = map[string]limiter.Remote{name: r}
		default:
			o.remotes[name] = r
		}
	}
}
