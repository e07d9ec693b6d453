// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/ledger"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
)

// Options of a run. The zero Options run the rules as they are, seed 0.
type Options struct {
	// Algorithm replaces that of all rules; "" keeps them.
	Algorithm string
	Seed      uint64
	// Registry has the algorithms; nil: those that come with headgate.
	Registry *algorithm.Registry
	// Patient hosts report once per interval and not before.
	Patient bool
	// Lean runs keep sums alone, so that memory does not grow with time: results
	// have no seconds, and neither settling nor saturation.
	Lean bool
	// Elsewhere are buckets that the simulator does not have, by the algorithm
	// that asks them; each makes those of one run, on its clock.
	Elsewhere map[string]func(clock func() traffic.Time) stage.Remote
	// Weights asks for Key.Weights, which costs time with many hosts.
	Weights bool
	// Ledger, if not nil, is filled with what each host decided.
	Ledger *ledger.Ledger
}

// Run runs a scenario with an algorithm ("": as the rules say) and a seed.
func Run(sc *scenario.Scenario, algorithm string, seed uint64) (*measure.Result, error) {
	return Options{Algorithm: algorithm, Seed: seed}.Run(context.Background(), sc)
}

// Run runs a scenario. It ends early, with ctx's error, when ctx ends.
func (o Options) Run(ctx context.Context, sc *scenario.Scenario) (*measure.Result, error) {
	registry := o.Registry
	if registry == nil {
		registry = algorithm.Builtin()
	}
	limits := sc.Limits
	if o.Algorithm != "" {
		var err error
		if limits, err = scenario.WithAlgorithm(limits, o.Algorithm); err != nil {
			return nil, fmt.Errorf("scenario %s: %w", sc.Name, err)
		}
	}
	err := limits.Check(func(name string) bool {
		_, err := registry.Lookup(name)
		return err == nil || o.Elsewhere[name] != nil || name == limiter.Even || name == mesh.Name || name == algorithm.NameExact
	})
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", sc.Name, err)
	}
	c, err := newCluster(sc, limits, registry, o)
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", sc.Name, err)
	}
	if o.Weights {
		c.weights = &weights{every: time.Second}
		c.Queue.Push(0, sample, 0, 0)
	}
	if err := c.run(ctx); err != nil {
		return nil, fmt.Errorf("scenario %s, seed %d: %w", sc.Name, o.Seed, err)
	}
	var weights [][][]float64
	if c.weights != nil {
		weights = c.weights.rows
	}
	r := &measure.Result{Scenario: sc.Name, Seed: o.Seed, Hosts: sc.Hosts, Marks: c.marks, Events: c.events}
	return measure.ResultOf(r, c.buckets, c.Tally, weights), nil
}
