// SPDX-License-Identifier: Apache-2.0

package world

import (
	"math"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/sim/traffic"
	"github.com/headgate/headgate/internal/testrun"
)

// ceiling is about the utilisation of doorman-3 that is possible without
// admitting more than the limit or knowing more than hosts can: while the owner
// is away, each goes on with its part by the demand of that moment, and when its
// lease has ended, with the even share. Everything else is perfect. A burst that
// was saved up can beat it by a little.
func ceiling(sc *scenario.Scenario, seed uint64) float64 {
	const (
		limit      = 500.0
		hosts      = 5
		warmup     = 60 * time.Second
		gone, back = 120 * time.Second, 190 * time.Second
		leasesEnd  = 180 * time.Second
		step       = 10 * time.Second // how often demand moves
	)
	var demand, parts [hosts]float64
	rates := make([]traffic.Segments, hosts)
	for h := range rates {
		c := traffic.Chance(seed, "stream", h)
		c.Float64() // when the first event comes
		rates[h] = sc.Sources[0].Rate.Segments(c)
	}
	perfect, possible := 0.0, 0.0
	for at := traffic.Time(0); at < sc.Duration; at += step {
		sum, alone := 0.0, 0.0
		for h := range rates {
			demand[h], _ = rates[h](at)
			sum += demand[h]
		}
		for h, d := range demand {
			switch {
			case at < gone:
				parts[h] = d // the last before it is gone stays
			case at < leasesEnd:
				alone += math.Min(d, parts[h])
			default:
				alone += math.Min(d, limit/hosts)
			}
		}
		if at+step == gone {
			for h := range parts {
				parts[h] *= limit / sum
			}
		}
		together := math.Min(sum, limit)
		if at < warmup {
			continue
		}
		perfect += together
		if at >= gone && at < back {
			together = alone
		}
		possible += together
	}
	return possible / perfect * 100
}

// The goal for doorman-3 is out of reach with some seeds.
func TestWithoutAnOwnerLittleMoreIsPossible(t *testing.T) {
	testrun.NotUnderRace(t, "TestSweepKeepsTheOrderAndEndsEarly sweeps under it")
	const lacks, goal = 0.4, 99.0
	sc := load(t, "doorman-3")
	var jobs []Job
	for _, seed := range seedsOf(sc, []uint64{19, 17, 5}) { // with 19 the goal is out of reach
		jobs = append(jobs, Job{sc, Options{Algorithm: algorithm.NameElastic, Seed: seed}})
	}
	results, err := Sweep(t.Context(), jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	lowest := math.Inf(1)
	for _, r := range results {
		most := ceiling(sc, r.Seed)
		lowest = math.Min(lowest, most)
		t.Logf("seed %d: %.2f of %.2f", r.Seed, r.Whole().UtilisationPct, most)
		if got := r.Whole().UtilisationPct; got < most-lacks {
			t.Errorf("seed %d: utilisation is %.2f, %.2f is possible", r.Seed, got, most)
		}
	}
	if lowest >= goal {
		t.Errorf("%.2f is possible with all seeds: hold doorman-3 to its goal", lowest)
	}
}
