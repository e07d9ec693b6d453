// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate/aggregator/internal/fence"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/rpc/usage/batches"
)

// Core is an Aggregator without a clock and without I/O: each method takes the time, and
// the same calls give the same answers. The simulator runs it on virtual time. New makes
// it. It is safe for concurrent use.
type Core struct {
	journal

	registry *algorithm.Registry
	settings rules.Current
	keys     *owned.Keys
	number   uint32 // random: names the owner that answered callers
	fence    fence.Fence
	batches  batches.Memory
}

// Configure puts the rules and properties of snapshot in force from now on. Keys learn of
// it when they are used next, or swept. What is known of keys and hosts stays.
func (c *Core) Configure(now time.Duration, snapshot *dynamicconfig.Snapshot) {
	c.settings.Replace(now, func(before *rules.Settings) *rules.Settings {
		return rules.New(c.registry, snapshot, c.keys.Hosts.Member, before)
	})
}

// Split says that from now on this owner is one of so many deciders, and how many more may live on
// the larger side of a split: see Cluster.
func (c *Core) Split(now time.Duration, deciders, missing int) {
	side := rules.Side{Deciders: deciders, Missing: missing}
	if missing <= 0 {
		side = rules.Side{}
	}
	c.settings.Replace(now, func(before *rules.Settings) *rules.Settings {
		if before.Side == side {
			return nil
		}
		next := rules.New(c.registry, before.Snapshot, c.keys.Hosts.Member, before)
		next.Side = side
		return next
	})
}

// Step takes in what host used, at now, and fills grants in the order of
// usage. A key that cannot be decided (no rule, no room, an algorithm that
// fails or is not known) gets no grant, and costs the others nothing. Usage that makes no
// sense is refused whole, with an error. Time is counted from any fixed point
// and does not go backwards.
func (c *Core) Step(now time.Duration, host string, report *usage.Report, grants *usage.Grants) error {
	if err := cmp.Or(rpc.CheckHost(host), report.Check()); err != nil {
		c.refuse(now, host, "report", err)
		return fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	c.step(now, host, report, grants)
	return nil
}

// step is Step for a report that is checked. A host of another release, or with other
// weighers, may name an algorithm that this owner does not have. What it uses counts, as that
// of a host whose rules name another algorithm than the owner's, and it gets no grants.
func (c *Core) step(now time.Duration, host string, report *usage.Report, grants *usage.Grants) {
	alg, name, err := rules.Lookup(c.registry, report.Algorithm)
	if err != nil {
		c.refuse(now, host, "report", fmt.Errorf("%w; what the host uses counts, and it gets no grants", err))
		name = noAlgorithm
	}
	resize(grants, report.Len(), alg.Account == algorithm.AccountPool)
	grants.Floor = floorOf(&alg)
	s := c.settings.Load()
	id := c.keys.Hosts.Acquire(host)
	defer c.keys.Hosts.Add(id, -1)

	u := newUpdate()
	defer u.done()

	u.core, u.settings = c, s
	u.usage, u.host, u.grants = report, id, grants
	u.algorithm = name
	if u.side = (rules.Side{}); grants.Floor == usage.FloorEven && s.Side.Missing > 0 {
		u.side, grants.Floor = s.Side, usage.FloorNone
	}
	c.keys.Table.Visit(now, u.algorithm, report.Keys, id*7, &u.order, u)
	c.metrics.updates.Inc(1)
	c.metrics.updatedKeys.Inc(int64(report.Len()))
}

// noAlgorithm is the name that no rule has, whatever hosts send: shards keep a map for each name.
const noAlgorithm = ""

// Moved says that keys may have moved between owners at now: keys that are new
// here from now on may have leases out that this owner does not know of.
func (c *Core) Moved(now time.Duration) { c.keys.Moved(now) }

// floorOf is what hosts may take above their weight under alg.
func floorOf(alg *algorithm.Algorithm) usage.Floor {
	if alg.Account != algorithm.AccountAverage {
		return usage.FloorNone
	}
	return usage.Floor(alg.Weigher.Floor)
}

// resize makes n rows of g, with tokens or without.
func resize(g *usage.Grants, n int, tokens bool) {
	g.Weight, g.Burst, g.Used, g.Lease = sized(g.Weight, n), sized(g.Burst, n), sized(g.Used, n), sized(g.Lease, n)
	if !tokens {
		g.Tokens = nil
		return
	}
	g.Tokens = sized(g.Tokens, n)
}

func sized[T any](column []T, n int) []T { return slices.Grow(column[:0], n)[:n] }
