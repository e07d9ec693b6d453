// SPDX-License-Identifier: Apache-2.0

package swarm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"pgregory.net/rapid"
)

// The times of every cluster, in seconds. All faults begin after faultsFrom and
// have ended at calmFrom. A lease lasts 30 s, so clusters have settled at
// settledFrom.
const (
	warmup      = 20
	faultsFrom  = 25
	calmFrom    = 45
	settledFrom = 85
	duration    = 105
)

// roundTrip is the longest of all networks, in seconds.
const roundTrip = 2 * 0.305

const key = "swarm:key"

// A cluster is what was drawn.
type cluster struct {
	algorithm string
	hosts     int
	limit     int    // events/s, at the start
	last      int    // events/s, at the end
	least     int    // events/s, at any time
	most      int    // the same
	changed   bool   // the algorithm did
	final     string // the algorithm at the end
	shape     string
	absent    bool // the last host is not there at the start
	burst     int  // tokens
	offered   int  // events/s, of all hosts
	network   string
	members   string   // how hosts hear of each other; empty: they are told at once, and notice no partition
	faults    []string // as in a scenario
	seed      uint64
}

// bounded are the algorithms for which a bound is stated. The others are held to the
// other laws.
var bounded = []string{"elastic", "auto", "exact", "even", "gossip"}

var algorithms = append(slices.Clone(bounded),
	"request-weighted", "request-weighted-even-floor", "drop-ratio", "fair-share", "proportional-share")

// quick are those without an ask_timeout, which a scenario cannot change: that of a rule
// which begins to ask would be shorter than a round trip.
var quick = slices.DeleteFunc(slices.Clone(algorithms), asks)

// asks reports whether hosts ask owners before they decide.
func asks(algorithm string) bool { return algorithm == "exact" || algorithm == "auto" }

// shapes are the ways in which traffic comes. Those that change do so before calmFrom.
var shapes = map[string]string{
	"random": "  - {key: KEY, total: TOTAL, spread: random}\n",
	"even":   "  - {key: KEY, total: TOTAL, arrivals: even}\n",
	"steps":  "  - {key: KEY, total: {steps: {0s: QUARTER, 30s: HALF, 40s: TOTAL}}, spread: random}\n",
	"hot":    "  - {key: KEY, total: HALF, hosts: 0}\n  - {key: KEY, total: HALF}\n",
	"sticky": "  - {key: KEY, total: TOTAL, spread: sticky, clients: {count: 200, zipf: 0.5, clump: 3}}\n",
	"costs":  "  - {key: KEY, total: HALF, spread: random, cost: 1..3}\n",
}

const mostCost = 3

// draw draws a cluster. Smaller draws are simpler clusters, so that rapid shrinks
// toward two hosts, a clean network and no faults.
func draw(t *rapid.T) cluster {
	c := cluster{
		algorithm: rapid.SampledFrom(algorithms).Draw(t, "algorithm"),
		hosts:     rapid.IntRange(2, 8).Draw(t, "hosts"),
		limit:     10 * rapid.IntRange(4, 20).Draw(t, "limit"),
		seed:      rapid.Uint64Range(1, 1000).Draw(t, "seed"),
	}
	c.burst = c.limit * rapid.IntRange(1, 3).Draw(t, "burst")
	c.offered = c.limit * rapid.IntRange(5, 30).Draw(t, "load") / 10
	c.network = rapid.SampledFrom([]string{
		"{latency: 1ms}",
		"{latency: 30ms, jitter: 50ms}",
		"{latency: 5ms, loss: 10%, duplicate: 5%}",
		"{latency: 5ms, reorder: 10%, hold_back: 300ms}",
	}).Draw(t, "network")
	c.last, c.least, c.most, c.final = c.limit, c.limit, c.limit, c.algorithm
	c.shape = rapid.SampledFrom([]string{"random", "even", "steps", "hot", "sticky", "costs"}).Draw(t, "shape")
	for range rapid.IntRange(0, 3).Draw(t, "faults") {
		c.faults = append(c.faults, c.fault(t))
	}
	c.members = rapid.SampledFrom([]string{
		"",
		"{detect: 1s, delay: 0s..500ms}",
		"{detect: 2s, delay: 0s..200ms, splits: 2s}", // as ringpop/gossip does
	}).Draw(t, "membership")
	return c
}

// fault draws one thing that goes wrong, or that somebody changes.
func (c *cluster) fault(t *rapid.T) string {
	at := rapid.IntRange(faultsFrom, calmFrom-1).Draw(t, "at")
	length := rapid.IntRange(1, calmFrom-at).Draw(t, "for")
	host := rapid.IntRange(0, c.hosts-1).Draw(t, "host")
	do := rapid.SampledFrom([]string{"pause", "restart", "crash", "owner", "partition", "in", "out", "slow", "clock_step", "limit", "override", "algorithm", "leave", "join", "drain"}).Draw(t, "do")
	switch do {
	case "owner":
		return fmt.Sprintf("{at: %ds, do: crash, hosts: owner of %s, for: %ds}", at, key, length)
	case "in", "out":
		return fmt.Sprintf("{at: %ds, do: partition, hosts: %d, direction: %s, for: %ds}", at, host, do, length)
	case "slow":
		return fmt.Sprintf("{at: %ds, do: slow, hosts: all, by: 200ms, for: %ds}", at, length)
	case "clock_step":
		return fmt.Sprintf("{at: %ds, do: clock_step, hosts: %d, by: -1h}", at, host)
	case "limit":
		// Changes are at calmFrom, so that their order is the order here.
		c.last = 10 * rapid.IntRange(4, 20).Draw(t, "next limit")
		c.least, c.most = min(c.least, c.last), max(c.most, c.last)
		return fmt.Sprintf("{at: %ds, do: limit, key: %q, limit: %d/s, burst: %d}", calmFrom, key, c.last, c.burst)
	case "override":
		// Other changes are at calmFrom, when it has ended.
		c.least, c.most = min(c.least, c.limit/2), max(c.most, 2*c.limit)
		return fmt.Sprintf("{at: %ds, do: override, key: %q, factor: %s, for: %ds}", at, key, rapid.SampledFrom([]string{"0.5x", "2x"}).Draw(t, "factor"), length)
	case "algorithm":
		c.final, c.changed = rapid.SampledFrom(quick).Draw(t, "next algorithm"), true
		return fmt.Sprintf("{at: %ds, do: algorithm, key: %q, algorithm: %s}", calmFrom, key, c.final)
	case "join":
		c.absent = true
		return fmt.Sprintf("{at: %ds, do: join, hosts: %d}", at, c.hosts-1)
	default:
		return fmt.Sprintf("{at: %ds, do: %s, hosts: %d, for: %ds}", at, do, host, length)
	}
}

// calm reports whether nothing goes wrong in c.
func (c cluster) calm() bool {
	return !slices.ContainsFunc(c.faults, func(f string) bool { return !strings.Contains(f, "clock_step") }) && !c.lossy()
}

func (c cluster) lossy() bool { return strings.Contains(c.network, "loss") }

// String is c as a scenario file.
func (c cluster) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: swarm\ndescription: Seed %d.\nduration: %ds\nwarmup: %ds\nhosts: %d\nnetwork: %s\n",
		c.seed, duration, warmup, c.hosts, c.network)
	if c.members != "" {
		fmt.Fprintf(&b, "membership: %s\n", c.members)
	}
	if c.absent {
		fmt.Fprintf(&b, "absent: %d\n", c.hosts-1)
	}
	wait := ""
	if asks(c.algorithm) {
		wait = ", ask_timeout: 1s" // longer than roundTrip, or the fallback decides
	}
	fmt.Fprintf(&b, "limits:\n  - {key: %q, limit: %d/s, burst: %d, algorithm: %s, idle_after: 10m%s}\n", key, c.limit, c.burst, c.algorithm, wait)
	b.WriteString("traffic:\n")
	b.WriteString(strings.NewReplacer("KEY", strconv.Quote(key), "TOTAL", rate(c.offered), "QUARTER", rate(c.offered/4), "HALF", rate(c.offered/2)).Replace(shapes[c.shape]))
	if len(c.faults) > 0 {
		b.WriteString("events:\n")
	}
	for _, f := range c.faults {
		fmt.Fprintf(&b, "  - %s\n", f)
	}
	return b.String()
}

func rate(perSecond int) string { return strconv.Itoa(max(perSecond, 1)) + "/s" }
