// SPDX-License-Identifier: Apache-2.0

package traffic

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

// Burst is one of them.
type Burst struct {
	At    Time
	hosts []int
}

// Schedule draws all bursts up to end, on hosts.
func (b *Bursts) Schedule(r *rand.Rand, hosts []int, end Time) []Burst {
	var all []Burst
	turn := 0
	at := b.From
	if b.Every.From != b.Every.To {
		at += time.Duration(r.Float64() * float64(b.Every.From))
	}
	for ; at < end; at += b.Every.Draw(r) {
		on := make([]int, 0, b.Hosts)
		if b.Next {
			for range min(b.Hosts, len(hosts)) {
				on = append(on, hosts[turn%len(hosts)])
				turn++
			}
		} else {
			on = append(on, Pick(r, hosts, b.Hosts)...)
		}
		all = append(all, Burst{at, on})
	}
	return all
}

// Pick draws n different ones of hosts, in increasing order.
func Pick(r *rand.Rand, hosts []int, n int) []int {
	order := slices.Clone(hosts)
	n = min(n, len(order))
	for i := range n {
		j := i + r.IntN(len(order)-i)
		order[i], order[j] = order[j], order[i]
	}
	slices.Sort(order[:n])
	return order[:n]
}

// Of is the rate of one host under a schedule.
func (b *Bursts) Of(schedule []Burst, host int) Steps {
	var steps Steps
	for _, one := range schedule {
		if !slices.Contains(one.hosts, host) {
			continue
		}
		if last := len(steps) - 1; last > 0 && steps[last].At >= one.At {
			steps[last].At = one.At + b.For // goes on
			continue
		}
		steps = append(steps, Step{one.At, b.Rate}, Step{one.At + b.For, 0})
	}
	return steps
}

// MaxBursts bounds how many bursts one source has.
const MaxBursts = 1e6

// UpTo returns the numbers below n.
func UpTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
