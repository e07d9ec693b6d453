// SPDX-License-Identifier: Apache-2.0

package headgate

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/dynamicconfig/guarded"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
)

// ErrStarted is the error of Start for a Node that was started or stopped before.
var ErrStarted = errors.New("headgate: the node was started or stopped before; make another with New")

var errStopped = errors.New("headgate: the node was stopped before it knew the first list of members")

// loops are what runs between Start and Stop.
type loops struct {
	*sync.WaitGroup                       // nil until the first Start or Stop
	stop            context.CancelFunc    // nil unless started
	leave           func(context.Context) // nil unless the loops that report run
	ended           <-chan struct{}       // closed when all of these have ended; nil until Stop
	listened        <-chan struct{}       // closed when all listeners of limiters have returned; nil until the first Start
	serves          bool                  // the transport has started, and not ended
}

// turn is a lock that a caller waits for until its context ends at the latest: a Stop may hold
// it for long.
type turn chan struct{}

func (t turn) lock(ctx context.Context) error {
	select {
	case t <- struct{}{}: // also if ctx has ended
		return nil
	default:
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("headgate: another Start or Stop has not returned: %w", ctx.Err())
	}
}

func (t turn) unlock() { <-t }

// await waits until what has ended: code of the service may block there. So it waits until ctx ends
// and for grace after that at the latest.
func await(ctx context.Context, ended <-chan struct{}, grace time.Duration, what string) error {
	if ended == nil {
		return nil
	}
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(grace):
		select {
		case <-ended: // ctx had ended before
		default:
			return fmt.Errorf("headgate: %s has not returned: %w", what, ctx.Err())
		}
	}
	return nil
}

// Start begins to serve other hosts, and starts the loops. It returns when the
// first list of members is there, because until then a host would take itself
// for the only one. It returns an error when ctx ends before that, or when ringpop.ValidateMembers
// refuses the list. After an error, nothing runs. If the transport could not
// start, as when the address is in use, Start may be called again. Otherwise a Node starts once:
// later calls return ErrStarted, also after a Stop of a Node that had not started.
func (n *Node) Start(ctx context.Context) error {
	if err := n.mu.lock(ctx); err != nil {
		return err
	}
	defer n.mu.unlock()

	if n.loops.WaitGroup != nil {
		return ErrStarted
	}
	if err := n.transport.Start(ctx, n.fanout.Local); err != nil {
		return fmt.Errorf("headgate: serve other hosts: %w%s", err, remedy(err))
	}
	running, cancel := context.WithCancel(context.Background())
	n.loops.stop, n.loops.WaitGroup, n.loops.serves = cancel, new(sync.WaitGroup), true
	if err := n.joinLocked(ctx, running); err != nil {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // ctx may have ended
		defer cancel()
		return errors.Join(err, n.stopLocked(ending))
	}
	if n.loops.stop == nil {
		return errStopped
	}
	n.above.check(n.limits.Current(), n.log)
	n.loops.Go(func() { n.limits.Run(running, guarded.Source{Source: n.source}, n.log) })
	n.loops.Go(func() { newLimitsMeter(n.scope, n.limits).run(running) })
	n.loops.Go(func() { n.owners.Run(running, n.group.Interval) })
	if n.parent != nil {
		n.loops.Go(func() { n.aggregator.Parent().Run(running, n.name, n.parent) })
	}
	reporting, endReports := context.WithCancel(running)
	var reports sync.WaitGroup
	limiters := driver.Of(n.group)
	reports.Go(func() { limiters.RunReports(reporting, n.fanout) })
	reports.Go(func() { n.mesh.Run(reporting, n.transport) })
	n.loops.listened = limiters.Listen(running) // apart from the loops: a listener may block
	n.loops.leave = func(ctx context.Context) {
		endReports()
		reports.Wait()
		n.group.Leave(ctx, n.fanout)
		n.mesh.Leave(ctx, n.transport)
	}
	return nil
}

// remedy says what to do about err, which kept the transport from listening; empty if that is
// not known.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return ": another program listens there, such as an earlier process of this service: stop it, or choose another address in Config.Listen or Config.Address"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": this machine does not have the address: set Config.Listen to one that it has, or to all, as in :7933, and Config.Address to the one that other hosts dial"
	}
	return ""
}

// joinLocked follows the members, and waits for the first list. It holds no lock
// while it waits, so that Stop need not wait too.
func (n *Node) joinLocked(ctx, running context.Context) error {
	first, failed := make(chan struct{}), make(chan error, 1)
	fail := func(err error) {
		select {
		case failed <- err:
		default: // Start fails already
		}
	}
	refuse := func(err error) {
		select {
		case <-first:
			n.log.Error("list of members refused; the ring stays as it is", "error", err)
		default:
			fail(err)
		}
	}
	n.loops.Go(func() {
		var once sync.Once
		err := n.ring.Run(running, counted{n, refuse}, func(_, ring *ringpop.Ring) {
			n.follow(ring)
			n.loops.Go(func() { n.handOver(running, ring, false) })
			once.Do(func() { close(first) })
		})
		if err != nil {
			fail(err)
			n.log.Error("members cannot be watched; the ring stays as it is", "error", err)
		}
	})
	n.mu.unlock()
	defer func() { n.mu <- struct{}{} }()
	select {
	case <-first:
		if ring := n.ring.Ring(); !ring.Has(n.address) {
			n.log.Warn("this host's own address is not among the members: it limits, and owns no keys",
				"address", n.address, "members", ring.Len())
		}
		return nil
	case err := <-failed:
		return fmt.Errorf("headgate: watch members: %w", err)
	case <-running.Done():
		return errStopped
	case <-ctx.Done():
		return fmt.Errorf("headgate: the first list of members did not come in time, or was empty: list all hosts, this one too: %w", ctx.Err())
	}
}

// counted is the members of a Node, which first counts those that are missing. It refuses
// lists with an address that hosts cannot call, or that stands twice, and empty ones after the
// first that has hosts.
type counted struct {
	*Node
	refuse func(error)
}

// Watch implements ringpop.Members.
func (c counted) Watch(ctx context.Context, update func(hosts []ringpop.Host)) (err error) {
	defer guarded.Recovered(&err) // the members may be the service's own
	split, _ := c.members.(ringpop.Split)
	return c.members.Watch(ctx, func(hosts []ringpop.Host) {
		if err := ringpop.ValidateMembers(hosts); err != nil {
			c.refuse(err)
			return
		}
		if split == nil {
			if len(hosts) == 0 && c.ring.Ring().Len() > 0 { // else each host would take itself for the only one
				c.refuse(errors.New("headgate: no host is listed: list all hosts, this one too"))
				return
			}
			update(hosts)
			return
		}
		c.missing.Store(int64(split.Missing()))
		before := c.epoch.Load()
		update(hosts)
		if epoch := c.epoch.Load(); epoch != nil && epoch == before { // the ring is as it was
			c.follow(c.ring.Ring())
		}
	})
}

// follow gives all parts the hosts of ring, and of those that are missing.
func (n *Node) follow(ring *ringpop.Ring) {
	now := time.Now()
	n.epoch.Store(&now)
	hosts := ring.Hosts()
	addresses := make([]string, len(hosts))
	for i, h := range hosts {
		addresses[i] = h.Address
	}
	n.aggregator.Label(labelsOf(hosts))
	n.watch.SetHosts(namesOf(hosts))
	if err := n.transport.Keep(addresses); err != nil {
		n.log.Warn("connections to hosts that left do not close", "error", err)
	}
	n.mesh.SetPeers(addresses)
	n.owners.RingMoved(n.cluster(ring, false))
	missing := int(n.missing.Load())
	n.group.SetHosts(len(hosts) + missing)
	n.group.Introduce()
	n.log.Info("hosts changed", "hosts", len(hosts), "missing", missing)
}

// configure gives all parts a changed config.
func (n *Node) configure(_, snapshot *dynamicconfig.Snapshot) {
	n.owners.Configure(snapshot)
	n.mesh.Configure(stage.Now())
	n.group.Configure(snapshot)
	n.mesh.SetInterval(meshInterval(snapshot))
	n.above.check(snapshot, n.log)
}

// meshInterval is how often hosts report to each other what they used under gossip.
func meshInterval(snapshot *dynamicconfig.Snapshot) time.Duration {
	return min(snapshot.Properties().UpdateInterval, mesh.DefaultInterval)
}

// Stop gives back what this host has leased, hands over the keys that it owns,
// ends the loops, stops the transport, and returns when nothing runs any more. If ctx ends
// while calls of other hosts, code of the service or another Stop have not returned, Stop
// returns an error within a second, and a later Stop waits for them again. Limiters that are still
// held go on deciding: by their rules' fallbacks where this host had a grant. Stop may be called at
// any time, more than once.
func (n *Node) Stop(ctx context.Context) error {
	if err := n.mu.lock(ctx); err != nil {
		return err
	}
	if n.loops.WaitGroup == nil {
		n.loops.WaitGroup = new(sync.WaitGroup) // no Start comes after a Stop
		if l := n.own.Listener; l != nil {
			_ = l.Close()
		}
	}
	err, listened := n.stopLocked(ctx), n.loops.listened
	n.mu.unlock()
	return errors.Join(err, await(ctx, listened, 0, "a listener of limiters"))
}

// windUp is how much longer than its context Stop waits for what ends with that.
const windUp = time.Second

func (n *Node) stopLocked(ctx context.Context) error {
	if stop, leave := n.loops.stop, n.loops.leave; stop != nil {
		ended := make(chan struct{})
		n.loops.stop, n.loops.ended = nil, ended
		go func() {
			defer close(ended)
			defer context.AfterFunc(ctx, stop)()
			if leave != nil {
				leave(ctx)
			}
			n.handOver(ctx, n.ring.Ring().Without(n.address), true)
			stop()
			n.loops.Wait()
			n.takes.Taker.Close()
		}()
	}
	err := await(ctx, n.loops.ended, windUp, "a source of limits or members, a remote bucket, or other code of the service")
	if !n.loops.serves {
		return err
	}
	failed := n.transport.Stop(ctx)
	n.loops.serves = failed != nil
	return errors.Join(err, failed)
}

// handOver sends the owners by ring what this node has of keys that it does
// not own any more.
func (n *Node) handOver(ctx context.Context, ring *ringpop.Ring, leaving bool) {
	if ring.Len() > 0 {
		n.owners.HandOver(ctx, n.cluster(ring, leaving))
	}
}

// labelsOf is the labels of hosts, by the names that transports may give them.
func labelsOf(hosts []ringpop.Host) map[string]algorithm.Labels {
	labels := make(map[string]algorithm.Labels)
	for _, h := range hosts {
		if h.Identity != "" {
			labels[h.Identity] = algorithm.NewLabels(h.LabelMap())
		}
	}
	for _, h := range hosts { // an address is of one host alone
		labels[h.Address] = algorithm.NewLabels(h.LabelMap())
	}
	return labels
}

// namesOf is the addresses and identities of hosts.
func namesOf(hosts []ringpop.Host) map[string]bool {
	names := make(map[string]bool)
	for _, h := range hosts {
		names[h.Address], names[h.Identity] = true, true
	}
	delete(names, "") // some hosts have no identity
	return names
}

// cluster is the hosts of ring as this node sees them.
func (n *Node) cluster(ring *ringpop.Ring, leaving bool) aggregator.Cluster {
	names := namesOf(ring.Hosts())
	return aggregator.Cluster{
		Placement: ring, Peers: n.transport, Host: n.address, Self: n.address, Leaving: leaving,
		Member:   func(name string) bool { return names[name] },
		Deciders: ring.Len(), Missing: int(n.missing.Load()),
	}
}
