// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"fmt"
	"slices"
)

// With returns a ring that has hosts too. Only keys that go to the new hosts
// change their owner. Its errors are those of New, also for an address that is on
// the ring already.
func (r *Ring) With(hosts ...Host) (*Ring, error) { return r.replace(slices.Concat(r.hosts, hosts)) }

// Without returns a ring that lacks the hosts with those addresses. Only
// their keys change their owner. Addresses that are not on the ring are
// ignored; when none is, the ring itself is returned.
func (r *Ring) Without(addresses ...string) *Ring {
	gone := func(h Host) bool { return slices.Contains(addresses, h.Address) }
	without, _ := r.replace(slices.DeleteFunc(r.Hosts(), gone)) // some of its hosts are a ring too
	return without
}

// Replace returns a ring of exactly these hosts, with as many points for
// each as r has. It keeps the points of hosts that stay, and returns r itself
// when all stay and none is new. Its errors are those of New.
func (r *Ring) Replace(hosts []Host) (*Ring, error) { return r.replace(slices.Clone(hosts)) }

// replace is Replace by hosts, which become the ring's.
//
// Hosts are numbered anew in the order of their addresses. That keeps the order
// of the old ones, and so of their points: those are copied, never hashed or
// sorted again.
func (r *Ring) replace(hosts []Host) (*Ring, error) {
	switch err := canonical(hosts); {
	case err != nil:
		return nil, err
	case slices.Equal(hosts, r.hosts):
		return r, nil
	case len(hosts) > MaxTotalPoints/r.Points():
		return nil, fmt.Errorf("ringpop: %d hosts of %d points are more than %d points: give each host fewer points", len(hosts), r.Points(), MaxTotalPoints)
	}
	place := slices.Repeat([]int{left}, len(r.hosts)) // by old position: the new one
	var news []int                                    // new positions of hosts that r has not, or with another identity or labels
	old := 0
	for i, h := range hosts {
		for old < len(r.hosts) && r.hosts[old].Address < h.Address {
			old++
		}
		if old < len(r.hosts) && r.hosts[old] == h {
			place[old] = i
			old++
		} else {
			news = append(news, i)
		}
	}
	fresh := pointsOf(hosts, news, r.Points())
	circle := mergePoints(r.circle, place, fresh, len(hosts)*r.Points())
	return &Ring{perHost: r.perHost, hosts: hosts, circle: circle, index: newJumpTable(circle)}, nil
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
