// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/file"
)

// Daemon is a decider with an edge port. Use Start.
type Daemon struct {
	config Config
	log    *slog.Logger
	node   *headgate.Node
	parent *parent // nil without a cluster above
	edge   *edge

	address, edgeAddress string
	served               []string
}

// Start runs a Daemon until Stop. It returns when the daemon answers, which
// takes a first list of members, or when ctx ends. After an error, nothing
// runs.
func Start(ctx context.Context, config Config, log *slog.Logger) (_ *Daemon, err error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("daemon: %w", err)
	}
	d := &Daemon{config: config, log: log}
	cluster, err := listen(ctx, "other deciders", config.Listen)
	if err != nil {
		return nil, err
	}
	l, err := listen(ctx, "programs at the edge", config.Edge)
	if err != nil {
		_ = cluster.Close()
		return nil, err
	}
	d.edge = newEdge(l, config.maxConnections())
	defer func() {
		if err != nil { // the node may have closed its listener already
			d.edge.abandon()
			_ = cluster.Close()
			_ = d.leave()
		}
	}()
	if err := d.prepare(cluster); err != nil {
		return nil, err
	}
	// Who writes the list of members may wait for what port was free.
	log.Info("listening", "cluster", d.address, "edge", d.edgeAddress)
	if err := d.node.Start(ctx); err != nil {
		return nil, err
	}
	for _, register := range services {
		register(d.edge.server, d)
	}
	d.served = d.edge.services()
	d.edge.serve()
	return d, nil
}

func listen(ctx context.Context, what, address string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("daemon: listen for %s: %w", what, err)
	}
	return l, nil
}

// prepare makes the node, which listens on cluster.
func (d *Daemon) prepare(cluster net.Listener) error {
	d.address = d.config.Address
	if d.address == "" {
		d.address = cluster.Addr().String()
		if err := dialable(d.address); err != nil {
			return fmt.Errorf("daemon: listening on all of this machine's addresses: say the one that others dial: %w", err)
		}
	}
	d.edgeAddress = d.config.edgeAddress(d.edge.listener.Addr(), d.address)
	if err := d.config.member(d.address); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	members, err := d.config.members(d.address, d.log)
	if err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	options := []headgate.Option{headgate.WithListener(cluster), headgate.WithLogger(d.log)}
	if d.parent, err = d.config.above(d.edgeAddress, d.log); err != nil {
		return fmt.Errorf("daemon: %w", err)
	}
	if d.parent != nil {
		options = append(options, headgate.WithParent(d.parent.cluster, d.parent))
	}
	d.node, err = headgate.New(headgate.Config{Address: d.address}, file.New(d.config.Limits, file.WithLogger(d.log)), members, options...)
	if err != nil {
		return err
	}
	d.config.checkParents(d.node.Limits().Current(), d.log)
	d.node.Limits().Subscribe(func(_, limits *dynamicconfig.Snapshot) { d.config.checkParents(limits, d.log) })
	return nil
}

// leave hangs up on the cluster above.
func (d *Daemon) leave() error {
	if d.parent == nil {
		return nil
	}
	return d.parent.close()
}

// Address is this decider's, as other deciders dial it.
func (d *Daemon) Address() string { return d.address }

// Edge is where programs that run no decider find it.
func (d *Daemon) Edge() string { return d.edgeAddress }

// Services are the names of the gRPC services at the edge, sorted.
func (d *Daemon) Services() []string { return d.served }

// Node is the decider.
func (d *Daemon) Node() *headgate.Node { return d.node }

// Ended is closed when the edge no longer serves, also if nobody called Stop;
// Stop says why.
func (d *Daemon) Ended() <-chan struct{} { return d.edge.ended }

// Stop says NOT_SERVING to health checks, lets calls at the edge end for as
// long as Config.Drain, and then ends the node. It returns when nothing runs
// any more. Call it once.
func (d *Daemon) Stop(ctx context.Context) error {
	return errors.Join(d.edge.stop(ctx, d.config.drain()), d.node.Stop(ctx), d.leave())
}
