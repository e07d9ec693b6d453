// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/internal/sim/ledger"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/ringpop"
)

// members is who is in the cluster, as far as that is known anywhere. Each
// Change makes a version, which reaches each host after a delay of its own.
type members struct {
	present  []bool // by host
	ring     *ringpop.Ring
	limiting int // how many of those present limit
	version  int32
	versions []membersVersion
}

// membersVersion is kept until all hosts have seen it.
type membersVersion struct {
	ring     *ringpop.Ring
	limiting int
	unseen   int
}

// Announce lets the cluster know after a time that a host is there or not.
func (f *Fleet) Announce(host int, there bool, after traffic.Time) {
	ref := int32(0)
	if there {
		ref = 1
	}
	f.Queue.Push(f.Now+after, version, int32(host), ref)
}

// Change is a version event.
func (f *Fleet) change(host int, there bool) error {
	m := &f.branches[f.Hosts[host].branch].members
	// A crashed host may be back before anyone has noticed.
	if m.present[host] == there || f.Hosts[host].Up != there {
		return nil
	}
	m.present[host] = there
	h, sign := f.Hosts[host], 1
	if !there {
		sign = -1
	}
	if h.Limits {
		m.limiting += sign
	}
	if h.decides {
		var err error
		if there {
			m.ring, err = m.ring.With(ringpop.Host{Address: h.Name})
		} else {
			m.ring = m.ring.Without(h.Name)
		}
		if err != nil {
			return fmt.Errorf("%s joins: %w", h.Name, err)
		}
	}
	f.spread(f.Hosts[host].branch)
	return nil
}

// spread makes a version out of who is there, and sends it on its way.
func (f *Fleet) spread(branch int) {
	m := &f.branches[branch].members
	m.version++
	v := membersVersion{ring: m.ring, limiting: m.limiting}
	for _, h := range f.Hosts {
		if h.branch != branch {
			continue
		}
		delay := f.Delay(h)
		if h.Up {
			v.unseen++
			f.Queue.Push(f.Now+delay, view, int32(h.Number), m.version)
		}
	}
	m.versions = append(m.versions, v)
}

// seen counts that one more view of a version is no longer under way.
func (m *members) seen(version int32) membersVersion {
	v := &m.versions[version-1]
	seen := *v
	if v.unseen--; v.unseen == 0 {
		v.ring = nil
	}
	return seen
}

// see makes a host follow a version, unless it knows a newer one.
func (f *Fleet) see(h *Host, version int32) {
	v := f.branches[h.branch].members.seen(version)
	if version <= h.version {
		return
	}
	h.version, h.known = version, v
	f.follows(h)
}

// look is a noticed event: h sees whom partitions keep it from reaching now.
func (f *Fleet) look(h *Host) {
	h.unreached = make([]bool, len(f.Hosts))
	for _, other := range f.Hosts {
		h.unreached[other.Number] = other.branch == h.branch && (f.Wire.IsCut(h.Number, other.Number) || f.Wire.IsCut(other.Number, h.Number))
	}
	f.follows(h)
}

// follows brings h under what it knows of the members.
func (f *Fleet) follows(h *Host) {
	missing := f.missing(h)
	if h.aggregator != nil {
		h.aggregator.Split(f.Now-h.born, h.ring.Len(), missing)
		h.aggregator.Moved(f.Now - h.born)
		h.aggregator.Parent().Moved(func(key string) bool { return h.ring.Owner(key) == h.Name })
		f.movesBuckets(h)
	}
	if h.group != nil {
		if h.mesh != nil {
			h.mesh.SetPeers(f.limiting(h.branch))
		}
		limiting := h.known.limiting
		for number, gone := range h.unreached {
			if gone && missing == 0 && f.Hosts[number].Limits {
				limiting--
			}
		}
		driver.Of(h.group).SetHosts(h.Local(f.Now), limiting)
		driver.Of(h.group).Introduce(h.Local(f.Now))
		f.plan(h)
	}
}

// missing makes h's ring of the members that it knows and reaches, and returns how many
// deciders may be on the larger side of a split, as package roster has it.
func (f *Fleet) missing(h *Host) int {
	h.ring = h.known.ring
	lost := 0
	for number, gone := range h.unreached {
		if name := f.Hosts[number].Name; gone && h.ring.Has(name) {
			h.ring = h.ring.Without(name)
			lost++
		}
	}
	switch {
	case lost <= max(h.ring.Len(), 1):
		return 0
	case h.ring.Len() == 0: // it owns no keys itself
		h.ring = h.known.ring
		return 0
	}
	return lost
}

// Found is the first version: everyone who is there from the start knows
// everyone else. keys are all that have traffic.
func (f *Fleet) Found(keys []string, books *ledger.Books) error {
	f.keys, f.books = keys, books
	for i := range f.branches {
		if err := f.first(i); err != nil {
			return err
		}
	}
	for _, h := range f.Hosts {
		if f.branches[h.branch].members.present[h.Number] {
			if err := f.Start(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// first is the first version of a branch.
func (f *Fleet) first(branch int) error {
	m := &f.branches[branch].members
	m.present = make([]bool, len(f.Hosts))
	var list []ringpop.Host
	for _, h := range f.Hosts {
		if h.branch != branch {
			continue
		}
		if h.Limits && slices.Contains(f.sc.Absent, h.Number) {
			continue
		}
		m.present[h.Number] = true
		if h.Limits {
			m.limiting++
		}
		if h.decides {
			list = append(list, ringpop.Host{Address: h.Name})
		}
	}
	var err error
	m.ring, err = ringpop.New(list, 0)
	return err
}

// Owner is the number of the host that owns key now; -1 for none. Of a tree it
// is the root's.
func (f *Fleet) Owner(key string) int {
	if rule, ok := f.configs[len(f.configs)-1].Match(key); ok {
		key = rule.BucketKey(key)
	}
	if n, ok := f.ByName[f.branches[0].members.ring.Owner(key)]; ok {
		return n
	}
	return -1
}
