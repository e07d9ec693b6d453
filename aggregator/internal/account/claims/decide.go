// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"time"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// decide is what the host of row i gets: its target, as far as others leave room, and
// what it gets beyond that whatever they leave. It is short if they leave too
// little. A host that keeps gets no more than it had.
func (l *Leases) decide(now time.Duration, c Capacity, i int32, keeps bool) (part, beyond float64, short bool) {
	var own [maxBands]int32
	r := l.rows.At(i)
	for n := r.first; n != none; n = l.wanted.nodes[n].next {
		own[l.wanted.nodes[n].band] = n
	}
	var target float64
	rest := c.Amount // what higher bands leave
	for _, k := range l.order {
		f, t := l.all[k].form, l.tree(k)
		if n := own[k]; n != none {
			own := l.wanted.nodes[n].own()
			if p := atMost(l.part(now, k, rest, i, own), own.Wants); bounded(f) {
				target += p
			} else {
				beyond += p
			}
		}
		rest = max(rest-t.all().wants, 0)
	}
	beyond = c.up(beyond)
	if !c.Whole {
		target += l.unwanted(c, r)
	}
	if keeps {
		target, beyond = min(target, c.down(r.part)), min(beyond, c.down(r.beyond))
	}
	if c.Whole {
		part = l.slots(r, target, l.room(c, r))
		return part, beyond, r.short > 0 || l.late
	}
	l.lack(r, 0)
	room := l.room(c, r)
	return min(target, room), beyond, target*nearly > room || l.late
}

// part is what the host of row i, which wants own in band k, gets of what the band has.
func (l *Leases) part(now time.Duration, k uint8, rest float64, i int32, own Band) float64 {
	b := &l.all[k]
	if b.kept == nil {
		return part(b.form, rest, l.tree(k), own)
	}
	if own.Wants == 0 { // it is not among those that are weighed
		return 0
	}
	host := l.rows.Host(i)
	if b.kept.Stale(now, host, int(l.wanted.nodes[b.root].rows)) {
		for i, r := range l.rows.All {
			for n := r.first; n != none; n = l.wanted.nodes[n].next {
				if node := &l.wanted.nodes[n]; node.band == k {
					b.kept.Add(l.rows.Host(i), algorithm.Demand{Wants: node.wants, Has: account.Ratio(r.part, rest), Clients: float64(node.clients)})
				}
			}
		}
		b.kept.Divide(now, rest)
	}
	switch p, ok := b.kept.Part(host); {
	case !ok:
		l.late = true
		return 0
	case !account.Valid(p):
		l.invalid = true
		return 0
	default:
		return p * rest
	}
}

// unwanted is what r's host gets beyond what it wants, of the capacity that no host wants: its part
// by what it wants. A cluster below, which claims seldom, also gets an even part of half of the rest
// while the hosts want no more than half: its next events may come sooner than the last ones.
func (l *Leases) unwanted(c Capacity, r *leaseRow) float64 {
	if r.kind == exactly {
		return 0
	}
	own, all := 0.0, 0.0
	for n := r.first; n != none; n = l.wanted.nodes[n].next {
		own += l.wanted.nodes[n].wants
	}
	for _, k := range l.order {
		all += l.tree(k).all().wants
	}
	if !(own > 0 && all < c.Amount) {
		return 0
	}
	more := own * min((c.Amount-all)/all, headroom)
	if r.kind != asPart && all <= c.Amount/2 {
		more += (c.Amount - all*(1+headroom)) / 2 / float64(l.Hosts())
	}
	return more
}
