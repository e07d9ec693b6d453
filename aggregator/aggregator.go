// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"log/slog"
	"math/rand/v2"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/aggregator/parent"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/scopes"
)

// Aggregator decides for the keys that its host owns: it is a Core with a clock, the
// messages of hosts, and the life of an Owner. It is safe for concurrent use. No report
// waits for longer than one key takes, or a look over a part of the keys' names.
type Aggregator struct {
	Core
}

// Option is a collaborator of an Aggregator.
type Option func(*Aggregator)

// WithLogger sets the logger; the default discards.
func WithLogger(log *slog.Logger) Option { return func(a *Aggregator) { a.log = log } }

// WithScope sets where metrics go; the default is nowhere.
func WithScope(scope tally.Scope) Option {
	return func(a *Aggregator) { a.metrics = newMetrics(scopes.Guard(scope, slog.Default())) }
}

// New returns an Aggregator that decides with the algorithms in registry
// under the rules and properties of snapshot.
func New(registry *algorithm.Registry, snapshot *dynamicconfig.Snapshot, options ...Option) *Aggregator {
	a := &Aggregator{Core: Core{
		journal:  journal{log: slog.New(slog.DiscardHandler), metrics: newMetrics(tally.NoopScope)},
		registry: registry,
		number:   rand.Uint32() | 1,
	}}
	for _, o := range options {
		o(a)
	}
	above := parent.NewClient(a.log, Now, func() { a.metrics.refused.Inc(1) })
	a.keys = owned.NewKeys(above, func() { a.metrics.noRoom.Inc(1) }, func(lost bool) {
		if lost {
			a.metrics.lostKeys.Inc(1)
		} else {
			a.metrics.newKeys.Inc(1)
		}
	})
	a.Core.Configure(Now(), snapshot)
	return a
}

// Configure puts the rules and properties of snapshot in force now. What is known
// of keys and hosts stays. The error is nil: it is for the Lifecycle.
func (a *Aggregator) Configure(snapshot *dynamicconfig.Snapshot) error {
	a.Core.Configure(Now(), snapshot)
	return nil
}

// Label puts the labels of hosts in force: what membership says about each, by its
// name. Weighings see them; no report can change them.
func (a *Aggregator) Label(labels map[string]algorithm.Labels) { a.keys.Hosts.Label(labels) }

// Parent returns the client of the cluster above, which has to be run if rules have a
// parent.
func (a *Aggregator) Parent() *parent.Client { return a.keys.Parent }
