// SPDX-License-Identifier: Apache-2.0

package ringpop

import (
	"fmt"
	"slices"
)

// DefaultPoints is how many points a host has by default.
const DefaultPoints = 100

// MaxPoints is the most points that one host may have.
const MaxPoints = 10_000

// MaxTotalPoints is the most points that all hosts of a ring may have
// together: 167,772 hosts of 100 points, in about 200 MB.
const MaxTotalPoints = 1 << 24

// Ring says which host owns a key. It never changes: With, Without and
// Replace return another ring. So it is safe for concurrent use, without
// locks. The zero Ring has no hosts, and DefaultPoints for those to come.
//
// Every process that builds a ring from the same hosts and points gets the
// same owners, in whatever order it lists them.
type Ring struct {
	perHost int       // points of each host; 0 means DefaultPoints
	hosts   []Host    // sorted by address
	circle  []point   // sorted
	index   jumpTable // where in circle a hash belongs
}

// New returns the ring of hosts, with so many points for each, in
// [1, MaxPoints]; 0 means DefaultPoints. More points spread keys more evenly
// and cost memory (12 to 16 bytes each) and time to build. It is an error to
// list an address twice or a host without one.
func New(hosts []Host, points int) (*Ring, error) {
	if points < 0 || points > MaxPoints {
		return nil, fmt.Errorf("ringpop: %d points per host: choose 1 to %d, or 0 for the default of %d", points, MaxPoints, DefaultPoints)
	}
	empty := &Ring{perHost: points}
	return empty.Replace(hosts)
}

// Owner returns the address of the host that owns key, or "" when the ring
// has no hosts. It does not allocate.
func (r *Ring) Owner(key string) string {
	if len(r.circle) == 0 {
		return ""
	}
	return r.hosts[r.circle[r.find(key)].host()].Address
}

// Hosts returns a copy of the ring's hosts, sorted by address. An Identity
// that only repeats its Address comes back as "".
func (r *Ring) Hosts() []Host { return slices.Clone(r.hosts) }

// Len is the number of hosts.
func (r *Ring) Len() int { return len(r.hosts) }

// Has reports whether a host with that address is on the ring.
func (r *Ring) Has(address string) bool {
	_, ok := slices.BinarySearchFunc(r.hosts, Host{Address: address}, byAddress)
	return ok
}

// Points is how many points each host has.
func (r *Ring) Points() int {
	if r.perHost == 0 {
		return DefaultPoints
	}
	return r.perHost
}

// Shares returns the part of all keys that each host owns, by address; in (0, 1] with
// a sum of 1, and empty without hosts.
func (r *Ring) Shares() map[string]float64 {
	shares := make(map[string]float64, len(r.hosts))
	for i, p := range r.circle {
		before := r.circle[len(r.circle)-1].hash() // around the end
		if i > 0 {
			before = r.circle[i-1].hash()
		}
		stretch := float64(p.hash() - before)
		if len(r.circle) == 1 {
			stretch = 1 << 32
		}
		shares[r.hosts[p.host()].Address] += stretch / (1 << 32)
	}
	return shares
}

// find returns the first point at or after key's hash, around the end if
// need be. The circle must have points.
func (r *Ring) find(key string) int {
	i := r.index.search(r.circle, fingerprint(key))
	if i == len(r.circle) {
		return 0
	}
	return i
}
