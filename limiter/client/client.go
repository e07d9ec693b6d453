// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/exact"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcgrpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/ask"
)

// Option is a collaborator of a Client.
type Option func(*options)

type options struct {
	log     *slog.Logger
	scope   tally.Scope
	limiter []limiter.Option
}

// WithLogger sets the logger; default slog.Default().
func WithLogger(log *slog.Logger) Option { return func(o *options) { o.log = log } }

// WithScope sets where metrics go; default nowhere.
func WithScope(scope tally.Scope) Option { return func(o *options) { o.scope = scope } }

// WithLimiter sets options of the Group of limiters, such as
// limiter.WithMigration, or limiter.WithAlgorithm for one of one's own.
func WithLimiter(opts ...limiter.Option) Option {
	return func(o *options) { o.limiter = append(o.limiter, opts...) }
}

// Client is the limiters of a host whose deciders are remote. Use New. Safe
// for concurrent use.
type Client struct {
	host   string
	group  *limiter.Group
	limits *dynamicconfig.Live
	remote *rpcgrpc.Client

	updates limiter.Updater
	taker   *ask.Taker

	stop   context.CancelFunc
	loops  sync.WaitGroup
	close  sync.Once
	closed error // of closing; written in close
}

// New returns a Client that runs; Close ends it. It loads the limits from
// source once, and refuses to go on without. It does not wait for deciders:
// until the first grants, rules' fallback applies.
func New(config Config, source dynamicconfig.Source, opts ...Option) (*Client, error) {
	o := options{log: slog.Default(), scope: tally.NoopScope}
	for _, option := range opts {
		option(&o)
	}
	err := config.Validate()
	if source == nil {
		err = errors.Join(err, errors.New("client: the config source is nil: use file.New or memory.New"))
	}
	remote, remoteErr := rpcgrpc.NewClient(config.Addresses, rpcgrpc.ClientOptions{TLS: config.TLS})
	if err := errors.Join(err, remoteErr); err != nil {
		return nil, errors.Join(err, hangUp(remote))
	}
	snapshot, err := source.Load(context.Background())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("client: load limits: %w", err), remote.Close())
	}
	running, stop := context.WithCancel(context.Background())
	c := &Client{host: config.host(), limits: dynamicconfig.NewLive(snapshot), remote: remote, stop: stop}
	c.taker = c.newTaker(config)
	c.group = limiter.NewGroup(c.limits.Current(), config.Hosts, append([]limiter.Option{
		limiter.WithLogger(o.log), limiter.WithScope(o.scope),
		limiter.WithRemote(exact.Name, exact.New(c.taker).Waits(config.exactTimeout)),
		limiter.WithRemote(limiter.Auto, exact.NewAuto(c.taker).Waits(config.exactTimeout)),
	}, o.limiter...)...)
	unsubscribe := c.limits.Subscribe(func(_, next *dynamicconfig.Snapshot) {
		c.group.Configure(next)
	})
	c.loops.Go(func() {
		defer unsubscribe()
		c.limits.Run(running, source, o.log)
	})
	c.updates = c.updater(config.Addresses)
	c.loops.Go(func() { c.group.Run(running, c.updates) })
	return c, nil
}

func hangUp(remote *rpcgrpc.Client) error {
	if remote == nil {
		return nil
	}
	return remote.Close()
}

// updater asks the deciders as if they were one, the owner of all keys.
func (c *Client) updater(addresses []string) limiter.Updater {
	one := c.deciders(addresses)
	return &usage.Fanout{Host: c.host, Placement: one, Peers: one}
}

// newTaker returns what asks them for the events of exact keys.
func (c *Client) newTaker(config Config) *ask.Taker {
	one := c.deciders(config.Addresses)
	return &ask.Taker{Host: c.host, Placement: one, Peers: one}
}

func (c *Client) deciders(addresses []string) deciders {
	return deciders{name: strings.Join(addresses, ","), decider: c.remote}
}

// deciders are the only owner, and the way to it.
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

// SetHosts tells how many hosts share the limits now; see Config.Hosts. Call it
// from what knows, such as the replicas of a deployment. Below 1 is 1.
func (c *Client) SetHosts(hosts int) { c.group.SetHosts(hosts) }

// Host is this host's name, as the deciders hear it.
func (c *Client) Host() string { return c.host }

// Close ends the loops, gives back what is leased, hangs up, and returns when
// nothing runs any more. Limiters that are still held go on deciding, by their
// fallbacks where others have given them a part. It may be
// called more than once.
func (c *Client) Close() error {
	c.close.Do(func() {
		c.stop()
		c.loops.Wait()
		c.group.Leave(context.Background(), c.updates)
		c.taker.Close()
		c.closed = c.remote.Close()
	})
	return c.closed
}
