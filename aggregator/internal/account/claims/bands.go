// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"cmp"
	"slices"

	"github.com/headgate/headgate/aggregator/internal/account"
	"github.com/headgate/headgate/algorithm"
)

// maxBands is how many bands an account keeps apart at a time. Hosts whose
// priority is none of so many join the nearest; of two, the lower.
const maxBands = 16

// bands are what hosts want, by priority, and how each band is divided.
type bands struct {
	wanted   forest
	all      []band  // by index, free ones too
	order    []uint8 // indices of those in use, highest priority first
	way      algorithm.Weigher
	ways     map[int64]algorithm.Weigher // of priorities that have a way of their own
	settings *account.Settings
}

// band is all that is wanted at one priority.
type band struct {
	priority int64
	root     int32
	used     bool
	form     algorithm.Form
	kept     *account.Kept // of a way that looks at all hosts at once
}

// follow has the bands divided by way, and those of ways by these, from now on.
func (l *bands) follow(s *account.Settings, way algorithm.Weigher, ways map[int64]algorithm.Weigher) {
	l.settings, l.way, l.ways = s, way, ways
	for k := range l.all {
		if b := &l.all[k]; b.used {
			l.divide(b)
		}
	}
}

// divide has b divided as its priority says.
func (l *bands) divide(b *band) {
	way, own := l.ways[b.priority]
	if !own {
		way = l.way
	}
	b.form, b.kept = way.Form, nil
	if b.form == algorithm.FormPlain {
		b.kept = account.NewKept(way, l.settings)
	}
}

func (l *bands) tree(k uint8) tree { return tree{&l.wanted, l.all[k].root} }

// Demand yields what all hosts want, a sum for each priority, highest first.
func (l *bands) Demand(yield func(Band) bool) {
	for _, k := range l.order {
		all := l.tree(k).all()
		if !yield(Band{Priority: l.all[k].priority, Clients: int64(all.clients), Wants: all.wants}) {
			return
		}
	}
}

// note has the bands hold what r's host claims. A host that only wants to keep
// what it has is taken to want that.
func (l *bands) note(r *leaseRow, claim Claim, has float64) {
	claims := claim.Bands
	if claim.Keep && len(claims) == 0 && has > 0 {
		claims = []Band{{Clients: 1, Wants: has}}
	}
	l.leave(r, claims)

	var wants [maxBands]Band
	var in uint32 // bit k: it wants something in band k
	for _, b := range claims {
		b = clean(b)
		k := l.join(b.Priority)
		w := &wants[k]
		w.Clients, w.Wants = w.Clients+b.Clients, w.Wants+b.Wants
		*w = clean(*w)
		in |= 1 << k
	}
	for n := r.first; n != none; n = l.wanted.nodes[n].next {
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
		l.all[k].root = l.tree(k).insert(n)
	}
}

// leave takes r's host out of the bands whose priorities are not among claims.
func (l *bands) leave(r *leaseRow, claims []Band) {
	for at := &r.first; *at != none; {
		n := *at
		k := l.wanted.nodes[n].band
		if slices.ContainsFunc(claims, func(b Band) bool { return b.Priority == l.all[k].priority }) {
			at = &l.wanted.nodes[n].next
			continue
		}
		*at = l.wanted.nodes[n].next
		if l.all[k].root = l.tree(k).remove(n); l.all[k].root == none {
			l.all[k] = band{}
			l.order = slices.DeleteFunc(l.order, func(other uint8) bool { return other == k })
		}
		l.wanted.drop(n)
	}
}

// revise has node n want what b says.
func (l *bands) revise(n int32, b Band) {
	if old := &l.wanted.nodes[n]; old.wants == b.Wants && old.clients == uint32(b.Clients) {
		return
	}
	k := l.wanted.nodes[n].band
	l.all[k].root = l.tree(k).remove(n)
	l.wanted.nodes[n].wants, l.wanted.nodes[n].clients = b.Wants, uint32(b.Clients)
	l.all[k].root = l.tree(k).insert(n)
}

// join is the band that priority belongs to; it is made if there is room.
func (l *bands) join(priority int64) uint8 {
	at, found := slices.BinarySearchFunc(l.order, priority, func(k uint8, p int64) int {
		return cmp.Compare(p, l.all[k].priority) // highest first
	})
	switch {
	case found:
		return l.order[at]
	case len(l.order) < maxBands:
		k := slices.IndexFunc(l.all, func(b band) bool { return !b.used })
		if k < 0 {
			k = len(l.all)
			l.all = append(l.all, band{})
		}
		l.all[k] = band{priority: priority, used: true}
		l.divide(&l.all[k])
		l.order = slices.Insert(l.order, at, uint8(k))
		return uint8(k)
	case at == 0:
		return l.order[0]
	case at == len(l.order):
		return l.order[at-1]
	}
	above, below := l.order[at-1], l.order[at]
	// As unsigned numbers, so that no difference overflows.
	if uint64(l.all[above].priority)-uint64(priority) < uint64(priority)-uint64(l.all[below].priority) {
		return above
	}
	return below
}
