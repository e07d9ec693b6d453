// SPDX-License-Identifier: Apache-2.0

package swarm

import (
	"fmt"
	"slices"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/ledger"
	"github.com/headgate/headgate/internal/sim/measure"
)

// counts holds the sums of seconds to the totals, and what was admitted to what
// was offered.
func (c cluster) counts(k *measure.Key) error {
	var offered, admitted int64
	for i, s := range k.Seconds {
		if s.Admitted > s.Offered {
			return fmt.Errorf("counts: second %d admitted %d of %d", i, s.Admitted, s.Offered)
		}
		if i >= warmup {
			offered, admitted = offered+s.Offered, admitted+s.Admitted
		}
	}
	if offered != k.Offered || admitted != k.Admitted {
		return fmt.Errorf("counts: seconds sum to %d of %d, the totals are %d of %d", admitted, offered, k.Admitted, k.Offered)
	}
	return nil
}

// agrees holds what each host was offered to what it admitted and refused, that to
// what its limiter counted, and what owners were told to both.
func (c cluster) agrees(k *measure.Key, hosts []ledger.Row) error {
	var all int64
	for _, s := range k.Seconds {
		all += s.Admitted
	}
	for i, h := range hosts {
		all -= h.Admitted
		switch {
		case h.Offered != h.Admitted+h.Refused+h.Lost:
			return fmt.Errorf("counts: host %d was offered %d, admitted %d, refused %d and lost %d", i, h.Offered, h.Admitted, h.Refused, h.Lost)
		case c.changed || quiet(h): // a limiter counts since it has its algorithm, and since its key was last idle
		case h.Admitted > h.Allowed || h.Refused > h.Rejected || h.Allowed+h.Rejected > h.Offered:
			return fmt.Errorf("counts: host %d admitted %d and refused %d of %d, its limiter counted %d and %d",
				i, h.Admitted, h.Refused, h.Offered, h.Allowed, h.Rejected)
		case h.AnsweredAllowed > h.Allowed || h.AnsweredAllowed+h.AnsweredRejected > h.Allowed+h.Rejected:
			// Under auto, what the owner admits is reported as refused by the host.
			return fmt.Errorf("counts: host %d counted %d and %d, and owners answered reports of %d and %d",
				i, h.Allowed, h.Rejected, h.AnsweredAllowed, h.AnsweredRejected)
		}
	}
	if all != 0 {
		return fmt.Errorf("counts: the cluster admitted %d more than its hosts", all)
	}
	return nil
}

// quiet reports whether a host was offered nothing for a while, so that its key may
// have been idle for an interval of 3 s. An idle key begins as a new key does.
func quiet(h ledger.Row) bool {
	const while = 2 // whole seconds
	n := 0
	for _, s := range h.Seconds {
		if n++; s.Offered > 0 {
			n = 0
		}
		if n == while {
			return true
		}
	}
	return false
}

// beyond is how many tokens hosts may hold beyond one bucket. A host fills at its
// old rate for one round trip after the owner has lent that rate to another.
func (c cluster) beyond() float64 {
	e := algorithm.Elastic{}.WithDefaults()
	limit := float64(c.most)
	if c.algorithm == "exact" && !c.changed {
		return limit * roundTrip // nothing is lent, but the answers are under way
	}
	each := 1
	if c.shape == "costs" {
		each = mostCost
	}
	return e.Overcommit*limit + float64(each*c.hosts) + limit*e.Horizon.Seconds() + limit*roundTrip
}

// isBounded reports whether c has a stated bound at all times.
func (c cluster) isBounded() bool {
	return slices.Contains(bounded, c.algorithm) && slices.Contains(bounded, c.final)
}

// bounded holds each 10 s to the bound: one bucket and what hosts may hold beyond
// it, and during faults a second limit, which hosts that are cut off have. Another
// algorithm has another bucket.
func (c cluster) bounded(k *measure.Key) error {
	if !c.isBounded() {
		return nil
	}
	least := float64(c.least)
	most := 100 * c.beyond() / (10 * least)
	if !c.calm() {
		most += 100 * float64(c.most) / least
	}
	if c.changed {
		most += 100 * 2 * float64(c.burst) / (10 * least)
	}
	if k.OverPct > most {
		return fmt.Errorf("bound: %.1f%% over in 10 s, at most %.1f%% may be", k.OverPct, most)
	}
	return nil
}

// settles holds what is admitted at the end to the limit and to what the perfect
// bucket admits.
func (c cluster) settles(k *measure.Key) error {
	if !slices.Contains(bounded, c.final) {
		return nil
	}
	var admitted, oracle float64
	for _, s := range k.Seconds[settledFrom:] {
		admitted, oracle = admitted+float64(s.Admitted), oracle+float64(s.Oracle)
	}
	most := float64(c.last)*(duration-settledFrom) + float64(c.burst) + c.beyond()
	if admitted > most {
		return fmt.Errorf("settles: %.0f admitted in the end, at most %.0f may be", admitted, most)
	}
	if c.final == "even" && c.uneven() {
		return nil // that is what it wastes
	}
	if least := 0.8*oracle - c.beyond(); admitted < least {
		return fmt.Errorf("settles: %.0f admitted in the end, at least %.0f should be", admitted, least)
	}
	return nil
}

// uneven reports whether some hosts are offered more than others.
func (c cluster) uneven() bool { return c.shape == "hot" || c.shape == "sticky" }

// feeds holds every host that was offered enough, once the cluster has settled, to a
// twentieth of it, or to a quarter of an even part of the limit if that is less.
func (c cluster) feeds(hosts []ledger.Row) error {
	if c.shape == "even" && (c.final == "exact" || c.final == "gossip" || c.final == "auto") {
		return nil // one bucket serves who comes first, and it is always the same host
	}
	even := float64(c.last*(duration-settledFrom)) / float64(len(hosts))
	for i, h := range hosts {
		var offered, admitted float64
		for _, s := range h.Seconds[settledFrom:] {
			offered, admitted = offered+float64(s.Offered), admitted+float64(s.Admitted)
		}
		least := min(0.05*offered, 0.25*even)
		if offered >= 0.1*even && admitted < least {
			return fmt.Errorf("starves: host %d had %.0f of %.0f in the end", i, admitted, offered)
		}
	}
	return nil
}
