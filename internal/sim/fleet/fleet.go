// SPDX-License-Identifier: Apache-2.0

// Package fleet runs the processes of hosts on virtual time, with the network and the
// membership between them: limiters, what they ask owners, aggregators, and what owners ask
// the cluster above. It knows no traffic, and does not know why a host stops or a network
// is cut.
package fleet

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/coroutine"
	"github.com/headgate/headgate/internal/sim/ledger"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/timeline"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/internal/sim/wire"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/rpc/usage"
)

// Config is what a Fleet is made of. All but Elsewhere is required.
type Config struct {
	// Scenario has the hosts, the network and the membership.
	Scenario *scenario.Scenario
	Limits   *dynamicconfig.Snapshot
	Registry *algorithm.Registry
	Seed     uint64

	// Patient hosts do not report early.
	Patient bool

	// Elsewhere are buckets that are not simulated, by the algorithm that asks them.
	Elsewhere map[string]func(clock func() traffic.Time) stage.Remote
}

// Fleet is the hosts of one run. It is not safe for concurrent use.
type Fleet struct {
	settings

	// Now is the time, and Queue what happens next.
	Now   traffic.Time
	Queue timeline.Queue
	Err   error // the first that was found in a place that returns none

	hosts
	Wire *wire.Wire

	limits

	messages timeline.Store[message]
	columns

	measure.Tally
	books  *ledger.Books           // nil unless wanted
	jobs   *coroutine.Set[Process] // that may wait for the network
	climbs int32
}

// settings do not change during a run.
type settings struct {
	sc       *scenario.Scenario
	seed     uint64
	registry *algorithm.Registry
	patient  bool // hosts do not report early
	// elsewhere are the buckets of Config.Elsewhere.
	elsewhere []limiter.Option
}

// hosts are those of a run, and the clusters that they are in.
type hosts struct {
	Hosts    []*Host // those that limit, then those that only decide
	ByName   map[string]int
	branches []branch
	news     []*rand.Rand // by host
}

// limits are the versions of the limits.
type limits struct {
	configs   []*dynamicconfig.Snapshot   // by version
	configsOf [][]*dynamicconfig.Snapshot // by version and cluster of the tree
	keys      []string
	asking    map[*dynamicconfig.Snapshot][]bool // by key: whether hosts may ask its owner
}

// columns are used again for each report.
type columns struct {
	usage  usage.Report
	grants usage.Grants
}

// New returns the Fleet of a scenario, of which no host has started.
func New(o Config) (*Fleet, error) {
	f := &Fleet{
		settings: settings{sc: o.Scenario, seed: o.Seed, patient: o.Patient, registry: o.Registry},
		hosts:    hosts{ByName: make(map[string]int)},
		limits:   limits{asking: make(map[*dynamicconfig.Snapshot][]bool)},
		jobs:     coroutine.New(Process.ended),
	}
	for name, buckets := range o.Elsewhere {
		f.elsewhere = append(f.elsewhere, limiter.WithRemote(name, buckets(func() traffic.Time { return f.Now })))
	}
	for i, name := range f.sc.Hosts {
		f.Hosts = append(f.Hosts, &Host{Number: i, Name: name, Limits: true})
	}
	for i := range f.sc.Owners {
		f.Hosts = append(f.Hosts, &Host{Number: len(f.Hosts), Name: fmt.Sprintf("owner-%d", i), decides: true})
	}
	for i, of := range f.sc.EveryCluster() {
		f.branches = append(f.branches, branch{Cluster: &of})
		for _, h := range f.Hosts {
			if of.Has(h.Number) {
				h.branch = i
				h.decides = h.decides || of.Owners[0] == of.Owners[1]
			}
		}
	}
	if err := f.Adopt(o.Limits); err != nil {
		return nil, err
	}
	for i, h := range f.Hosts {
		f.ByName[h.Name] = i
		f.news = append(f.news, traffic.Chance(f.seed, "news", i))
	}
	f.Wire = wire.New(f.sc.Network, f.seed, len(f.Hosts))
	return f, nil
}

// Fail keeps the first error.
func (f *Fleet) Fail(err error) {
	if f.Err == nil {
		f.Err = err
	}
}

// Delay draws how long a host takes to hear news.
func (f *Fleet) Delay(h *Host) time.Duration { return f.sc.Membership.Delay.Draw(f.news[h.Number]) }

// Deliver lets an event of a Fleet happen.
func (f *Fleet) Deliver(e timeline.Event) error {
	if e.Kind == version {
		return f.change(int(e.Who), e.Ref == 1)
	}
	h := f.Hosts[e.Who]
	switch {
	case h.Up:
		return f.AtHost(h, e)
	case hasMessage(e.Kind):
		f.messages.Fetch(e.Ref)
	case e.Kind == view:
		f.branches[h.branch].members.seen(e.Ref)
	}
	return nil
}

// ByProcess reports whether a process takes part in events of a kind: a paused one does so
// later.
func ByProcess(k timeline.Kind) bool { return k != version }

// End counts what the processes have done that run until the end. Close ends them.
func (f *Fleet) End() {
	for _, h := range f.Hosts {
		if h.Up && h.Limits {
			f.wasUp(h)
			f.books.Ends(h.Number, h.group, h.Local(f.Now))
		}
	}
}

// Close ends all jobs, at the end of the run.
func (f *Fleet) Close() { f.jobs.Close() }

// Jobs is how many jobs have waited at the same time, at most.
func (f *Fleet) Jobs() int { return f.jobs.Len() }
