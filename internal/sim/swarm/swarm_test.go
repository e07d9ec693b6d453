// SPDX-License-Identifier: Apache-2.0

package swarm

import (
	"errors"
	"flag"
	"fmt"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/world"
	"github.com/headgate/headgate/internal/testrun"
)

// clusters is how many to run; 0: as many as the form of the run has time for.
var clusters = flag.Int("clusters", 0, "how many random clusters to run")

func TestSwarmKeepsTheLaws(t *testing.T) {
	n := *clusters
	switch {
	case n > 0:
	case testing.Short():
		n = 10
	case testrun.Long():
		n = 400
	default:
		n = 40
	}
	flags := map[string]string{"rapid.checks": strconv.Itoa(n), "rapid.nofailfile": "true"}
	if flag.Lookup("rapid.seed").Value.String() == "0" {
		flags["rapid.seed"] = "1" // the same clusters in every run
	}
	for name, value := range flags {
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(t)
		if err := c.run(); err != nil {
			t.Fatalf("%v\nseed %d of this scenario:\n%v", err, c.seed, c)
		}
	})
}

// run runs c and returns the laws that it breaks.
func (c cluster) run() error {
	sc, err := scenario.Parse("swarm", []byte(c.String()), nil)
	if err != nil {
		return err
	}
	r, err := world.Run(sc, "", c.seed)
	if err != nil {
		return err
	}
	k := r.Whole()
	return errors.Join(c.counts(k), c.bounded(k), c.settles(k), c.feeds(k))
}

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

// beyond is how many tokens hosts may hold beyond one bucket. A host fills at its
// old rate for one round trip after the owner has lent that rate to another.
func (c cluster) beyond() float64 {
	e := algorithm.Elastic{}.WithDefaults()
	limit := float64(max(c.limit, c.last))
	if c.algorithm == "exact" {
		return limit * roundTrip // nothing is lent, but the answers are under way
	}
	return e.Overcommit*limit + float64(c.hosts) + limit*e.Horizon.Seconds() + limit*roundTrip
}

// bounded holds each 10 s to the bound: one bucket and what hosts may hold beyond
// it, and during faults a second limit, which hosts that are cut off have.
func (c cluster) bounded(k *measure.Key) error {
	least := float64(min(c.limit, c.last))
	most := 100 * c.beyond() / (10 * least)
	if !c.calm() {
		most += 100 * float64(max(c.limit, c.last)) / least
	}
	if k.OverPct > most {
		return fmt.Errorf("bound: %.1f%% over in 10 s, at most %.1f%% may be", k.OverPct, most)
	}
	return nil
}

// settles holds what is admitted at the end to the limit and to what the perfect
// bucket admits.
func (c cluster) settles(k *measure.Key) error {
	var admitted, oracle float64
	for _, s := range k.Seconds[settledFrom:] {
		admitted, oracle = admitted+float64(s.Admitted), oracle+float64(s.Oracle)
	}
	most := float64(c.last)*(duration-settledFrom) + float64(c.burst) + c.beyond()
	if admitted > most {
		return fmt.Errorf("settles: %.0f admitted in the end, at most %.0f may be", admitted, most)
	}
	if least := 0.8*oracle - c.beyond(); admitted < least {
		return fmt.Errorf("settles: %.0f admitted in the end, at least %.0f should be", admitted, least)
	}
	return nil
}

// feeds holds every host that was offered enough to a twentieth of it. The load
// is at most three limits, and a limit falls to a fifth at most.
func (c cluster) feeds(k *measure.Key) error {
	if k.LeastPct < 5 {
		return fmt.Errorf("starves: a host had %.1f%% of what it was offered", k.LeastPct)
	}
	return nil
}
