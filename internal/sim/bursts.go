// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Bursts are sent by some of a source's hosts at a time, and then by others.
type Bursts struct {
	Rate  float64       // events/s of each host while it bursts
	Every Span          // from the start of one to the start of the next
	For   time.Duration // how long one lasts
	From  Time          // when the first may begin
	Hosts int           // how many hosts burst at the same time
	Next  bool          // hosts take turns in order, instead of at random
	Mark  string        // marks each start, if not empty
}

// burst is one of them.
type burst struct {
	at    Time
	hosts []int
}

// schedule draws all bursts up to end, on hosts.
func (b *Bursts) schedule(r *rand.Rand, hosts []int, end Time) []burst {
	var all []burst
	turn := 0
	at := b.From
	if b.Every.From != b.Every.To {
		at += time.Duration(r.Float64() * float64(b.Every.From))
	}
	for ; at < end; at += b.Every.draw(r) {
		on := make([]int, 0, b.Hosts)
		if b.Next {
			for range min(b.Hosts, len(hosts)) {
				on = append(on, hosts[turn%len(hosts)])
				turn++
			}
		} else {
			on = append(on, pick(r, hosts, b.Hosts)...)
		}
		all = append(all, burst{at, on})
	}
	return all
}

// pick draws n different ones of hosts, in increasing order.
func pick(r *rand.Rand, hosts []int, n int) []int {
	order := slices.Clone(hosts)
	n = min(n, len(order))
	for i := range n {
		j := i + r.IntN(len(order)-i)
		order[i], order[j] = order[j], order[i]
	}
	slices.Sort(order[:n])
	return order[:n]
}

// of is the rate of one host under a schedule.
func (b *Bursts) of(schedule []burst, host int) Steps {
	var steps Steps
	for _, one := range schedule {
		if !slices.Contains(one.hosts, host) {
			continue
		}
		if last := len(steps) - 1; last > 0 && steps[last].At >= one.at {
			steps[last].At = one.at + b.For // goes on
			continue
		}
		steps = append(steps, Step{one.at, b.Rate}, Step{one.at + b.For, 0})
	}
	return steps
}
