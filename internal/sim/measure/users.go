// SPDX-License-Identifier: Apache-2.0

package measure

import (
	"math"
	"time"
)

// users measures what those who send events feel, after the warmup.
type users struct {
	events, first, rejected int64
	waits                   *histogram // nil: none yet
	hosts                   []hostSums
}

// hostSums are the costs at one host.
type hostSums struct{ offered, admitted int64 }

func (u *users) event(d Decision) {
	u.events++
	if d.Try <= 1 {
		u.first++
	}
	if d.Last && !d.Admitted {
		u.rejected++
	}
	if d.Waited > 0 {
		if u.waits == nil {
			u.waits = new(histogram)
		}
		u.waits.add(d.Waited)
	}
	for len(u.hosts) <= d.Host {
		u.hosts = append(u.hosts, hostSums{})
	}
	h := &u.hosts[d.Host]
	h.offered += d.Cost
	if d.Admitted {
		h.admitted += d.Cost
	}
}

// plus adds what another key's users felt. Hosts are not added: what is fair
// among the keys of a host is for the limits to say.
func (u *users) plus(v users) {
	u.events += v.events
	u.first += v.first
	u.rejected += v.rejected
	if v.waits != nil {
		if u.waits == nil {
			u.waits = new(histogram)
		}
		u.waits.plus(v.waits)
	}
}

// fairness is Jain's index of what hosts admit of what they are offered, each
// host weighted by what it is offered: 1 if all admit the same part, and k ÷ n
// if k of n equal hosts admit the same part and the others nothing.
func (u *users) fairness() float64 {
	var offered, admitted, squares float64
	for _, h := range u.hosts {
		if h.offered == 0 {
			continue
		}
		offered += float64(h.offered)
		admitted += float64(h.admitted)
		squares += float64(h.admitted) * float64(h.admitted) / float64(h.offered)
	}
	if squares == 0 {
		return 1
	}
	return admitted * admitted / (offered * squares)
}

// enough is the part of an even share of the offered events that a host must be
// offered for extremes to count it.
const enough = 0.1

// extremes are the smallest and the largest part that a host admitted of what it was
// offered, in percent, of the hosts that were offered enough.
func (u *users) extremes() (least, most float64) {
	offered, n := int64(0), 0
	for _, h := range u.hosts {
		if offered += h.offered; h.offered > 0 {
			n++
		}
	}
	if n == 0 {
		return 100, 100
	}
	least = math.Inf(1)
	for _, h := range u.hosts {
		if h.offered > 0 && float64(h.offered) >= enough*float64(offered)/float64(n) {
			part := 100 * float64(h.admitted) / float64(h.offered)
			least, most = min(least, part), max(most, part)
		}
	}
	return least, most
}

// waited is the part of the decisions that waited, in percent.
func (u *users) waited() float64 {
	if u.waits == nil {
		return 0
	}
	return 100 * float64(u.waits.all) / float64(max(u.events, 1))
}

// gaveUp is the part of the clients that were never admitted, in percent.
func (u *users) gaveUp() float64 { return 100 * float64(u.rejected) / float64(max(u.first, 1)) }

// histogram counts durations in steps of 5%, from a microsecond to minutes.
type histogram struct {
	counts [400]int64
	all    int64
}

var step = math.Log(1.05)

func (h *histogram) add(d time.Duration) {
	i := int(math.Log(max(float64(d)/float64(time.Microsecond), 1)) / step)
	h.counts[min(i, len(h.counts)-1)]++
	h.all++
}

func (h *histogram) plus(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.all += other.all
}

// quantile is the middle of the step that holds it; 0 of nothing.
func (h *histogram) quantile(q float64) time.Duration {
	if h == nil || h.all == 0 {
		return 0
	}
	rank := int64(math.Ceil(q * float64(h.all)))
	for i, n := range h.counts {
		if rank -= n; rank <= 0 {
			return time.Duration(math.Exp((float64(i)+0.5)*step) * float64(time.Microsecond))
		}
	}
	return 0
}
