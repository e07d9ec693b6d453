// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// People are the clients, or the tenants, that a source's events come from.
// Some are more popular than others, and each sends events in clumps.
type People struct {
	Clump float64       // mean events of a clump, 1 or more; sizes are geometric
	Gap   time.Duration // mean between the events of a clump; exponential

	shares []float64 // of all clumps, that come from this client or one before
}

// NewPeople returns so many clients, of which number i (from 0) is drawn in
// proportion to 1 ÷ (i + 1)^zipf.
func NewPeople(count int, zipf, clump float64, gap time.Duration) *People {
	p := &People{Clump: clump, Gap: gap, shares: make([]float64, count)}
	sum := 0.0
	for i := range p.shares {
		sum += math.Pow(float64(i+1), -zipf)
		p.shares[i] = sum
	}
	for i := range p.shares {
		p.shares[i] /= sum
	}
	return p
}

// Count is the number of clients.
func (p *People) Count() int { return len(p.shares) }

// draw returns the client that the next clump comes from.
func (p *People) draw(r *rand.Rand) int {
	i, _ := slices.BinarySearch(p.shares, r.Float64())
	return min(i, len(p.shares)-1)
}

// size returns how many events a clump has.
func (p *People) size(r *rand.Rand) int {
	if p.Clump <= 1 {
		return 1
	}
	return 1 + int(Exponential(r)/-math.Log1p(-1/p.Clump))
}

// pause returns how long after one event of a clump the next comes.
func (p *People) pause(r *rand.Rand) time.Duration {
	return time.Duration(Exponential(r) * float64(p.Gap))
}

// Sticky returns the one of hosts that a load balancer sends a client to, by the
// client's hash; -1 if there is none. A host that comes or goes moves only the
// clients that it gets or had.
func Sticky(client uint64, hosts []int, there func(host int) bool) int {
	best, most := -1, uint64(0)
	for _, h := range hosts {
		score := mix(client ^ mix(uint64(h)+1))
		if (best < 0 || score > most) && there(h) {
			best, most = h, score
		}
	}
	return best
}

// mix spreads all bits of v over all bits of the result.
func mix(v uint64) uint64 {
	v = (v ^ v>>33) * 0xff51afd7ed558ccd
	v = (v ^ v>>33) * 0xc4ceb9fe1a85ec53
	return v ^ v>>33
}

// clump is events of one client that are still to come.
type clump struct {
	at     Time
	client int
	left   int
}

// clumps is a binary heap, the next one first.
type clumps []clump

func (c *clumps) push(one clump) {
	*c = append(*c, one)
	h := *c
	for i := len(h) - 1; i > 0 && h[i].at < h[(i-1)/2].at; i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (c *clumps) pop() clump {
	h := *c
	first, n := h[0], len(h)-1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		next := i
		for _, below := range []int{2*i + 1, 2*i + 2} {
			if below < n && h[below].at < h[next].at {
				next = below
			}
		}
		if next == i {
			break
		}
		h[i], h[next] = h[next], h[i]
		i = next
	}
	*c = h
	return first
}
