// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// What may go wrong in mishaps, in the order of Action.Odds.
var mishapNames = [3]string{"spike", "lose", "elect"}

const (
	mishapSpike = iota
	mishapLose
	mishapElect
)

// election is how long it takes until another master has taken over from one
// that is there no more.
const election = time.Millisecond

// bump is a jump of a walk.
type bump struct {
	at      Time
	to, add float64 // events/s: to, if it is not 0; else add more
}

// bumped is a walk that jumps and goes on from there.
type bumped struct {
	Walk

	bumps []bump // in order of time
}

func (b bumped) segments(r *rand.Rand) segments {
	rate, step, bumps := b.Start, b.Every, b.bumps
	return func(from Time) (float64, Time) {
		for {
			switch {
			case len(bumps) > 0 && bumps[0].at <= from && bumps[0].at <= step:
				if rate += bumps[0].add; bumps[0].to > 0 {
					rate = bumps[0].to
				}
				bumps = bumps[1:]
			case step <= from:
				rate *= 1 + b.Step*(2*r.Float64()-1)
				step += b.Every
			case len(bumps) > 0:
				return rate, min(step, bumps[0].at)
			default:
				return rate, step
			}
		}
	}
}

// foresee works out what spikes and mishaps will do, before traffic begins.
func (c *cluster) foresee() {
	c.bumps = make(map[int][]bump)
	for i := range c.sc.Steps {
		a := &c.sc.Steps[i]
		r := chance(c.seed, "mishaps", i)
		switch a.Do {
		case "spike":
			for _, h := range a.Hosts.among(r, len(c.sc.Hosts), c.owner) {
				c.bumps[h] = append(c.bumps[h], bump{a.At, a.To, a.Add})
			}
		case "mishaps":
			for at := a.At; at < c.sc.Duration; at += a.Every {
				c.marks = append(c.marks, Mark{at, c.mishap(a, at, r)})
			}
		}
	}
	for _, bumps := range c.bumps {
		slices.SortStableFunc(bumps, func(a, b bump) int { return int(min(max(a.at-b.at, -1), 1)) })
	}
}

// mishap draws what goes wrong at a time, and says what.
func (c *cluster) mishap(a *Action, at Time, r *rand.Rand) string {
	which, host, owner := r.IntN(a.Odds[0]+a.Odds[1]+a.Odds[2]), r.IntN(len(c.sc.Hosts)), r.IntN(len(c.branches))
	away := a.Away.draw(r).Round(time.Second)
	if which < a.Odds[mishapSpike] {
		c.bumps[host] = append(c.bumps[host], bump{at, 0, a.Add})
		return fmt.Sprintf("%s wants %g/s more", c.hosts[host].name, a.Add)
	}
	do := "crash"
	if which >= a.Odds[mishapSpike]+a.Odds[mishapLose] {
		do, away = "restart", election
	}
	of := &c.branches[owner]
	first, n := of.Owners[0], of.Owners[1]-of.Owners[0]
	if n == 0 {
		first, n = of.Hosts[0], of.Hosts[1]-of.Hosts[0]
	}
	h := first + r.IntN(n)
	c.later(at, todo{action: &Action{Do: do, For: max(away, election)}, hosts: []int{h}})
	if do == "restart" {
		return fmt.Sprintf("%s of %s is replaced", c.hosts[h].name, of.Name)
	}
	return fmt.Sprintf("%s of %s is away for %s", c.hosts[h].name, of.Name, away)
}

// rateAt is s's rate at a host, with what bumps it there.
func (c *cluster) rateAt(s *Source, host int) Rate {
	if w, ok := s.Rate.(Walk); ok && len(c.bumps[host]) > 0 {
		return bumped{w, c.bumps[host]}
	}
	return s.Rate
}
