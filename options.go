// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/rule"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/health"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/processes"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/rpcmetrics"
	"github.com/headgate/headgate/rpc/rpcyarpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Option is a collaborator of a Node, or an algorithm of the service's own. A nil Option does
// nothing. With a collaborator that is nil, the Node uses its default.
type Option func(*options)

type options struct {
	log       *slog.Logger
	scope     tally.Scope
	transport Transport
	observers []rpc.Instrument
	own       *rpcyarpc.Standalone // the transport, if there is no other
	points    int
	registry  *algorithm.Registry
	payloads  map[string]Payload // by algorithm
	remotes   map[string]stage.Remote
	answers   questions.Answers
	counts    EdgeCounts // nil: what programs do is not counted
	limiter   []limiter.Option
	above
	health *health.Config // nil: members are not asked
	errs   []error
}

// above is the cluster above, if there is one.
type above struct {
	name   string          // of this cluster there
	parent parent.Claiming // nil without a cluster above
}

// check warns of rules that name a cluster above where there is none.
func (a above) check(limits *dynamicconfig.Snapshot, log *slog.Logger) {
	if a.parent == nil {
		parent.WarnOfNone(limits, log)
	}
}

// Payload is an algorithm with messages and state of its own.
type Payload struct {
	// Codec makes the messages of this host, and reads the answers. Required.
	Codec usage.Codec

	// TypeURL is that of the messages: see rpc.TypeURL. Required.
	TypeURL string

	// Owner answers them for the keys that this host owns. Required. Its
	// Configure is called by New.
	Owner aggregator.Owner

	// Traits say what hosts must know of the algorithm: whether they report
	// early, for instance. The zero Traits are those of an algorithm that needs
	// nothing. Asks, Pooled and Local say how headgate's own algorithms reach
	// tokens, and New refuses them here.
	Traits dynamicconfig.Traits
}

// Transport carries calls between the hosts of a cluster. It is safe for
// concurrent use. Package rpcyarpc has two.
type Transport interface {
	// Peers finds the other hosts by their addresses.
	rpc.Peers

	// Start begins to answer other hosts by decider, and to call them. After
	// an error, nothing runs.
	Start(ctx context.Context, decider rpc.Decider) error

	// Keep closes the connections to all addresses but these.
	Keep(addresses []string) error

	// Stop ends what Start began, and returns when nothing of it runs any
	// more, or with an error when ctx ends. After an error, a Node that is
	// stopped again calls Stop again.
	Stop(ctx context.Context) error
}

// WithLogger sets the logger; default slog.Default().
func WithLogger(log *slog.Logger) Option {
	return func(o *options) { o.log = cmp.Or(log, slog.Default()) }
}

// WithScope sets where metrics go; default nowhere. The names of a Node's
// metrics begin with headgate, below whatever prefix scope has.
func WithScope(scope tally.Scope) Option {
	return func(o *options) {
		o.scope = scope
	}
}

// WithListen has the Node serve other hosts on l, and close it in the end.
// By default the Node listens by itself, where Config says.
func WithListen(l net.Listener) Option { return func(o *options) { o.own.Listener = l } }

// WithTransport has the Node reach other hosts by t, and not by a listener and
// connections of its own. A service hands over its own YARPC dispatcher with
// rpcyarpc.OnDispatcher. Config's Address is where t answers.
func WithTransport(t Transport) Option { return func(o *options) { o.transport = t } }

// WithInstrument has i observe the calls between hosts, such as one of package rpc/rpcotel,
// beside those before it, and beside the Node's own metrics.
func WithInstrument(i rpc.Instrument) Option {
	return func(o *options) {
		if i != nil {
			o.observers = append(o.observers, i)
		}
	}
}

// WithLimiter adds options of the Node's limiters, such as
// limiter.WithListener, which is called with what limiters decide.
func WithLimiter(opts ...limiter.Option) Option {
	return func(o *options) { o.limiter = append(o.limiter, opts...) }
}

// EdgeCounts counts what programs do that decide for themselves, and report at the Edge of a
// Node. Its methods are called by any goroutine, while programs wait. They keep nothing of
// what they get.
type EdgeCounts interface {
	// Reported is called with a report that was answered. Owners did not count the rows in
	// unanswered: the program reports them again. Under auto, where programs also ask the
	// owner for events, r counts what the owner granted them as rejected.
	Reported(r *usage.Report, unanswered []int)

	// Took is called with what programs asked the owner for, or gave back, and with the
	// answers: took[i] is that to rows[i].
	Took(rows []usage.Take, took []usage.Took)
}

// WithEdgeCounts has c count what programs do at the Node's Edge. Default: none.
func WithEdgeCounts(c EdgeCounts) Option { return func(o *options) { o.counts = c } }

// WithPoints sets how many points a host has on the ring; default
// ringpop.DefaultPoints. More points spread keys more evenly and cost memory.
// All hosts of a cluster must have the same number.
func WithPoints(points int) Option {
	return func(o *options) {
		if points < 0 || points > ringpop.MaxPoints {
			o.fail("headgate: WithPoints: a host has %d points: use 1 to %d, or 0 for the default", points, ringpop.MaxPoints)
		}
		o.points = points
	}
}

// WithHealth leaves members that do not answer out of the ring; see package ringpop/health. By
// default, a member is on the ring for as long as it is listed. Leave config's Ping and Self
// zero: the Node sets them. Its Logger is the Node's by default. Close its Leaving half a second or more
// before Stop, and other hosts own this host's keys before it is gone.
//
// With ringpop/gossip, which knows who lives, health checks find hosts that live and do not
// answer at the port for other hosts. A host that most others do not reach there is off its own
// ring too. Give config's After more than 2 seconds then, so that gossip is the first to notice
// what has died.
func WithHealth(config health.Config) Option {
	return func(o *options) {
		if min(config.Interval, config.After) < 0 {
			o.fail("headgate: WithHealth: an Interval or After is negative; 0 is the default")
		}
		o.health = &config
	}
}

// WithParent makes this cluster part of a larger one: keys whose rule says
// `parent: true` share what parent leases to them. The parent knows this cluster
// as name, which all its nodes must have in common and no other cluster may
// have. A claims.Claimant is a parent, and so is a client of its edge. Without WithParent,
// these keys have nothing but their rules' fallbacks.
func WithParent(name string, parent parent.Claiming) Option {
	return func(o *options) {
		if name == "" || parent == nil {
			o.fail("headgate: a parent needs a name for this cluster, and a client that asks it")
		}
		o.above = above{name, parent}
	}
}

// WithAlgorithm lets rules name a weighting of the service's own. `algorithm: mine` has it
// divide a pool; `algorithm: {account: average, weigh: mine}` has it divide what another
// account keeps. All hosts of a cluster must have it.
func WithAlgorithm(name string, weigh algorithm.Weigh) Option {
	return func(o *options) {
		if o.known(name) {
			o.taken(name)
		} else if err := errors.Join(rule.CheckAlgorithm(name), o.registry.Register(name, weigh)); err != nil {
			o.fail("headgate: %w", err)
		}
	}
}

// WithPayload lets rules name an algorithm whose messages and state are the
// service's own. All hosts of a cluster must have it.
func WithPayload(name string, p Payload) Option {
	return func(o *options) {
		switch err := rule.CheckAlgorithm(name); {
		case err != nil:
			o.fail("headgate: %w", err)
		case p.Codec == nil || p.Owner == nil || p.TypeURL == "":
			o.fail("headgate: payload %s needs a codec, the type URL of its messages, and an owner that answers them", name)
		case p.Traits.Asks || p.Traits.Pooled || p.Traits.Local:
			o.fail("headgate: payload %s: its traits have Asks, Pooled or Local, which only algorithms that come with headgate may have: hosts report to the payload's owner, and it answers. Set them to false", name)
		case o.known(name):
			o.taken(name)
		default:
			o.payloads[name] = p
		}
	}
}

// WithRemote lets rules name an algorithm whose buckets are elsewhere, such as
// "redis" with package limiter/redis: each event asks r.
func WithRemote(name string, r stage.Remote) Option {
	return func(o *options) {
		switch err := rule.CheckAlgorithm(name); {
		case err != nil:
			o.fail("headgate: %w", err)
		case r == nil:
			o.fail("headgate: remote %s is nil: give what asks its buckets, such as what redis.New returns", name)
		case o.known(name):
			o.taken(name)
		default:
			o.remotes[name] = r
		}
	}
}

func defaults() options {
	return options{
		log: slog.Default(), own: new(rpcyarpc.Standalone),
		registry: algorithm.Builtin(), remotes: make(map[string]stage.Remote), payloads: make(map[string]Payload),
	}
}

func (o *options) fail(format string, args ...any) {
	o.errs = append(o.errs, fmt.Errorf(format, args...))
}

func (o *options) taken(name string) { o.fail("headgate: algorithm %q: %w", name, algorithm.ErrTaken) }

// connect has the Node listen where config says, unless it has another Transport. All calls are
// counted, and watched.
func (o *options) connect(config Config, watch *processes.Watch) error {
	switch {
	case o.transport != nil && (config.Listen != "" || o.own.Listener != nil || o.own.Server.TLS != nil):
		return errors.New("headgate: WithTransport brings its own listener and TLS: remove WithListen, WithTLS and Config.Listen, or WithTransport")
	case config.Listen != "" && o.own.Listener != nil:
		return errors.New("headgate: Config.Listen and WithListen both say where to listen: remove one of them")
	case o.transport == nil:
		o.own.Address = config.listen()
		o.transport = o.own
	}
	o.observers = append(o.observers, rpcmetrics.New(o.scope), watch)
	o.transport = observed{o.transport, rpc.Observed(o.transport, o.observers...), o.observers}
	return nil
}

// observed is a Transport whose calls all observe.
type observed struct {
	Transport

	peers rpc.Peers
	all   []rpc.Instrument
}

func (t observed) Start(ctx context.Context, decider rpc.Decider) error {
	return t.Transport.Start(ctx, rpc.Answering(decider, t.all...))
}

func (t observed) Peer(address string) (rpc.Decider, error) { return t.peers.Peer(address) }

// builtIn reports whether name is an algorithm that no Registry has.
func builtIn(name string) bool { return name == limiter.Even || name == mesh.Name }

// known reports whether rules may name algorithm.
func (o *options) known(name string) bool {
	_, err := o.registry.Lookup(name)
	_, own := o.payloads[name]
	return err == nil || builtIn(name) || o.remotes[name] != nil || own
}

// check returns what is wrong with the algorithms that limits name, and with
// their parameters.
func (o *options) check(limits *dynamicconfig.Snapshot) error {
	errs := []error{limits.Check(o.known), limits.CheckParameters(o.checkParameters)}
	for rule := range limits.Each() {
		if m := rule.Migration; m != nil && o.registry.Canonical(m.From) == o.registry.Canonical(m.To) {
			errs = append(errs, fmt.Errorf("rule %q: migrate: %s and %s are two names of one algorithm: name two algorithms", rule.Key, m.From, m.To))
		}
		for _, band := range slices.Sorted(maps.Keys(rule.Priorities)) {
			if name := rule.Priorities[band]; o.known(name) { // else limits.Check has said so
				if _, err := o.registry.InBand(name); err != nil {
					errs = append(errs, fmt.Errorf("rule %q: priorities.%d: %s does not share within a band: use none, static, proportional-share, fair-share or a weighting", rule.Key, band, name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// checkParameters returns what is wrong with the parameters of an algorithm.
// Algorithms with a payload or a remote check their own.
func (o *options) checkParameters(name string, parameters map[string]string) error {
	if builtIn(name) {
		return fmt.Errorf("%s takes none: remove them", name)
	}
	if _, err := o.registry.Lookup(name); err != nil {
		return nil
	}
	_, err := o.registry.Build(name, parameters)
	return err
}

// traits are what hosts must know of the service's own algorithms.
func (o *options) traits() (all []limiter.Option) {
	for _, name := range o.registry.Names() {
		if _, ok := dynamicconfig.TraitsOf(name); !ok {
			all = append(all, limiter.WithAlgorithm(name, dynamicconfig.Traits{Early: true, Rates: true, Slots: true}))
		}
	}
	for name, p := range o.payloads {
		all = append(all, limiter.WithAlgorithm(name, p.Traits))
	}
	return all
}
