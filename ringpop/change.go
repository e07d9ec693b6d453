// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"fmt"
	"slices"
)

// With returns a ring that has hosts too. Only keys that go to the new hosts
// change their owner. Addresses that are on the ring already, or are listed
// twice or empty, are an error; Replace is for lists that overlap.
func (r *Ring) With(hosts ...Host) (*Ring, error) {
	added, err := canonical(hosts)
	if err != nil {
		return nil, err
	}
	for _, h := range added {
		if r.Has(h.Address) {
			return nil, fmt.Errorf("ringpop: host %q is on the ring already: use Replace to change its identity", h.Address)
		}
	}
	return r.change(nil, added)
}

// Without returns a ring that lacks the hosts with those addresses. Only
// their keys change their owner. Addresses that are not on the ring are
// ignored; when none is, the ring itself is returned.
func (r *Ring) Without(addresses ...string) *Ring {
	gone := make([]bool, len(r.hosts))
	some := false
	for _, a := range addresses {
		if i, ok := r.position(a); ok {
			gone[i], some = true, true
		}
	}
	if !some {
		return r
	}
	return r.rebuild(gone, nil)
}

// Replace returns a ring of exactly these hosts, with as many points for
// each as r has. It keeps the points of hosts that stay, and returns r itself
// when all stay and none is new. Its errors are those of New.
func (r *Ring) Replace(hosts []Host) (*Ring, error) {
	wanted, err := canonical(hosts)
	if err != nil {
		return nil, err
	}
	gone := make([]bool, len(r.hosts))
	var added []Host
	i := 0
	for _, h := range wanted {
		for i < len(r.hosts) && r.hosts[i].Address < h.Address {
			gone[i] = true
			i++
		}
		switch {
		case i == len(r.hosts) || r.hosts[i].Address != h.Address:
			added = append(added, h)
			continue
		case r.hosts[i] != h: // its identity, which moves keys, or its labels
			gone[i] = true
			added = append(added, h)
		}
		i++
	}
	for ; i < len(r.hosts); i++ {
		gone[i] = true
	}
	return r.change(gone, added)
}

// change is rebuild, for changes that may be none or too many.
func (r *Ring) change(gone []bool, added []Host) (*Ring, error) {
	if len(added) == 0 && !slices.Contains(gone, true) {
		return r, nil
	}
	stay := len(r.hosts)
	for _, g := range gone {
		if g {
			stay--
		}
	}
	if n := stay + len(added); n > MaxTotalPoints/r.Points() {
		return nil, fmt.Errorf("ringpop: %d hosts of %d points are more than %d points: give each host fewer points", n, r.Points(), MaxTotalPoints)
	}
	return r.rebuild(gone, added), nil
}

// rebuild returns the ring without the hosts that are gone, by position, and
// with those added, which are sorted. Hosts are numbered anew in the order
// of their addresses. That keeps the order of the old ones, and so of their
// points: those are copied, never hashed or sorted again.
func (r *Ring) rebuild(gone []bool, added []Host) *Ring {
	hosts := make([]Host, 0, len(r.hosts)+len(added))
	place := make([]int, len(r.hosts)) // by old position: the new one, or left
	news := make([]int, 0, len(added))
	rest := added
	take := func() {
		news = append(news, len(hosts))
		hosts = append(hosts, rest[0])
		rest = rest[1:]
	}
	for i, h := range r.hosts {
		if gone != nil && gone[i] {
			place[i] = left
			continue
		}
		for len(rest) > 0 && rest[0].Address < h.Address {
			take()
		}
		place[i] = len(hosts)
		hosts = append(hosts, h)
	}
	for len(rest) > 0 {
		take()
	}

	fresh := pointsOf(hosts, news, r.Points())
	circle := mergePoints(r.circle, place, fresh, len(hosts)*r.Points())
	return &Ring{perHost: r.perHost, hosts: hosts, circle: circle, index: newJumpTable(circle)}
}

// left is the new position of a host that has none.
const left = -1

// mergePoints returns n sorted points: those of old whose hosts have a place,
// under their new numbers, and those of fresh.
func mergePoints(old []point, place []int, fresh []point, n int) []point {
	if len(old) == 0 {
		return fresh
	}
	merged := make([]point, n)
	at := 0
	for _, p := range old {
		to := place[p.host()]
		if to == left {
			continue
		}
		p = makePoint(p.hash(), to)
		for len(fresh) > 0 && fresh[0] < p {
			merged[at] = fresh[0]
			fresh = fresh[1:]
			at++
		}
		merged[at] = p
		at++
	}
	copy(merged[at:], fresh)
	return merged
}
