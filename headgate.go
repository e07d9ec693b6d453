// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/health"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/claims"
	"github.com/headgate/headgate/rpc/meshusage"
	"github.com/headgate/headgate/rpc/processes"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
	"github.com/headgate/headgate/shadow"
)

// Config is what a Node must know of its own host.
type Config struct {
	// Address of this host, host:port, as the list of members has it and as
	// other hosts dial it. Required.
	Address string

	// Listen is where to listen for other hosts, host:port; default Address.
	// Set it when the address that others dial is not one of this host's own. New
	// refuses it beside WithListen or WithTransport, which bring a listener.
	Listen string
}

// Validate returns all that is wrong with c.
func (c Config) Validate() error {
	var errs []error
	if err := ringpop.CheckAddress("address", c.Address); err != nil {
		errs = append(errs, fmt.Errorf("headgate: %w, and use Listen for an address like :7933", err))
	}
	if _, _, err := ringpop.SplitAddress("listen", c.listen()); c.Listen != "" && err != nil {
		errs = append(errs, fmt.Errorf("headgate: %w", err))
	}
	return errors.Join(errs...)
}

func (c Config) listen() string { return cmp.Or(c.Listen, c.Address) }

// Node is one host of a cluster. It limits, and it decides for the keys that it
// owns. Use New. It is safe for concurrent use.
type Node struct {
	options
	inquiries

	source  dynamicconfig.Source
	members ringpop.Members
	checked *health.Members   // the members, with WithHealth
	watch   *processes.Watch  // of hosts that are two processes
	missing atomic.Int64      // deciders: see ringpop.Split
	owners  aggregator.Owners // the aggregator, and those of payloads
	takes   *ask.Forward

	mu    turn // protects loops
	loops loops
}

// New returns a Node that is not yet started. It loads the limits from source
// once, and returns an error if they are not valid: a service should not start
// with a broken file.
func New(config Config, source dynamicconfig.Source, members ringpop.Members, opts ...Option) (*Node, error) {
	o := defaults()
	for _, option := range opts {
		if option != nil {
			option(&o)
		}
	}
	o.scope = scopes.Guard(o.scope, o.log).SubScope("headgate")
	if source == nil {
		o.errs = append(o.errs, errors.New("headgate: the config source is nil: use file.New or memory.New"))
	}
	if members == nil {
		o.errs = append(o.errs, errors.New("headgate: the members are nil: use static.New or hosted.New"))
	}
	watch := processes.New(config.Address, o.log, o.scope)
	if err := errors.Join(config.Validate(), errors.Join(o.errs...), o.connect(config, watch)); err != nil {
		return nil, err
	}
	snapshot, err := source.Load(context.Background())
	switch {
	case err == nil && snapshot == nil:
		err = errors.New("the config source returned none, and no error")
	case err == nil:
		err = o.check(snapshot)
	}
	if err != nil {
		return nil, fmt.Errorf("headgate: load limits: %w", err)
	}
	n := &Node{
		options: o,
		inquiries: inquiries{
			address: config.Address,
			peers:   o.transport,
			limits:  dynamicconfig.NewLive(snapshot, dynamicconfig.WithCheck(o.check)),
			ring:    ringpop.NewLive(o.points, ringpop.WithLogger(o.log)),
		},
		source:  source,
		members: members,
		watch:   watch,
		mu:      make(turn, 1),
	}
	if o.health != nil {
		n.checkHealth(*o.health)
	}
	if err := n.assemble(n.limits.Current()); err != nil {
		return nil, err
	}
	n.limits.Subscribe(n.configure) // the service may set limits before Start, too
	return n, nil
}

// assemble makes n's parts and connects them.
func (n *Node) assemble(snapshot *dynamicconfig.Snapshot) (err error) {
	n.aggregator = aggregator.New(n.registry, snapshot, aggregator.WithLogger(n.log), aggregator.WithScope(n.scope))
	taker := &ask.Taker{Host: n.address, Placement: n.ring, Peers: n.transport, Self: n.address, Local: n.aggregator}
	n.takes = &ask.Forward{Taker: taker, Timeout: n.askTimeout, MaxWait: n.longestWait, Others: n.others}
	ofExact, ofAuto := exact.New(taker), exact.NewAuto(taker)
	if n.counts != nil {
		n.takes.Served = n.counts.Took
	}
	n.mesh = mesh.New(n.address, func(key string) (*dynamicconfig.Rule, bool) { return n.limits.Current().Match(key) },
		mesh.Config{Interval: meshInterval(snapshot)},
		mesh.WithLogger(n.log), mesh.WithScope(n.scope))
	group := []limiter.Option{
		limiter.WithLogger(n.log), limiter.WithScope(n.scope), limiter.WithMigration(shadow.Migrator()),
		driver.WithPlacement(n.ring),
		limiter.WithRemote(algorithm.NameExact, ofExact), limiter.WithCharges(algorithm.NameExact, ofExact),
		limiter.WithRemote(algorithm.NameAuto, ofAuto), limiter.WithCharges(algorithm.NameAuto, ofAuto),
		limiter.WithRemote(mesh.Name, n.mesh), driver.WithLevel(mesh.Name, n.mesh.Level),
	}
	for name, r := range n.remotes {
		group = append(group, limiter.WithRemote(name, r))
	}
	n.group = limiter.NewGroup(snapshot, 0, slices.Concat(group, n.traits(), n.limiter)...)

	withdrawn := ask.Withdrawn{Edge: n.takes}
	if n.health != nil {
		withdrawn.Leaving = n.health.Leaving
	}
	local := new(rpc.Mux)
	n.fanout = &usage.Fanout{Host: n.address, Placement: n.ring, Peers: n.transport, Self: n.address, Here: n.aggregator, Local: local, Codecs: make(map[string]usage.Codec), Refused: refused(n.log, n.scope)}
	errs := []error{
		local.Register(usage.ReportTypeURL, n.aggregator),
		local.Register(claims.TypeURL, n.aggregator),
		local.Register(usage.TakesTypeURL, n.aggregator),
		local.Register(meshusage.TypeURL, n.mesh),
		local.Register(ask.WithdrawalsTypeURL, withdrawn),
		local.Register(questions.TypeURL, n.answer(n.answers)),
	}
	n.owners = aggregator.Owners{All: []aggregator.Owner{n.aggregator}, Log: n.log}
	for _, name := range slices.Sorted(maps.Keys(n.payloads)) {
		p := n.payloads[name]
		n.fanout.Codecs[name] = p.Codec
		if err := p.Owner.Configure(snapshot); err != nil {
			errs = append(errs, fmt.Errorf("headgate: payload %s: %w", name, err))
		}
		n.owners.All = append(n.owners.All, p.Owner)
		errs = append(errs, local.Register(p.TypeURL, n.owners.Serve(p.Owner)))
	}
	return errors.Join(errs...)
}

// refused counts messages of payloads of which some rows are refused, and logs one in ten seconds of all.
func refused(log *slog.Logger, scope tally.Scope) func(payload string, err error) {
	count, now := scope.SubScope("limiter").Counter("bad_grants"), &rate.Sometimes{Interval: 10 * time.Second}
	return func(payload string, err error) {
		count.Inc(1)
		now.Do(func() { log.Warn("some keys of a payload have no grant", "payload", payload, "error", err) })
	}
}

// For returns the limiter of key. Any text of 1 to 1024 bytes is a key; the
// usual form is `group:name`. For never fails and never waits; see
// limiter.Group.
func (n *Node) For(key string) *limiter.Limiter { return n.group.For(key) }

// Group returns the node's limiters. Its Inspect says why a key is limited as
// it is, and how the two sides of its migration answered.
func (n *Node) Group() *limiter.Group { return n.group }

// Limits returns the live config, for typed properties.
func (n *Node) Limits() *dynamicconfig.Live { return n.limits }

// Ring returns the hosts as this node sees them now.
func (n *Node) Ring() *ringpop.Ring { return n.ring.Ring() }

// Missing is how many hosts that own keys, beside those of Ring, may live on the other side of
// a split of the network. It is 0 unless this node is on the smaller side. Owners on the
// smaller side grant a part of each limit: see aggregator.Cluster.
func (n *Node) Missing() int { return int(n.missing.Load()) }

// checkHealth leaves members out that do not answer at the port for other hosts.
func (n *Node) checkHealth(c health.Config) {
	c.Self = n.address
	if c.Logger == nil {
		c.Logger = n.log
	}
	c.Ping = func(ctx context.Context, address string) error {
		peer, err := n.transport.Peer(address)
		if err != nil {
			return err
		}
		if err = ask.Ping(ctx, peer, n.address); errors.Is(err, ask.ErrLeaves) {
			return health.ErrLeaves
		}
		return err
	}
	n.checked = health.New(n.members, c)
	n.members = n.checked
}

// Standings returns what this host knows of each member, sorted by address. Without
// WithHealth, the members themselves know, and there are none here.
func (n *Node) Standings() []ringpop.Standing {
	if n.checked == nil {
		return nil
	}
	return n.checked.Standings()
}

// Edge returns a Decider that answers for any key by asking the key's owner:
// see usage.Forward, claims.Forward and ask.Forward. It is for hosts that
// do not know the ring, such as those that rpcgrpc serves. It answers between
// Start and Stop. failed, when not nil, is called for each owner that does not
// answer.
func (n *Node) Edge(failed func(part usage.Part, err error)) rpc.Decider {
	var mux rpc.Mux
	reports := &usage.Forward{Fanout: n.fanout, Failed: failed}
	if n.counts != nil {
		reports.Answered = n.counts.Reported
	}
	// The types differ, so Register returns no error.
	_ = mux.Register(usage.ReportTypeURL, n.board.Before(reports))
	_ = mux.Register(claims.TypeURL, claims.Forward{Claimant: n.Claimant()})
	_ = mux.Register(usage.TakesTypeURL, n.takes)
	return &mux
}

// Claimant returns a claims.Claimant, which asks the owners of keys for leases on behalf
// of any host. It works between Start and Stop.
func (n *Node) Claimant() *claims.Claimant {
	return &claims.Claimant{Host: n.address, Placement: n.ring, Peers: n.transport, Self: n.address, Here: n.aggregator}
}

// askTimeout is the ask_timeout of key's rule; 0 if it has none.
func (n *Node) askTimeout(key string) time.Duration {
	if rule, ok := n.limits.Current().Match(key); ok {
		return rule.AskTimeout
	}
	return 0
}

// longestWait is the longest that an event of another program waits for tokens of key.
func (n *Node) longestWait(key string) time.Duration {
	rule, _ := n.limits.Current().Match(key)
	return rule.LongestWait()
}
