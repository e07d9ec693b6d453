// SPDX-License-Identifier: Apache-2.0

// Package growth measures what the parts of a node cost at several sizes: a host, an
// owner, a ring and calls, one after another and on virtual time. From that it
// estimates whole clusters. It knows no whole node, and no load but that of each key used
// once an interval.
package growth

import (
	"context"
	"runtime"
	"time"

	"github.com/headgate/headgate/internal/nodeload/rusage"
)

// Sizes say at which sizes Grow measures. The zero value is what docs/scale.md
// shows.
type Sizes struct {
	// Keys in use at a host; default 1,000 to 1,000,000.
	Keys []int
	// Reported is how many keys a host reports at least, in all rounds, for
	// what that takes to be measurable; default 300,000.
	Reported int
	// Hosts of a key at its owner; default 1 to 5,000.
	Hosts []int
	// Pairs of keys and hosts that the owner has each time; default 400,000.
	Pairs int
	// Rings are their numbers of hosts; default 50 to 10,000.
	Rings []int
	// Connections; default 200.
	Connections int
}

func (s Sizes) withDefaults() Sizes {
	if s.Keys == nil {
		s.Keys = []int{1_000, 10_000, 100_000, 1_000_000}
	}
	if s.Reported == 0 {
		s.Reported = 300_000
	}
	if s.Hosts == nil {
		s.Hosts = []int{1, 10, 100, 1_000, 5_000}
	}
	if s.Pairs == 0 {
		s.Pairs = 400_000
	}
	if s.Rings == nil {
		s.Rings = []int{50, 1_000, 10_000}
	}
	if s.Connections == 0 {
		s.Connections = 200
	}
	return s
}

// Costs are what the parts of a node cost at several sizes.
type Costs struct {
	Host  []HostCost  `json:"host"`
	Owner []OwnerCost `json:"owner"`
	Ring  []RingCost  `json:"ring"`
	Call  CallCost    `json:"call"`
}

// Measure measures the parts of a node one after another, in this process, on
// virtual time. CPU is that of the whole process, with its collector; memory
// is what is left after it ran.
func Measure(ctx context.Context, s Sizes) (costs Costs, err error) {
	s = s.withDefaults()
	for _, n := range s.Keys {
		c, err := hostCost(ctx, n, s.Reported)
		if err != nil {
			return costs, err
		}
		costs.Host = append(costs.Host, c)
	}
	for _, n := range s.Hosts {
		c, err := ownerCost(ctx, n, s.Pairs)
		if err != nil {
			return costs, err
		}
		costs.Owner = append(costs.Owner, c)
	}
	for _, n := range s.Rings {
		c, err := ringCost(n)
		if err != nil {
			return costs, err
		}
		costs.Ring = append(costs.Ring, c)
	}
	costs.Call, err = callCost(ctx, s.Connections)
	return costs, err
}

// stopwatch adds up CPU time. The first error stays.
type stopwatch struct {
	total time.Duration
	err   error
}

// time adds what do takes.
func (s *stopwatch) time(do func()) {
	from, err := rusage.CPUTime()
	if s.err == nil {
		s.err = err
	}
	do()
	to, _ := rusage.CPUTime()
	s.total += to - from
}

// per is the mean of n times, in ns.
func (s *stopwatch) per(n int) float64 { return float64(s.total) / float64(max(n, 1)) }

// held is the memory that is in use, stacks included, in bytes.
func held() float64 {
	runtime.GC()
	runtime.GC() // what pools held on to
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
