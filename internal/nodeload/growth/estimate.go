// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"math"
	"time"
)

// Shape is a cluster in which all hosts are alike.
type Shape struct {
	Hosts int
	// KeysPerHost are in use on each host, and used in each interval.
	KeysPerHost int
	// HostsPerKey use each key.
	HostsPerKey int
	Interval    time.Duration
	// Note is for people.
	Note string
}

// Keys of the whole cluster.
func (s Shape) Keys() float64 {
	return float64(s.Hosts) * float64(s.KeysPerHost) / float64(s.HostsPerKey)
}

// Shapes are those of docs/scale.md.
func Shapes() []Shape {
	const k, m = 1_000, 1_000_000
	return []Shape{
		{50, 100 * k, 50, 3 * time.Second, ""},
		{500, 100 * k, 50, 3 * time.Second, ""},
		{1_000, 100 * k, 50, 3 * time.Second, ""},
		{1_000, 1 * m, 100, 10 * time.Second, ""},
		{10_000, 100 * k, 100, 3 * time.Second, "all talk to all"},
		{10_000, 100 * k, 100, 30 * time.Second, "a longer interval"},
		{500, 100 * k, 100, 3 * time.Second, "each of 20 rings"},
		{10_000, 1 * m, 1_000, 30 * time.Second, ""},
		{10_000, 10 * m, 10_000, 30 * time.Second, "every key everywhere"},
	}
}

// Estimate is what one host of a Shape takes, on paper: from what the parts
// cost, as Costs have them.
type Estimate struct {
	// CallsPerS that it makes; it answers as many.
	CallsPerS float64
	// Percent of one core: as a host (reports), as an owner, for calls and
	// what they carry, and to watch keys in use.
	HostCPU, OwnerCPU, CallCPU, WatchCPU float64
	// Bytes of memory: its own keys, those of others that it owns, ring and
	// connections. Without what the collector needs to work with.
	HostMemory, OwnerMemory, PeerMemory float64
	// BytesPerS in each direction.
	BytesPerS float64
}

// CPU is all of it, in percent of one core.
func (e Estimate) CPU() float64 { return e.HostCPU + e.OwnerCPU + e.CallCPU + e.WatchCPU }

// Memory is all of it, in bytes, twice: by default the collector lets the heap
// double.
func (e Estimate) Memory() float64 {
	return base + 2*(e.HostMemory+e.OwnerMemory+e.PeerMemory)
}

// base is a process that does nothing.
const base = 20e6

// Estimate applies what was measured to s.
//
//	calls      = owners that have one of its keys: N·(1 - (1-1/N)^k), once an interval
//	CPU        = (k·(round + report + key) + calls·call) / interval + k·watch
//	memory     = k·(key at a host) + k·(pair) + K/N·(key at an owner) + N·(ring + connection)
//	network    = (k·(out + back) + calls·overhead) / interval
//
// N hosts use k keys each, K in all. Each host owns K/N keys, of which others
// report k in all: as many pairs of key and host as there are keys on a host.
func (costs Costs) Estimate(s Shape) Estimate {
	k, n, t := float64(s.KeysPerHost), float64(s.Hosts), s.Interval.Seconds()
	host, owner, ring := costs.host(s.KeysPerHost), costs.owner(s.HostsPerKey), costs.ring(s.Hosts)
	calls := n*(1-math.Pow(1-1/n, k)) + k/10_000
	const percent = 100 / 1e9 // of ns in a second
	return Estimate{
		CallsPerS:   calls / t,
		HostCPU:     percent * k * host.RoundNs / t,
		OwnerCPU:    percent * k * owner.ReportNs / t,
		CallCPU:     percent * (calls*costs.Call.Us*1e3 + k*costs.Call.KeyNs) / t,
		WatchCPU:    percent * k * host.WatchNs,
		HostMemory:  k * host.Bytes,
		OwnerMemory: k * owner.Bytes, // a key's own is in it
		PeerMemory:  n * (ring.Bytes + costs.Call.ConnectionBytes),
		BytesPerS:   (k*(host.Out+host.Back) + calls*costs.Call.Bytes) / t,
	}
}

// host, owner and ring are what was measured nearest to a size, in ratio.
func (costs Costs) host(n int) HostCost {
	return nearest(costs.Host, n, func(c HostCost) int { return c.Keys })
}

func (costs Costs) owner(n int) OwnerCost {
	return nearest(costs.Owner, n, func(c OwnerCost) int { return c.Hosts })
}

func (costs Costs) ring(n int) RingCost {
	return nearest(costs.Ring, n, func(c RingCost) int { return c.Hosts })
}

func nearest[C any](all []C, n int, size func(C) int) (best C) {
	least := math.Inf(1)
	for _, c := range all {
		if d := math.Abs(math.Log(float64(size(c)) / float64(n))); d < least {
			least, best = d, c
		}
	}
	return best
}
