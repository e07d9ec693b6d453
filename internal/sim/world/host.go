// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

// host is one machine and the process that runs on it, if one does. It does
// with events what the shells in limiter/run.go, aggregator/run.go and the
// root package do with loops.
type host struct {
	number  int
	name    string
	limits  bool // has traffic
	decides bool // owns keys
	branch  int  // the cluster that it is in

	up      bool
	pauses  int          // that hold it now
	away    int          // that send its traffic elsewhere
	offered int64        // events since the number of hosts was last looked at
	process int32        // number of the process, which tells it from earlier ones
	born    traffic.Time // of the process: its clock begins here
	wall    time.Duration

	group      *limiter.Group
	mesh       *mesh.Mesh // nil: no rule says gossip
	aggregator *aggregator.Aggregator
	climb      *climb             // what it asks of the cluster above; nil: nothing
	limiters   []*limiter.Limiter // by key; nil until used
	ring       *ringpop.Ring
	known      membersVersion // what ring is made of
	unreached  []bool         // by host, as it has noticed; nil: none
	version    int32          // of the membership that it knows
	config     int32          // version of the limits that it knows
	asked      []bool         // by key: whether it may ask the owner; nil: of no key
	interval   time.Duration
	timeout    time.Duration

	next     traffic.Time // when the interval wants a report
	planned  traffic.Time // when it is in the queue
	schedule int32        // of the planned one; others are void

	slow time.Duration // added to each answer
	held []held        // what happened during a pause
}

// held is an event of a paused host, or an arrival at it.
type held struct {
	event event
	try   try
}

// local is what the process's monotonic clock says. Setting the wall clock
// does not change it, and no two processes have the same.
func (h *host) local(now traffic.Time) stage.Instant { return stage.Instant(now - h.born) }

// start begins a new process with the newest limits and members.
func (c *cluster) start(h *host) error {
	if h.up {
		return nil
	}
	h.up, h.born = true, c.now
	h.process++
	h.held = nil
	m := &c.branches[h.branch].members
	snapshot := c.configsOf[len(c.configs)-1][h.branch]
	h.config = int32(len(c.configs) - 1)
	h.ring, h.version = m.ring, m.version
	h.known, h.unreached = membersVersion{ring: m.ring, limiting: m.limiting}, nil
	if h.decides {
		var err error
		if h.aggregator, err = aggregator.New(c.registry, snapshot); err != nil {
			return fmt.Errorf("start %s: %w", h.name, err)
		}
	}
	c.follow(h, snapshot)
	if h.limits {
		c.startMesh(h)
		h.group = limiter.NewGroup(snapshot, m.limiting, append(append(c.remotes(h), c.traits()...),
			limiter.WithRemote(mesh.Name, onMesh{c, h}),
			driver.WithPlacement(placement{h}),
			driver.WithSeed(traffic.Chance(c.seed, "jitter", h.number*1009+int(h.process)).Uint64()),
			limiter.WithMigration(shadow.Migrator()))...)
		h.limiters = make([]*limiter.Limiter, len(c.keys))
		phase := traffic.Chance(c.seed, "phase", h.number*1009+int(h.process))
		h.next = c.now + time.Duration(phase.Int64N(int64(h.interval)))
		h.planned = traffic.Forever
		c.plan(h)
	}
	if h.decides {
		c.queue.push(c.now+h.interval, collect, int32(h.number), h.process)
		if c.branches[h.branch].Parent >= 0 {
			c.queue.push(c.now+climbEvery, ascend, int32(h.number), h.process)
		}
	}
	c.announce(h.number, true, 0)
	return nil
}

// placement is the ring that a host knows.
type placement struct{ *host }

// Owner implements rpc.Placement.
func (p placement) Owner(key string) string { return p.ring.Owner(key) }

// traits are what hosts must know of algorithms that headgate does not have, as a
// Node says it.
func (c *cluster) traits() (all []limiter.Option) {
	for _, name := range c.registry.Names() {
		a, err := c.registry.Lookup(name)
		if _, ok := dynamicconfig.TraitsOf(name); !ok && err == nil && a.Account == algorithm.AccountPool {
			all = append(all, limiter.WithAlgorithm(name, dynamicconfig.Traits{Early: true, Rates: true}))
		}
	}
	return all
}

// follow has h go by a snapshot.
func (c *cluster) follow(h *host, s *dynamicconfig.Snapshot) {
	h.asked = c.askedFor(s)
	h.interval, h.timeout = s.Properties().UpdateInterval, s.Properties().UpdateTimeout
}

// stop ends the process: what it knew is lost.
func (c *cluster) stop(h *host) {
	if !h.up {
		return
	}
	if h.limits {
		c.wasUp(h)
		c.books.ends(h, h.local(c.now))
	}
	h.up, h.group, h.aggregator, h.climb, h.limiters, h.ring, h.held, h.mesh = false, nil, nil, nil, nil, nil, nil, nil
	h.planned = traffic.Forever
	h.schedule++
	c.abandon(h.current())
}

// wasUp counts the time that a process of a limiting host was there.
func (c *cluster) wasUp(h *host) {
	c.HostTime += c.now - h.born
	c.Measured += max(c.now-max(h.born, c.sc.Warmup), 0)
}

// due is when the host's loop has to ask its group for a report.
func (c *cluster) due(h *host) traffic.Time {
	if early := driver.Of(h.group).NextEarly(); !c.patient && early < stage.Instant(h.next-h.born) {
		return h.born + traffic.Time(early)
	}
	return h.next
}

// plan puts the next report into the queue, if it is not there.
func (c *cluster) plan(h *host) {
	due := max(c.due(h), c.now)
	if due == h.planned {
		return
	}
	h.schedule++
	h.planned = due
	c.queue.push(due, report, int32(h.number), h.schedule)
}

// report is one round of the host's loop.
func (c *cluster) report(h *host) {
	h.planned = traffic.Forever
	var batches []*driver.Batch
	if h.next <= c.now {
		if h.next += h.interval; h.next <= c.now {
			// A host that was suspended does not catch up on missed rounds.
			h.next = c.now + h.interval
		}
		batches = driver.Of(h.group).Report(h.local(c.now))
	} else {
		batches = driver.Of(h.group).Early(h.local(c.now))
	}
	for _, batch := range batches {
		for _, part := range usage.Split(&batch.Usage, h.ring, 0) {
			c.call(h, batch, part)
		}
	}
	c.plan(h)
}

// atHost is an event that a running process takes part in.
func (c *cluster) atHost(h *host, e event) error {
	switch e.kind {
	case report:
		if e.ref == h.schedule {
			c.report(h)
		}
	case request:
		return c.serve(h, e.ref)
	case answer:
		return c.apply(h, e.ref)
	case collect:
		if e.ref == h.process {
			h.aggregator.GC(c.now - h.born)
			c.queue.push(c.now+h.interval, collect, e.who, e.ref)
		}
	case ascend:
		if e.ref == h.process {
			c.queue.push(c.now+climbEvery, ascend, e.who, e.ref)
			return c.below(h)
		}
	case claimed:
		return c.lease(h, c.fetch(e.ref))
	case leased:
		return c.leased(h, c.fetch(e.ref))
	case lapse:
		c.lapse(h, e.ref)
	case murmur:
		if e.ref == h.process && h.mesh != nil {
			return c.murmur(h)
		}
	case hears:
		return c.hears(h, c.fetch(e.ref).told)
	case agreed:
		m := c.fetch(e.ref)
		c.agreed(h, m.told, m.by)
	case hushed:
		c.agreed(h, c.fetch(e.ref).told, 0)
	case asked:
		c.asked(h, c.fetch(e.ref))
	case replied:
		c.replied(c.fetch(e.ref))
	case wakes:
		m := c.fetch(e.ref)
		c.woken(m.worker, m.turn)
	case runs:
		if m := c.fetch(e.ref); !c.gone(m.of) {
			c.spawn(h, m.job)
		}
	case view:
		c.see(h, e.ref)
	case noticed:
		c.look(h)
	case configure:
		return c.configure(h, e.ref)
	}
	return nil
}

// configure makes the host follow a change of limits.
func (c *cluster) configure(h *host, version int32) error {
	if version <= h.config {
		return nil
	}
	h.config = version
	snapshot := c.configsOf[version][h.branch]
	c.follow(h, snapshot)
	if h.aggregator != nil {
		if err := h.aggregator.Configure(snapshot); err != nil {
			return err
		}
	}
	if h.group != nil {
		driver.Of(h.group).Configure(h.local(c.now), snapshot)
		c.plan(h)
	}
	return nil
}
