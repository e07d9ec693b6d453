// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/batches"
	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/internal/rules"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// Aggregator decides for the keys that its host owns. It is safe for
// concurrent use. No report waits for longer than one key takes, or a look
// over a part of the keys' names.
type Aggregator struct {
	journal

	registry  *algorithm.Registry
	configure sync.Mutex // serialises Configure
	settings  atomic.Pointer[rules.Settings]
	keys      *owned.Keys
	number    uint32      // at random: who told callers what is left
	left      atomic.Bool // keys were handed over, and are not decided here any more
	fence     fence
	batches   batches.Memory
}

// Option is a collaborator of an Aggregator.
type Option func(*Aggregator)

// WithLogger sets the logger; the default discards.
func WithLogger(log *slog.Logger) Option { return func(a *Aggregator) { a.log = log } }

// WithScope sets where metrics go; the default is nowhere.
func WithScope(scope tally.Scope) Option {
	return func(a *Aggregator) { a.metrics = newMetrics(scope) }
}

// New returns an Aggregator that decides with the algorithms in registry
// under the rules and properties of snapshot. It returns all that is wrong
// with the properties.
func New(registry *algorithm.Registry, snapshot *dynamicconfig.Snapshot, options ...Option) (*Aggregator, error) {
	a := &Aggregator{
		journal:  journal{log: slog.New(slog.DiscardHandler), metrics: newMetrics(tally.NoopScope)},
		registry: registry,
		number:   rand.Uint32() | 1,
	}
	for _, o := range options {
		o(a)
	}
	a.batches.Take, a.batches.Undo = a.Take, a.undo
	above := parent.NewClient(a.log, Now, func() { a.metrics.refused.Inc(1) })
	a.keys = owned.NewKeys(above, func() { a.metrics.noRoom.Inc(1) }, func(lost bool) {
		if lost {
			a.metrics.lostKeys.Inc(1)
		} else {
			a.metrics.newKeys.Inc(1)
		}
	})
	if err := a.Configure(snapshot); err != nil {
		return nil, err
	}
	return a, nil
}

// Configure puts the rules and properties of snapshot in force. What is known
// of keys and hosts stays. On an error nothing changes.
func (a *Aggregator) Configure(snapshot *dynamicconfig.Snapshot) error {
	a.configure.Lock()
	defer a.configure.Unlock()

	s, err := rules.New(a.registry, snapshot, a.keys.Hosts.Member, a.settings.Load())
	if err != nil {
		return fmt.Errorf("aggregator: configure: %w", err)
	}
	a.settings.Store(s)
	return nil
}

// Step takes in what host used, at now, and fills grants in the order of
// usage. A key that cannot be decided (no rule, no room, an algorithm that
// fails) gets no grant, and costs the others nothing. Usage that makes no
// sense is refused whole, with an error. Time is counted from any fixed point
// and does not go backwards.
func (a *Aggregator) Step(now time.Duration, host string, report *usage.Report, grants *usage.Grants) error {
	if err := check(host, report); err != nil {
		a.metrics.refused.Inc(1)
		return fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	return a.step(now, host, report, grants)
}

// step is Step for a report that is checked.
func (a *Aggregator) step(now time.Duration, host string, report *usage.Report, grants *usage.Grants) error {
	alg, err := a.registry.Lookup(report.Algorithm)
	if err != nil {
		a.metrics.refused.Inc(1)
		return fmt.Errorf("aggregator: update from %q: %w", host, err)
	}
	resize(grants, report.Len(), alg.Account == algorithm.AccountPool)
	grants.Floor = floorOf(&alg)
	s := a.settings.Load()
	id := a.keys.Hosts.Acquire(host)
	defer a.keys.Hosts.Add(id, -1)

	u := newUpdate()
	defer u.done()

	u.a, u.settings = a, s
	u.usage, u.host, u.grants = report, id, grants
	u.algorithm = a.registry.Canonical(report.Algorithm)
	a.keys.Table.Visit(now, u.algorithm, report.Keys, id*7, &u.order, u)
	a.metrics.updates.Inc(1)
	a.metrics.updatedKeys.Inc(int64(report.Len()))
	return nil
}

// Label puts the labels of hosts in force: what membership says about each, by its
// name. Weighings see them; no report can change them.
func (a *Aggregator) Label(labels map[string]algorithm.Labels) { a.keys.Hosts.Label(labels) }

// Parent returns the client of the cluster above, which has to be run if rules have a
// parent.
func (a *Aggregator) Parent() *parent.Client { return a.keys.Parent }

// Moved tells that keys may have moved between owners at now: keys that are new
// here from now on may have leases out that this owner does not know of.
func (a *Aggregator) Moved(now time.Duration) { a.keys.Moved(now) }

// check refuses what no correct host sends. Transports check too; anyone may
// write a transport.
func check(host string, u *usage.Report) error {
	if err := rpc.CheckHost(host); err != nil {
		return err
	}
	return u.Check()
}

// floorOf is what hosts may take above their weight under alg.
func floorOf(alg *algorithm.Algorithm) usage.Floor {
	if alg.Account != algorithm.AccountAverage {
		return usage.FloorNone
	}
	return usage.Floor(alg.Weigher.Floor)
}

// resize makes n rows of g, with tokens or without.
func resize(g *usage.Grants, n int, tokens bool) {
	grow := func(column []float64) []float64 {
		if cap(column) >= n {
			return column[:n]
		}
		return make([]float64, n)
	}
	g.Weight, g.Burst, g.Used = grow(g.Weight), grow(g.Burst), grow(g.Used)
	if tokens {
		g.Tokens = grow(g.Tokens)
	} else {
		g.Tokens = nil
	}
	if cap(g.Lease) < n {
		g.Lease = make([]time.Duration, n)
	}
	g.Lease = g.Lease[:n]
}
