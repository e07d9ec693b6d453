// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/rpcyarpc"
)

// Errors of Start.
var (
	// ErrStarted: a Node is started once.
	ErrStarted = errors.New("headgate: the node was started before; make another with New")
)

// Start listens for other hosts and starts the loops. It returns when the
// first list of members is there, because until then a host would take itself
// for the only one, or when ctx ends. After an error, nothing runs.
func (n *Node) Start(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()

	if n.loops != nil {
		return ErrStarted
	}
	if n.listener == nil {
		var err error
		n.listener, err = new(net.ListenConfig).Listen(ctx, "tcp", n.config.listen())
		if err != nil {
			return fmt.Errorf("headgate: listen for other hosts: %w", err)
		}
	}
	n.server = rpcyarpc.NewServer(n.listener, n.mux, rpcyarpc.ServerOptions{})
	if err := n.server.Start(); err != nil {
		return errors.Join(fmt.Errorf("headgate: serve other hosts: %w", err), n.listener.Close())
	}
	var err error
	if n.client, err = rpcyarpc.NewClient(rpcyarpc.ClientOptions{}); err != nil {
		return errors.Join(fmt.Errorf("headgate: call other hosts: %w", err), n.server.Stop(ctx))
	}
	n.fanout.Peers, n.taker.Peers = n.client, n.client
	running, cancel := context.WithCancel(context.Background())
	n.stop, n.loops = cancel, new(sync.WaitGroup)
	if err := n.join(ctx, running); err != nil {
		return errors.Join(err, n.stopLocked(ctx))
	}
	unsubscribe := n.limits.Subscribe(n.configure)
	n.loops.Go(func() {
		defer unsubscribe()
		n.limits.Run(running, n.source, n.log)
	})
	n.loops.Go(func() { n.aggregator.Run(running) })
	if n.parent != nil {
		n.loops.Go(func() { n.aggregator.RunBelow(running, n.cluster, n.parent) })
	}
	n.loops.Go(func() { n.mesh.Run(running, n.client) })
	reporting, silence := context.WithCancel(running)
	var reports sync.WaitGroup
	reports.Go(func() { n.group.Run(reporting, n.fanout) })
	n.leave = func(ctx context.Context) {
		silence()
		reports.Wait()
		n.group.Leave(ctx, n.fanout)
	}
	return nil
}

// join follows the members, and waits for the first list.
func (n *Node) join(ctx, running context.Context) error {
	first, failed := make(chan struct{}), make(chan error, 1)
	n.loops.Go(func() {
		var once sync.Once
		err := n.ring.Run(running, n.members, func(_, ring *ringpop.Ring) {
			n.follow(ring)
			n.loops.Go(func() { n.moveBuckets(running, ring) })
			once.Do(func() { close(first) })
		})
		if err != nil {
			failed <- err
			n.log.Error("members cannot be watched; the ring stays as it is", "error", err)
		}
	})
	select {
	case <-first:
		if ring := n.ring.Ring(); !ring.Has(n.config.Address) {
			n.log.Warn("this host's own address is not among the members: it will limit, and own no keys",
				"address", n.config.Address, "members", ring.Len())
		}
		return nil
	case err := <-failed:
		return fmt.Errorf("headgate: watch members: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("headgate: wait for the first list of members: %w", ctx.Err())
	}
}

// follow makes all parts know the hosts of ring.
func (n *Node) follow(ring *ringpop.Ring) {
	hosts := ring.Hosts()
	addresses := make([]string, len(hosts))
	for i, h := range hosts {
		addresses[i] = h.Address
	}
	if err := n.client.Keep(addresses); err != nil {
		n.log.Warn("connections to hosts that left do not close", "error", err)
	}
	n.mesh.SetPeers(addresses)
	n.aggregator.Moved(aggregator.Now())
	n.group.SetHosts(limiter.Now(), len(hosts))
	n.group.Introduce(limiter.Now())
	n.log.Info("hosts changed", "hosts", len(hosts))
}

// configure makes all parts follow a change of config.
func (n *Node) configure(_, snapshot *dynamicconfig.Snapshot) {
	if err := n.aggregator.Configure(snapshot); err != nil {
		n.log.Error("the decider keeps its old properties", "error", err)
	}
	n.group.Configure(limiter.Now(), snapshot)
	n.log.Info("limits changed", "rules", len(snapshot.Rules()), "version", snapshot.Version())
}

// Stop gives back what this host has leased, hands over what it decides, ends
// the loops, hangs up on other hosts, and returns when nothing runs any more.
// Limiters that are still held go on deciding, by their fallbacks where others
// had given them a part.
// It may be called at any time, more than once.
func (n *Node) Stop(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()

	return n.stopLocked(ctx)
}

func (n *Node) stopLocked(ctx context.Context) error {
	if n.stop == nil {
		return nil
	}
	if n.leave != nil {
		n.leave(ctx)
	}
	n.handover(ctx)
	n.stop()
	n.stop = nil
	err := n.server.Stop(ctx)
	n.loops.Wait()
	return errors.Join(err, n.client.Close())
}

// handover tells those who will own this node's keys what hosts hold of them.
// Whoever does not hear it learns it from the hosts.
func (n *Node) handover(ctx context.Context) {
	rest := n.ring.Ring().Without(n.config.Address)
	if rest.Len() == 0 {
		return
	}
	heirs := rpc.Claimant{Host: n.config.Address, Placement: rest, Peers: n.client, Timeout: handoverTimeout}
	for _, part := range n.aggregator.Handover(aggregator.Now()) {
		_, errs := heirs.Claim(ctx, part)
		if failed := slices.DeleteFunc(errs, func(err error) bool { return err == nil }); len(failed) > 0 {
			n.log.Warn("not all keys were taken over; their new owners will learn from the hosts", "claims", len(failed), "error", failed[0])
		}
	}
	n.sendBuckets(ctx, rest, n.aggregator.HandoverBuckets(aggregator.Now()))
}

// moveBuckets tells the owners of keys by ring what is left in their buckets,
// where that was this node's to know.
func (n *Node) moveBuckets(ctx context.Context, ring *ringpop.Ring) {
	n.sendBuckets(ctx, ring, n.aggregator.Buckets(aggregator.Now(), func(key string) bool {
		return ring.Owner(key) != n.config.Address
	}))
}

func (n *Node) sendBuckets(ctx context.Context, ring *ringpop.Ring, rows []rpc.Take) {
	if ring.Len() == 0 || len(rows) == 0 {
		return
	}
	heirs := rpc.Taker{Host: n.config.Address, Placement: ring, Peers: n.client, Timeout: handoverTimeout}
	if err := heirs.Send(ctx, rows); err != nil {
		n.log.Warn("not all buckets were taken over; their new owners will learn from who asks", "error", err)
	}
}

// handoverTimeout is how long an owner that leaves waits for the next.
const handoverTimeout = 2 * time.Second
