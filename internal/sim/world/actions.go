// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// todo is an action to carry out, or to end.
type todo struct {
	action *scenario.Action
	hosts  []int // nil: the action says
	undo   bool
	cut    int // which partition to end
}

// script is what is to happen.
type script struct {
	todo   []todo // by ref of action events
	picks  *rand.Rand
	bumps  map[int][]traffic.Bump // by host
	cutIDs int
}

// later puts an action into the queue.
func (c *cluster) later(at traffic.Time, t todo) {
	c.todo = append(c.todo, t)
	c.Queue.Push(at, action, 0, int32(len(c.todo)-1))
}

// act carries out an action, or a part of one.
func (c *cluster) act(t todo) error {
	a := t.action
	switch a.Do {
	case "", "spike", "mishaps":
		return nil // only a mark, or worked out before the start
	case "heal":
		c.Wire.Heal()
		c.NoticeSplits()
		return nil
	case "limit", "algorithm", "override":
		return c.changeRules(a, t)
	case "autoscale":
		if t.undo { // not the first time
			if err := c.autoscale(a); err != nil {
				return err
			}
		}
		c.later(c.Now+a.Every, todo{action: a, undo: true})
		return nil
	}
	if t.hosts == nil {
		t.hosts = slices.Clone(a.Hosts.Among(c.picks, len(c.sc.Hosts), c.Owner))
		if a.Every > 0 { // one after the other
			for i, h := range t.hosts {
				c.later(c.Now+time.Duration(i)*a.Every, todo{action: a, hosts: []int{h}})
			}
			return nil
		}
	}
	if a.Do == "partition" {
		c.partition(a, t)
		return nil
	}
	for _, n := range t.hosts {
		if err := c.do(a, c.hosts[n], t.undo); err != nil {
			return err
		}
	}
	if a.For > 0 && !t.undo {
		t.undo = true
		c.later(c.Now+a.For, t)
	}
	return nil
}

// do carries out an action at one host, or ends it.
func (c *cluster) do(a *scenario.Action, h *host, undo bool) error {
	switch a.Do {
	case "crash":
		if undo {
			return c.start(h)
		}
		c.stop(h)
		c.Announce(h.Number, false, c.sc.Membership.Detect)
	case "restart", "leave":
		if undo {
			return c.start(h)
		}
		if err := c.HandOver(h.Host); err != nil {
			return err
		}
		c.stop(h)
		c.Announce(h.Number, false, 0)
	case "join":
		return c.start(h)
	case "drain":
		if undo {
			h.away--
		} else {
			h.away++
		}
	case "pause":
		return c.pause(a, h, undo)
	case "slow":
		if undo {
			h.Slow -= a.By
		} else {
			h.Slow += a.By
		}
	case "clock_step":
		h.wall += a.By // nothing reads it: that is the point
	}
	return nil
}

// pause holds a host, or lets go of it.
func (c *cluster) pause(a *scenario.Action, h *host, undo bool) error {
	step := 1
	if undo {
		step = -1
	}
	h.pauses += step
	if a.Elsewhere {
		h.away += step
	}
	if h.pauses == 0 && h.Up {
		return c.resume(h)
	}
	return nil
}

// autoscale starts as many of the action's hosts as the load since the last look
// needs, or stops one that it does not need.
func (c *cluster) autoscale(a *scenario.Action) error {
	offered, up := int64(0), 0
	for _, h := range c.hosts {
		if offered += h.offered; h.Up && h.Limits {
			up++
		}
		h.offered = 0
	}
	some := a.Hosts.Among(c.picks, len(c.sc.Hosts), c.Owner)
	want := int(math.Ceil(float64(offered) / a.Every.Seconds() / a.Target))
	for _, n := range some {
		if h := c.hosts[n]; up < want && !h.Up {
			up++
			if err := c.start(h); err != nil {
				return err
			}
		}
	}
	if up <= want {
		return nil
	}
	for _, n := range slices.Backward(some) {
		if h := c.hosts[n]; h.Up {
			if err := c.HandOver(h.Host); err != nil {
				return err
			}
			c.stop(h)
			c.Announce(h.Number, false, 0)
			return nil
		}
	}
	return nil
}

// partition cuts hosts off from others, or ends that.
func (c *cluster) partition(a *scenario.Action, t todo) {
	defer c.NoticeSplits()
	if t.undo {
		c.Wire.Mend(t.cut)
		return
	}
	inside := make([]bool, len(c.hosts))
	for _, h := range t.hosts {
		inside[h] = true
	}
	outside := make([]bool, len(c.hosts))
	if a.From.Empty() {
		for h := range outside {
			outside[h] = !inside[h]
		}
	}
	for _, h := range a.From.Among(c.picks, len(c.sc.Hosts), c.Owner) {
		outside[h] = !inside[h]
	}
	c.cutIDs++
	t.cut = c.cutIDs
	if a.Direction != "in" {
		c.Wire.Cut(t.cut, inside, outside)
	}
	if a.Direction != "out" {
		c.Wire.Cut(t.cut, outside, inside)
	}
	if a.For > 0 {
		t.undo = true
		c.later(c.Now+a.For, t)
	}
}
