// SPDX-License-Identifier: Apache-2.0

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/guarded"
	"github.com/headgate/headgate/internal/scopes"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/limiter/explain"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/questions"
	"github.com/headgate/headgate/rpc/questions/carried"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/rpcmetrics"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// Option is a collaborator of a Client.
type Option func(*options)

type options struct {
	log       *slog.Logger
	scope     tally.Scope
	limiter   []limiter.Option
	observers []rpc.Instrument
}

// WithLogger sets the logger; default slog.Default().
func WithLogger(log *slog.Logger) Option {
	return func(o *options) { o.log = cmp.Or(log, slog.Default()) }
}

// WithScope sets where metrics go; default nowhere.
func WithScope(scope tally.Scope) Option {
	return func(o *options) {
		o.scope = scope
	}
}

// WithLimiter sets options of the Group of limiters, such as
// limiter.WithMigration, or limiter.WithAlgorithm for one of one's own.
func WithLimiter(opts ...limiter.Option) Option {
	return func(o *options) { o.limiter = append(o.limiter, opts...) }
}

// WithInstrument has i observe the calls to deciders, such as one of package rpc/rpcotel,
// beside those before it, and beside the Client's own metrics.
func WithInstrument(i rpc.Instrument) Option {
	return func(o *options) {
		if i != nil {
			o.observers = append(o.observers, i)
		}
	}
}

// Client is the limiters of a host whose deciders are remote. Use New. Safe
// for concurrent use.
type Client struct {
	host   string
	group  *limiter.Group
	limits *dynamicconfig.Live
	remote *rpcgrpc.Client

	hosts   atomic.Int64 // that share the limits
	updates usage.Updater
	taker   *ask.Taker

	stop     context.CancelFunc
	reports  sync.WaitGroup
	follows  sync.WaitGroup  // the source, which may not heed its context
	listened <-chan struct{} // closed when all listeners of limiters have returned
	close    sync.Once
	closed   error // of closing; written in close
}

// New returns a Client that runs; Close ends it. It loads the limits from
// source once, and refuses to go on without. It does not wait for deciders:
// until the first grants, rules' fallback applies.
func New(config Config, source dynamicconfig.Source, opts ...Option) (*Client, error) {
	o := options{log: slog.Default()}
	for _, option := range opts {
		if option != nil {
			option(&o)
		}
	}
	o.scope = scopes.Guard(o.scope, o.log)
	err := config.Validate()
	if source == nil {
		err = errors.Join(err, errors.New("client: the config source is nil: use file.New or memory.New"))
	}
	remote, remoteErr := rpcgrpc.NewClient(config.Addresses, rpcgrpc.ClientOptions{TLS: config.TLS})
	if err := errors.Join(err, remoteErr); err != nil {
		if remote != nil {
			err = errors.Join(err, remote.Close())
		}
		return nil, err
	}
	snapshot, err := source.Load(context.Background())
	if err == nil && snapshot == nil {
		err = errors.New("the config source returned none, and no error")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("client: load limits: %w", err), remote.Close())
	}
	running, stop := context.WithCancel(context.Background())
	c := &Client{host: config.host(), limits: dynamicconfig.NewLive(snapshot), remote: remote, stop: stop}
	one := deciders{name: strings.Join(config.Addresses, ","), decider: remote}
	for _, i := range append([]rpc.Instrument{rpcmetrics.New(o.scope)}, o.observers...) {
		one.decider = i.Caller(one.name, one.decider)
	}
	c.hosts.Store(int64(max(config.Hosts, 1)))
	one.decider = &carried.Program{Edge: one.decider, Answers: c.answers()}
	c.taker = &ask.Taker{Host: c.host, Placement: one, Peers: one, Undecided: errUndecided}
	ofExact, ofAuto := exact.New(c.taker).Waits(config.exactTimeout), exact.NewAuto(c.taker).Waits(config.exactTimeout)
	c.group = limiter.NewGroup(c.limits.Current(), config.Hosts, append([]limiter.Option{
		limiter.WithLogger(o.log), limiter.WithScope(o.scope),
		limiter.WithRemote(exact.Name, ofExact), limiter.WithCharges(exact.Name, ofExact),
		limiter.WithRemote(limiter.Auto, ofAuto), limiter.WithCharges(limiter.Auto, ofAuto),
	}, o.limiter...)...)
	unsubscribe := c.limits.Subscribe(func(_, next *dynamicconfig.Snapshot) { c.group.Configure(next) })
	c.follows.Go(func() {
		defer unsubscribe()
		c.limits.Run(running, guarded.Source{Source: source}, o.log)
	})
	c.updates = &usage.Fanout{Host: c.host, Placement: one, Peers: one}
	limiters := driver.Of(c.group)
	c.reports.Go(func() { limiters.RunReports(running, c.updates) })
	c.listened = limiters.Listen(running) // apart from the loops: a listener may block
	return c, nil
}

// errUndecided is that a decider answered, and decided nothing.
var errUndecided = errors.New("client: the decider got no answer about this key from the key's owner in time, which its log says; or deciders have other limits than this program, or no room for the key (max_keys, max_owned_keys)")

// deciders are asked as if they were one, the owner of all keys.
type deciders struct {
	name    string
	decider rpc.Decider
}

func (d deciders) Owner(string) string { return d.name }

func (d deciders) Peer(string) (rpc.Decider, error) { return d.decider, nil }

// For returns the limiter of key, which is a `group:name`. It never fails and
// never waits; see limiter.Group.
func (c *Client) For(key string) *limiter.Limiter { return c.group.For(key) }

// Group returns the client's limiters.
func (c *Client) Group() *limiter.Group { return c.group }

// Limits returns the live config, for typed properties.
func (c *Client) Limits() *dynamicconfig.Live { return c.limits }

// SetHosts says how many hosts share the limits now; see Config.Hosts. Call it
// from what knows, such as the replicas of a deployment. Below 1 is 1.
func (c *Client) SetHosts(hosts int) {
	c.hosts.Store(int64(max(hosts, 1)))
	c.group.SetHosts(hosts)
}

// answers are what deciders ask on behalf of operators: see headgate.Node's Explain and Trace.
func (c *Client) answers() questions.Answers {
	trace := func(on bool) func(context.Context, []byte) (any, error) {
		return func(_ context.Context, about []byte) (any, error) { return c.group.Trace(string(about), on), nil }
	}
	return questions.Answers{
		"key": func(_ context.Context, about []byte) (any, error) {
			return explain.Here(c.host, c.group, c.limits.Current(), int(c.hosts.Load()), string(about)), nil
		},
		"trace":   trace(true),
		"untrace": trace(false),
	}
}

// Host is this host's name, as the deciders see it.
func (c *Client) Host() string { return c.host }

// Close ends the loops, gives back what is leased, hangs up, and returns when
// nothing runs any more. It waits for the source of limits and the listeners of limiters last,
// because they are the program's and may block. Limiters that are still held go on deciding, by their fallbacks where
// others have given them a part. Close may be called more than once.
func (c *Client) Close() error {
	c.close.Do(func() {
		c.stop()
		c.reports.Wait()
		c.group.Leave(context.Background(), c.updates)
		c.taker.Close()
		c.closed = c.remote.Close()
		c.follows.Wait()
		<-c.listened
	})
	return c.closed
}
