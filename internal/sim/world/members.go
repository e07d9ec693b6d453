// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/limiter/driver"
	"github.com/headgate/headgate/ringpop"
)

// members is who is in the cluster, as far as that is known anywhere. Each
// change makes a version, which reaches each host after a delay of its own.
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

// announce lets the cluster know after a time that a host is there or not.
func (c *cluster) announce(host int, there bool, after traffic.Time) {
	ref := int32(0)
	if there {
		ref = 1
	}
	c.queue.push(c.now+after, version, int32(host), ref)
}

// change is a version event.
func (c *cluster) change(host int, there bool) error {
	m := &c.branches[c.hosts[host].branch].members
	// A crashed host may be back before anyone has noticed.
	if m.present[host] == there || c.hosts[host].up != there {
		return nil
	}
	m.present[host] = there
	h, sign := c.hosts[host], 1
	if !there {
		sign = -1
	}
	if h.limits {
		m.limiting += sign
	}
	if h.decides {
		var err error
		if there {
			m.ring, err = m.ring.With(ringpop.Host{Address: h.name})
		} else {
			m.ring = m.ring.Without(h.name)
		}
		if err != nil {
			return fmt.Errorf("%s joins: %w", h.name, err)
		}
	}
	c.spread(c.hosts[host].branch)
	return nil
}

// spread makes a version out of who is there, and sends it on its way.
func (c *cluster) spread(branch int) {
	m := &c.branches[branch].members
	m.version++
	v := membersVersion{ring: m.ring, limiting: m.limiting}
	for _, h := range c.hosts {
		if h.branch != branch {
			continue
		}
		delay := c.sc.Membership.Delay.Draw(c.news[h.number])
		if h.up {
			v.unseen++
			c.queue.push(c.now+delay, view, int32(h.number), m.version)
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
func (c *cluster) see(h *host, version int32) {
	v := c.branches[h.branch].members.seen(version)
	if version <= h.version {
		return
	}
	h.version, h.known = version, v
	c.follows(h)
}

// look is a noticed event: h sees whom partitions keep it from reaching now.
func (c *cluster) look(h *host) {
	h.unreached = make([]bool, len(c.hosts))
	for _, other := range c.hosts {
		h.unreached[other.number] = other.branch == h.branch && (c.isCut(h.number, other.number) || c.isCut(other.number, h.number))
	}
	c.follows(h)
}

// follows brings h under what it knows of the members.
func (c *cluster) follows(h *host) {
	missing := c.missing(h)
	if h.aggregator != nil {
		h.aggregator.Split(h.ring.Len(), missing)
		h.aggregator.Moved(c.now - h.born)
		h.aggregator.Parent().Moved(func(key string) bool { return h.ring.Owner(key) == h.name })
		c.movesBuckets(h)
	}
	if h.group != nil {
		if h.mesh != nil {
			h.mesh.SetPeers(c.limiting(h.branch))
		}
		limiting := h.known.limiting
		for number, gone := range h.unreached {
			if gone && missing == 0 && c.hosts[number].limits {
				limiting--
			}
		}
		driver.Of(h.group).SetHosts(h.local(c.now), limiting)
		driver.Of(h.group).Introduce(h.local(c.now))
		c.plan(h)
	}
}

// missing makes h's ring of the members that it knows and reaches, and returns how many
// deciders may be on the larger side of a split, as package roster has it.
func (c *cluster) missing(h *host) int {
	h.ring = h.known.ring
	lost := 0
	for number, gone := range h.unreached {
		if name := c.hosts[number].name; gone && h.ring.Has(name) {
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

// found is the first version: everyone who is there from the start knows
// everyone else.
func (c *cluster) found() error {
	for i := range c.branches {
		if err := c.first(i); err != nil {
			return err
		}
	}
	for _, h := range c.hosts {
		if c.branches[h.branch].members.present[h.number] {
			if err := c.start(h); err != nil {
				return err
			}
		}
	}
	return nil
}

// first is the first version of a branch.
func (c *cluster) first(branch int) error {
	m := &c.branches[branch].members
	m.present = make([]bool, len(c.hosts))
	var list []ringpop.Host
	for _, h := range c.hosts {
		if h.branch != branch {
			continue
		}
		if h.limits && slices.Contains(c.sc.Absent, h.number) {
			continue
		}
		m.present[h.number] = true
		if h.limits {
			m.limiting++
		}
		if h.decides {
			list = append(list, ringpop.Host{Address: h.name})
		}
	}
	var err error
	m.ring, err = ringpop.New(list, 0)
	return err
}

// owner is the number of the host that owns key now; -1 for none. Of a tree it
// is the root's.
func (c *cluster) owner(key string) int {
	if rule, ok := c.configs[len(c.configs)-1].Match(key); ok {
		key = rule.BucketKey(key)
	}
	if n, ok := c.byName[c.branches[0].members.ring.Owner(key)]; ok {
		return n
	}
	return -1
}
