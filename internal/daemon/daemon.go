// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/daemon/above"
	"github.com/headgate/headgate/internal/daemon/access"
	"github.com/headgate/headgate/internal/daemon/dialled"
	"github.com/headgate/headgate/internal/daemon/doors"
	"github.com/headgate/headgate/internal/daemon/lastgood"
	"github.com/headgate/headgate/internal/daemon/meters"
	"github.com/headgate/headgate/internal/daemon/redisbuckets"
	"github.com/headgate/headgate/internal/operators"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/ringpop/gossip"
)

// Daemon is a decider with an edge port. Use Start.
type Daemon struct {
	config  Config
	log     *slog.Logger
	access  *access.Access
	node    *headgate.Node
	parent  *above.Cluster        // nil without a cluster above
	redis   *redisbuckets.Buckets // nil without Redis
	edge    *doors.Edge
	web     *doors.Web
	metrics *meters.Metrics // nil without an admin address
	gossip  *gossip.Members // nil unless members are found by seeds
	limits  LimitsDB        // nil without a database of limits
	kept    *lastgood.Source
	desk    *operators.Desk
	phase   phase
	turns   doors.Turns
	ending  *doors.Ending // of the edge or the web

	address, edgeAddress string
}

// Start runs a Daemon until Stop. It returns when the daemon answers, which
// takes a first list of members, or when ctx ends. After an error, nothing
// runs.
func Start(ctx context.Context, config Config, log *slog.Logger) (_ *Daemon, err error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	d := &Daemon{config: config, log: log, phase: phase{stopping: make(chan struct{})}, turns: doors.NewTurns(), ending: doors.NewEnding()}
	cluster, err := listen(ctx, "other deciders", "listen", config.Listen)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil { // the node may have closed its listener already
			d.abandon()
			_ = cluster.Close()
			_ = d.leave()
		}
	}()
	if err := d.open(ctx); err != nil {
		return nil, err
	}
	if err := d.prepare(ctx, cluster); err != nil {
		return nil, err
	}
	// Who writes the list of members may wait for what port was free.
	log.Info("listening", "cluster", d.address, "edge", d.edgeAddress)
	d.metrics.Handle("GET /cluster", http.HandlerFunc(d.serveCluster))
	d.serveOperators()
	d.metrics.Serve()
	if d.gossip != nil {
		if err := d.gossip.Start(ctx); err != nil {
			return nil, fmt.Errorf("daemon: %w", err)
		}
		log.Info("joined", "gossip", d.gossip.Address(), "members", len(d.gossip.Standings()))
	}
	if err := d.node.Start(ctx); err != nil {
		return nil, err
	}
	for _, register := range services {
		register(d.edge, d)
	}
	d.serveWeb()
	d.edge.Serve()
	d.phase.Store(serving)
	return d, nil
}

// prepare makes the node, which listens on cluster.
func (d *Daemon) prepare(ctx context.Context, cluster net.Listener) error {
	d.address = d.config.Address
	if d.address == "" {
		d.address = cluster.Addr().String()
		if err := dialled.Check(d.address, 7933); err != nil {
			return fmt.Errorf("daemon: listening on all of this machine's addresses: say the one that others dial: %w", err)
		}
	}
	d.edgeAddress = d.config.edgeAddress(d.edge.Addr(), d.address)
	if err := d.config.member(d.address); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	members, options, err := d.members(ctx)
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	d.desk = operators.New(d.watches()...)
	options = append(options, headgate.WithAnswers(d.desk.Answers()), headgate.WithEdgeCounts(d.desk.EdgeCounts()), headgate.WithListen(cluster), headgate.WithLogger(d.log), headgate.WithScope(d.metrics.Root()))
	if d.access.Deciders != nil {
		options = append(options, headgate.WithRotatingTLS(func() *tls.Config { return d.access.Deciders.Peer(d.config.ClusterTLS.Name) }))
	}
	if d.parent, err = d.config.above(d.edgeAddress, d.access.Programs, d.log); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	if d.parent != nil {
		options = append(options, headgate.WithParent(d.parent.Name(), d.parent))
	}
	if len(d.config.Redis.Addresses) > 0 {
		if d.redis, err = d.config.Redis.open(d.log, d.metrics.Scope()); err != nil {
			return fmt.Errorf("daemon: %w", err)
		}
		options = append(options, headgate.WithRemote(redisName, d.redis))
	}
	if d.node, err = d.newNode(members, options); err != nil {
		return err
	}
	d.access.Denied = d.node.Group().Denied
	d.desk.Open(d.node, d.address, d.standings())
	if err := errors.Join(d.metrics.Tell(d.unreachable), d.metrics.TellKeys(d.desk)); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	if d.parent != nil {
		d.parent.Show(func(key string) string { return d.node.Limits().Current().Shown(key) })
	}
	d.checkLimits(nil, d.node.Limits().Current())
	d.node.Limits().Subscribe(d.checkLimits)
	return nil
}

// newNode makes the node, of the last good limits if the present ones cannot be used.
func (d *Daemon) newNode(members ringpop.Members, options []headgate.Option) (*headgate.Node, error) {
	if d.config.Data != "" {
		if err := os.MkdirAll(d.config.Data, 0o700); err != nil {
			return nil, fmt.Errorf("daemon: the directory of data: %w", err)
		}
	}
	source, err := d.source()
	if err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	limits := lastgood.New(source, cmp.Or(d.config.LimitsDB, d.config.Limits), d.config.Data, d.log)
	node, err := headgate.New(headgate.Config{Address: d.address}, limits, members, options...)
	if err != nil {
		if err = limits.Retreat(err); err != nil {
			return nil, err
		}
		if node, err = headgate.New(headgate.Config{Address: d.address}, limits, members, options...); err != nil {
			return nil, err
		}
	}
	d.kept = limits
	limits.Save(nil, node.Limits().Current())
	node.Limits().Subscribe(limits.Save)
	return node, nil
}

// watches says what the desk is for.
func (d *Daemon) watches() (all []operators.Option) {
	if d.config.TopKeys > 0 {
		all = append(all, operators.WithTopKeys(d.config.TopKeys))
	}
	if d.access.Staff == nil {
		all = append(all, operators.WithoutPast())
	}
	return all
}

// serveOperators adds the API and the pages of operators to the admin address, if there are any. Call it
// before that is served.
func (d *Daemon) serveOperators() {
	if d.metrics == nil || d.access.Staff == nil && d.config.TopKeys == 0 {
		return
	}
	d.access.Follow(d.desk.Run)
	if d.access.Staff == nil {
		return
	}
	c := operators.Config{Policy: d.access.Staff.Current, Log: d.log.With("part", "operators")}
	if d.limits != nil {
		c.Store = d.limits
	}
	d.metrics.Handle("/", d.desk.Handler(c))
}

// checkLimits warns of what limits and d's config say differently.
func (d *Daemon) checkLimits(_, limits *dynamicconfig.Snapshot) {
	d.config.parent().CheckAsked(limits, d.log)
	d.config.Redis.check(limits, d.log)
}

// leave hangs up on the other members, the cluster above, Redis, and the database of limits.
func (d *Daemon) leave() error {
	var errs []error
	if d.gossip != nil {
		errs = append(errs, d.gossip.Stop())
	}
	if d.parent != nil {
		errs = append(errs, d.parent.Close())
	}
	if d.redis != nil {
		errs = append(errs, d.redis.Close())
	}
	if d.limits != nil {
		errs = append(errs, d.limits.Close())
	}
	return errors.Join(errs...)
}

// Address is this decider's, as other deciders dial it.
func (d *Daemon) Address() string { return d.address }

// Edge is where programs that run no decider find it.
func (d *Daemon) Edge() string { return d.edgeAddress }

// HTTP is where programs find HTTP; empty if nowhere.
func (d *Daemon) HTTP() string {
	if d.config.HTTP == "" {
		return ""
	}
	return d.web.Addr().String()
}

// Admin is where operators find metrics, health and profiles; empty if nowhere.
func (d *Daemon) Admin() string { return d.metrics.Address() }

// Services are the names of the gRPC services at the edge, sorted.
func (d *Daemon) Services() []string { return d.edge.Services() }

// Node is the decider.
func (d *Daemon) Node() *headgate.Node { return d.node }

// Ended is closed when the edge, or HTTP, is no longer served, also if no one
// called Stop; Stop says why.
func (d *Daemon) Ended() <-chan struct{} { return d.ending.Ended() }

// Stop says NOT_SERVING to health checks, notifies other members, and answers requests for Config.LameDuck
// more. Then it closes the ports, lets calls at the edge end for as long as
// Config.Drain, and ends the node. It returns when nothing runs
// any more. That some calls had to be ended is logged, and no error. Call it
// once.
func (d *Daemon) Stop(ctx context.Context) error {
	early := d.ending.Err()
	if early != nil {
		early = fmt.Errorf("serve programs: %w", early)
	}
	d.retire(ctx)
	drain := d.config.drain()
	var fromWeb error
	var web sync.WaitGroup
	web.Go(func() { fromWeb = d.web.Stop(ctx, drain, d.log) })
	fromEdge := d.edge.Stop(ctx, drain, d.log, func() {
		web.Wait()
		d.web.HangUp()
	})
	err := errors.Join(early, fromEdge, fromWeb, d.node.Stop(ctx), d.leave(), d.metrics.Stop())
	d.access.Close()
	return err
}
