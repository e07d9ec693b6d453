// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"cmp"
	"slices"
)

// maxBands is how many bands an account tells apart at a time. Hosts whose
// priority is none of so many join the nearest; of two, the lower.
const maxBands = 16

// band is all that is wanted at one priority.
type band struct {
	priority int64
	way      way // nil if the band is not in use
	root     int32
}

// wayOf is the way of one priority.
type wayOf struct {
	priority int64
	way      way
}

// Within has the band of priority divided by a, from now on; nil for the way
// of all bands, which is that of the algorithm that l is from.
func (l *Leases) Within(priority int64, a Leasing) {
	l.ways = slices.DeleteFunc(l.ways, func(w wayOf) bool { return w.priority == priority })
	if a != nil {
		l.ways = append(l.ways, wayOf{priority, a.NewLeases().way})
	}
	for k := range l.bands {
		if b := &l.bands[k]; b.way != nil && b.priority == priority {
			b.way = l.wayAt(priority)
		}
	}
}

// wayAt is the way of priority.
func (l *Leases) wayAt(priority int64) way {
	for _, w := range l.ways {
		if w.priority == priority {
			return w.way
		}
	}
	return l.way
}

func (l *Leases) tree(k uint8) tree { return tree{&l.wanted, l.bands[k].root} }

// Demand yields what all hosts want, a sum for each priority, highest first.
func (l *Leases) Demand(yield func(Band) bool) {
	for _, k := range l.order {
		all := l.tree(k).all()
		if !yield(Band{l.bands[k].priority, int64(all.clients), all.wants}) {
			return
		}
	}
}

// note has the bands hold what r's host claims. A host that only wants to keep
// what it has is taken to want that.
func (l *Leases) note(r *leaseRow, claim Claim, has float64) {
	claims := claim.Bands
	if claim.Keep && len(claims) == 0 && has > 0 {
		claims = []Band{{Clients: 1, Wants: has}}
	}
	l.leave(r, claims)

	var wants [maxBands]Band
	var in uint32 // bit k: it wants something in band k
	for _, b := range claims {
		b = b.clean()
		k := l.join(b.Priority)
		w := &wants[k]
		w.Clients, w.Wants = w.Clients+b.Clients, w.Wants+b.Wants
		*w = w.clean()
		in |= 1 << k
	}
	for n := r.first; n != nobody; n = l.wanted.nodes[n].next {
		k := l.wanted.nodes[n].band
		l.revise(n, wants[k])
		in &^= 1 << k
	}
	for k := range uint8(maxBands) {
		if in&(1<<k) == 0 {
			continue
		}
		n := l.wanted.add()
		l.wanted.nodes[n] = node{clients: uint32(wants[k].Clients), wants: wants[k].Wants, band: k, next: r.first}
		r.first = n
		l.bands[k].root = l.tree(k).insert(n)
	}
}

// leave takes r's host out of the bands whose priorities are not among claims.
func (l *Leases) leave(r *leaseRow, claims []Band) {
	for at := &r.first; *at != nobody; {
		n := *at
		k := l.wanted.nodes[n].band
		if slices.ContainsFunc(claims, func(b Band) bool { return b.Priority == l.bands[k].priority }) {
			at = &l.wanted.nodes[n].next
			continue
		}
		*at = l.wanted.nodes[n].next
		if l.bands[k].root = l.tree(k).remove(n); l.bands[k].root == nobody {
			l.bands[k] = band{}
			l.order = slices.DeleteFunc(l.order, func(other uint8) bool { return other == k })
		}
		l.wanted.drop(n)
	}
}

// revise has node n want what b says.
func (l *Leases) revise(n int32, b Band) {
	if old := &l.wanted.nodes[n]; old.wants == b.Wants && old.clients == uint32(b.Clients) {
		return
	}
	k := l.wanted.nodes[n].band
	l.bands[k].root = l.tree(k).remove(n)
	l.wanted.nodes[n].wants, l.wanted.nodes[n].clients = b.Wants, uint32(b.Clients)
	l.bands[k].root = l.tree(k).insert(n)
}

// join is the band that priority belongs to; it is made if there is room.
func (l *Leases) join(priority int64) uint8 {
	at, found := slices.BinarySearchFunc(l.order, priority, func(k uint8, p int64) int {
		return cmp.Compare(p, l.bands[k].priority) // highest first
	})
	switch {
	case found:
		return l.order[at]
	case len(l.order) < maxBands:
		k := slices.IndexFunc(l.bands, func(b band) bool { return b.way == nil })
		if k < 0 {
			k = len(l.bands)
			l.bands = append(l.bands, band{})
		}
		l.bands[k] = band{priority: priority, way: l.wayAt(priority)}
		l.order = slices.Insert(l.order, at, uint8(k))
		return uint8(k)
	case at == 0:
		return l.order[0]
	case at == len(l.order):
		return l.order[at-1]
	}
	above, below := l.order[at-1], l.order[at]
	// As unsigned numbers, so that no difference overflows.
	if uint64(l.bands[above].priority)-uint64(priority) < uint64(priority)-uint64(l.bands[below].priority) {
		return above
	}
	return below
}

// decide is what r's host gets: its target, as far as others leave room, and
// what it gets beyond that whatever they leave. It is short if they leave too
// little.
func (l *Leases) decide(c Capacity, r *leaseRow) (part, beyond float64, short bool) {
	var own [maxBands]int32
	left := 0
	for n := r.first; n != nobody; n = l.wanted.nodes[n].next {
		own[l.wanted.nodes[n].band] = n
		left++
	}
	var target float64
	rest := c.Amount // what higher bands leave
	for _, k := range l.order {
		if left == 0 {
			break
		}
		w, t := l.bands[k].way, l.tree(k)
		if n := own[k]; n != nobody {
			own := l.wanted.nodes[n].own()
			if p := within(w.part(rest, t, own), own.Wants); w.bounded() {
				target += p
			} else {
				beyond += p
			}
			left--
		}
		rest = max(rest-t.all().wants, 0)
	}
	if c.Whole {
		part = l.slots(r, target, l.room(c, r))
		return part, c.up(beyond), r.short > 0
	}
	l.lack(r, 0)
	target += l.unwanted(c, r)
	room := l.room(c, r)
	return min(target, room), beyond, target*nearly > room
}

// unwanted is what r's host gets beyond what it wants: its part, by what it
// wants, of what nobody does.
func (l *Leases) unwanted(c Capacity, r *leaseRow) float64 {
	if !r.loose {
		return 0
	}
	own, all := 0.0, 0.0
	for n := r.first; n != nobody; n = l.wanted.nodes[n].next {
		own += l.wanted.nodes[n].wants
	}
	for _, k := range l.order {
		all += l.tree(k).all().wants
	}
	if !(all > 0 && all < c.Amount) {
		return 0
	}
	return own * min((c.Amount-all)/all, headroom)
}
