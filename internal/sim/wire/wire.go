// SPDX-License-Identifier: Apache-2.0

// Package wire is the network between the hosts of a run: what it loses, delays, delivers twice
// and cuts. It does not know what messages say.
package wire

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// Wire connects hosts, each of which has a number. Use New. It is not safe for concurrent use.
type Wire struct {
	network scenario.Network
	links   []*rand.Rand // by sending host
	cuts    []cut
}

// cut is a partition: nothing passes from one set of hosts to another.
type cut struct {
	id       int
	from, to []bool // by host
}

// New returns a Wire between so many hosts.
func New(network scenario.Network, seed uint64, hosts int) *Wire {
	w := &Wire{network: network}
	for i := range hosts {
		w.links = append(w.links, traffic.Chance(seed, "network", i))
	}
	return w
}

// Carry calls arrives with the delay of each time that one message from a host reaches
// another: not at all, once or twice.
func (w *Wire) Carry(from, to int, arrives func(after time.Duration)) {
	n, r := &w.network, w.links[from]
	// The same draws for every message, whatever its fate.
	lost, twice, back := r.Float64() < n.Loss, r.Float64() < n.Duplicate, r.Float64() < n.Reorder
	jitter, again := r.Float64(), r.Float64()
	if lost || w.IsCut(from, to) {
		return
	}
	delay := n.Latency
	if back {
		delay += n.HoldBack
	}
	arrives(delay + time.Duration(jitter*float64(n.Jitter)))
	if twice {
		arrives(delay + time.Duration(again*float64(n.Jitter)))
	}
}

// Cut lets nothing pass from hosts to others any more. Both are by number of the host. Mend
// ends it by its id.
func (w *Wire) Cut(id int, from, to []bool) { w.cuts = append(w.cuts, cut{id, from, to}) }

// Mend ends the cuts that have an id.
func (w *Wire) Mend(id int) {
	w.cuts = slices.DeleteFunc(w.cuts, func(cut cut) bool { return cut.id == id })
}

// Heal ends all cuts.
func (w *Wire) Heal() { w.cuts = nil }

// IsCut reports whether nothing passes from a host to another.
func (w *Wire) IsCut(from, to int) bool {
	for i := range w.cuts {
		if w.cuts[i].from[from] && w.cuts[i].to[to] {
			return true
		}
	}
	return false
}
