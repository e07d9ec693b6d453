// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/sim/timeline"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/limiter/mesh"
	"github.com/headgate/headgate/limiter/stage"
	"github.com/headgate/headgate/ringpop"
	"github.com/headgate/headgate/rpc/usage"
	"github.com/headgate/headgate/shadow"
)

// Host is one machine and the process that runs on it, if one does. It does
// with events what the shells in limiter/run.go, aggregator/run.go and the
// root package do with loops.
type Host struct {
	Number  int
	Name    string
	Limits  bool // has traffic
	decides bool // owns keys
	branch  int  // the cluster that it is in

	life
	Slow time.Duration // added to each answer

	group      *limiter.Group
	mesh       *mesh.Mesh // nil: no rule says gossip
	aggregator *aggregator.Aggregator
	climb      *climb             // what it asks of the cluster above; nil: nothing
	limiters   []*limiter.Limiter // by key; nil until used
	sight
	rules
	rounds
}

// life is that of the process.
type life struct {
	Up      bool
	process int32        // number of the process, which tells it from earlier ones
	born    traffic.Time // its clock begins here
}

// sight is what a host knows of the others.
type sight struct {
	ring      *ringpop.Ring
	known     membersVersion // what ring is made of
	unreached []bool         // by host, as it has noticed; nil: none
	version   int32          // of the membership that it knows
}

// rules are what a host knows of the limits.
type rules struct {
	config   int32  // version of the limits that it knows
	asked    []bool // by key: whether it may ask the owner; nil: of no key
	interval time.Duration
	timeout  time.Duration
}

// rounds are when a host reports.
type rounds struct {
	next     traffic.Time // when the interval wants a report
	planned  traffic.Time // when it is in the queue
	schedule int32        // of the planned one; others are void
}

// Local is what the process's monotonic clock says. Setting the wall clock
// does not change it, and no two processes have the same.
func (h *Host) Local(now traffic.Time) stage.Instant { return stage.Instant(now - h.born) }

// Start begins a new process with the newest limits and members.
func (f *Fleet) Start(h *Host) error {
	if h.Up {
		return nil
	}
	h.Up, h.born = true, f.Now
	h.process++
	m := &f.branches[h.branch].members
	snapshot := f.configsOf[len(f.configs)-1][h.branch]
	h.config = int32(len(f.configs) - 1)
	h.ring, h.version = m.ring, m.version
	h.known, h.unreached = membersVersion{ring: m.ring, limiting: m.limiting}, nil
	if h.decides {
		h.aggregator = aggregator.New(f.registry, snapshot)
	}
	f.follow(h, snapshot)
	if h.Limits {
		f.startMesh(h)
		h.group = limiter.NewGroup(snapshot, m.limiting, append(append(f.remotes(h), f.traits()...),
			limiter.WithRemote(mesh.Name, onMesh{f, h}),
			driver.WithPlacement(placement{h}),
			driver.WithSeed(traffic.Chance(f.seed, "jitter", h.Number*1009+int(h.process)).Uint64()),
			limiter.WithMigration(shadow.Migrator()))...)
		h.limiters = make([]*limiter.Limiter, len(f.keys))
		phase := traffic.Chance(f.seed, "phase", h.Number*1009+int(h.process))
		h.next = f.Now + time.Duration(phase.Int64N(int64(h.interval)))
		h.planned = traffic.Forever
		f.plan(h)
	}
	if h.decides {
		f.Queue.Push(f.Now+h.interval, collect, int32(h.Number), h.process)
		if f.branches[h.branch].Parent >= 0 {
			f.Queue.Push(f.Now+climbEvery, ascend, int32(h.Number), h.process)
		}
	}
	f.Announce(h.Number, true, 0)
	return nil
}

// placement is the ring that a host knows.
type placement struct{ *Host }

// Owner implements rpc.Placement. The process may have ended while a decision waited.
func (p placement) Owner(key string) string {
	if p.ring == nil {
		return ""
	}
	return p.ring.Owner(key)
}

// traits are what hosts must know of algorithms that headgate does not have, as a
// Node says it.
func (f *Fleet) traits() (all []limiter.Option) {
	for _, name := range f.registry.Names() {
		a, err := f.registry.Lookup(name)
		if _, ok := dynamicconfig.TraitsOf(name); !ok && err == nil && a.Account == algorithm.AccountPool {
			all = append(all, limiter.WithAlgorithm(name, dynamicconfig.Traits{Early: true, Rates: true}))
		}
	}
	return all
}

// follow has h go by a snapshot.
func (f *Fleet) follow(h *Host, s *dynamicconfig.Snapshot) {
	h.asked = f.askedFor(s)
	h.interval, h.timeout = s.Properties().UpdateInterval, s.Properties().UpdateTimeout
}

// Stop ends the process: what it knew is lost.
func (f *Fleet) Stop(h *Host) {
	if !h.Up {
		return
	}
	if h.Limits {
		f.wasUp(h)
		f.books.Ends(h.Number, h.group, h.Local(f.Now))
	}
	h.Up, h.group, h.aggregator, h.climb, h.limiters, h.ring, h.mesh = false, nil, nil, nil, nil, nil, nil
	h.planned = traffic.Forever
	h.schedule++
	f.jobs.Abandon(h.Current())
}

// wasUp counts the time that a process of a limiting host was there.
func (f *Fleet) wasUp(h *Host) {
	f.HostTime += f.Now - h.born
	f.Measured += max(f.Now-max(h.born, f.sc.Warmup), 0)
}

// due is when the host's loop has to ask its group for a report.
func (f *Fleet) due(h *Host) traffic.Time {
	if early := driver.Of(h.group).NextEarly(); !f.patient && early < stage.Instant(h.next-h.born) {
		return h.born + traffic.Time(early)
	}
	return h.next
}

// Replan puts the next report into the queue, if a decision has brought it forward.
func (f *Fleet) Replan(h *Host) {
	if f.due(h) < h.planned {
		f.plan(h)
	}
}

// plan puts the next report into the queue, if it is not there.
func (f *Fleet) plan(h *Host) {
	due := max(f.due(h), f.Now)
	if due == h.planned {
		return
	}
	h.schedule++
	h.planned = due
	f.Queue.Push(due, report, int32(h.Number), h.schedule)
}

// report is one round of the host's loop.
func (f *Fleet) report(h *Host) {
	h.planned = traffic.Forever
	var batches []*driver.Batch
	if h.next <= f.Now {
		if h.next += h.interval; h.next <= f.Now {
			// A host that was suspended does not catch up on missed rounds.
			h.next = f.Now + h.interval
		}
		batches = driver.Of(h.group).Report(h.Local(f.Now))
	} else {
		batches = driver.Of(h.group).Early(h.Local(f.Now))
	}
	reports(f, h, batches)
	f.plan(h)
}

// reports sends batches of h to the owners.
func reports(f *Fleet, h *Host, batches []*driver.Batch) {
	for _, batch := range batches {
		for _, part := range usage.Split(&batch.Usage, h.ring) {
			f.call(h, batch, part)
		}
	}
}

// AtHost is an event that a running process takes part in.
func (f *Fleet) AtHost(h *Host, e timeline.Event) error {
	switch e.Kind {
	case report:
		if e.Ref == h.schedule {
			f.report(h)
		}
	case request:
		return f.serve(h, e.Ref)
	case answer:
		return f.apply(h, e.Ref)
	case collect:
		if e.Ref == h.process {
			h.aggregator.GC(f.Now - h.born)
			f.Queue.Push(f.Now+h.interval, collect, e.Who, e.Ref)
		}
	case ascend:
		if e.Ref == h.process {
			f.Queue.Push(f.Now+climbEvery, ascend, e.Who, e.Ref)
			return f.below(h)
		}
	case claimed:
		return f.lease(h, f.messages.Fetch(e.Ref))
	case leased:
		return f.leased(h, f.messages.Fetch(e.Ref))
	case lapse:
		f.lapse(h, e.Ref)
	case murmur:
		if e.Ref == h.process && h.mesh != nil {
			return f.murmur(h)
		}
	case hears:
		return f.hears(h, f.messages.Fetch(e.Ref).told)
	case agreed:
		m := f.messages.Fetch(e.Ref)
		f.agreed(h, m.told, m.by)
	case hushed:
		f.agreed(h, f.messages.Fetch(e.Ref).told, 0)
	case asked:
		f.asked(h, f.messages.Fetch(e.Ref))
	case replied:
		f.replied(f.messages.Fetch(e.Ref))
	case wakes:
		f.jobs.Resume(f.messages.Fetch(e.Ref).turn)
	case runs:
		if m := f.messages.Fetch(e.Ref); !f.Gone(m.of) {
			f.Spawn(h, m.job)
		}
	case view:
		f.see(h, e.Ref)
	case noticed:
		f.look(h)
	case configure:
		return f.configure(h, e.Ref)
	}
	return nil
}

// Limiter is that of a key at a host, and whether it may ask the key's owner.
func (f *Fleet) Limiter(h *Host, key int) (l *limiter.Limiter, asks bool) {
	if l = h.limiters[key]; l == nil {
		l = h.group.For(f.keys[key])
		h.limiters[key] = l
	}
	return l, h.asked != nil && h.asked[key]
}

// Tell has a host follow the newest limits after a time.
func (f *Fleet) Tell(h *Host, after time.Duration) {
	f.Queue.Push(f.Now+after, configure, int32(h.Number), int32(len(f.configs)-1))
}

// configure makes the host follow a change of limits.
func (f *Fleet) configure(h *Host, version int32) error {
	if version <= h.config {
		return nil
	}
	h.config = version
	snapshot := f.configsOf[version][h.branch]
	f.follow(h, snapshot)
	if h.aggregator != nil {
		h.aggregator.Core.Configure(f.Now-h.born, snapshot)
	}
	if h.group != nil {
		if h.mesh != nil {
			h.mesh.Configure(h.Local(f.Now))
		}
		driver.Of(h.group).Configure(h.Local(f.Now), snapshot)
		f.plan(h)
	}
	return nil
}

// Part is which part of a limit the bucket of a key refills with at a host; 0 while that is
// down.
func (f *Fleet) Part(h *Host, key string, limit float64) float64 {
	if !h.Up || limit == 0 {
		return 0
	}
	status, ok := h.group.InspectAt(h.Local(f.Now).Time(), key)
	if !ok || len(status.Shares) == 0 {
		return 0
	}
	share := status.Shares[len(status.Shares)-1]
	if status.Mode == dynamicconfig.ModeOld || status.Mode == dynamicconfig.ModeOldShadowNew {
		share = status.Shares[0]
	}
	return float64(share.Level.Limit) / limit
}
