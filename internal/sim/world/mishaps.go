// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
)

// election is how long it takes until another master has taken over from one
// that is there no more.
const election = time.Millisecond

// foresee works out what spikes and mishaps will do, before traffic begins.
func (c *cluster) foresee() {
	c.bumps = make(map[int][]traffic.Bump)
	for i := range c.sc.Steps {
		a := &c.sc.Steps[i]
		r := traffic.Chance(c.seed, "mishaps", i)
		switch a.Do {
		case "spike":
			for _, h := range a.Hosts.Among(r, len(c.sc.Hosts), c.Owner) {
				c.bumps[h] = append(c.bumps[h], traffic.Bump{At: a.At, To: a.To, Add: a.Add})
			}
		case "mishaps":
			for at := a.At; at < c.sc.Duration; at += a.Every {
				c.marks = append(c.marks, measure.Mark{At: at, Text: c.mishap(a, at, r)})
			}
		}
	}
	for _, bumps := range c.bumps {
		slices.SortStableFunc(bumps, func(a, b traffic.Bump) int { return int(min(max(a.At-b.At, -1), 1)) })
	}
}

// mishap draws what goes wrong at a time, and says what.
func (c *cluster) mishap(a *scenario.Action, at traffic.Time, r *rand.Rand) string {
	clusters := c.sc.EveryCluster()
	which, host, owner := r.IntN(a.Odds[0]+a.Odds[1]+a.Odds[2]), r.IntN(len(c.sc.Hosts)), r.IntN(len(clusters))
	away := a.Away.Draw(r).Round(time.Second)
	if which < a.Odds[scenario.MishapSpike] {
		c.bumps[host] = append(c.bumps[host], traffic.Bump{At: at, Add: a.Add})
		return fmt.Sprintf("%s wants %g/s more", c.hosts[host].Name, a.Add)
	}
	do := "crash"
	if which >= a.Odds[scenario.MishapSpike]+a.Odds[scenario.MishapLose] {
		do, away = "restart", election
	}
	of := &clusters[owner]
	first, n := of.Owners[0], of.Owners[1]-of.Owners[0]
	if n == 0 {
		first, n = of.Hosts[0], of.Hosts[1]-of.Hosts[0]
	}
	h := first + r.IntN(n)
	c.later(at, todo{action: &scenario.Action{Do: do, For: max(away, election)}, hosts: []int{h}})
	if do == "restart" {
		return fmt.Sprintf("%s of %s is replaced", c.hosts[h].Name, of.Name)
	}
	return fmt.Sprintf("%s of %s is away for %s", c.hosts[h].Name, of.Name, away)
}

// rateAt is s's rate at a host, with what bumps it there.
func (c *cluster) rateAt(s *scenario.Source, host int) traffic.Rate {
	if w, ok := s.Rate.(traffic.Walk); ok && len(c.bumps[host]) > 0 {
		return traffic.Bumped{Walk: w, Bumps: c.bumps[host]}
	}
	return s.Rate
}
