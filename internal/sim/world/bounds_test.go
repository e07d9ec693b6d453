// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

// A bound says how close elastic must come in the worst of all seeds.
type bound struct {
	scenario string
	metric   metric
	goal     float64 // what was set out to be reached
	// held is what the worst seed is held to, where it does not reach the goal,
	// and typical what the median is held to then; 0 is the goal itself.
	// docs/accuracy.md, "What is not reached", says what is in the way.
	held, typical float64
}

// A metric is one of the figures, and which direction is good.
type metric struct {
	name  string
	least bool // the bound is the least allowed; else the most
	of    func(*measure.Key) float64
}

var (
	utilisation = metric{"utilisation_pct", true, func(k *measure.Key) float64 { return k.UtilisationPct }}
	excess      = metric{"utilisation_pct", false, func(k *measure.Key) float64 { return k.UtilisationPct }}
	falseReject = metric{"false_reject_pct", false, func(k *measure.Key) float64 { return k.FalseRejectPct }}
	over        = metric{"over_pct", false, func(k *measure.Key) float64 { return k.OverPct }}
	overLater   = metric{"over_later_pct", false, func(k *measure.Key) float64 { return k.OverLaterPct }}
	settling    = metric{"settle_s", false, func(k *measure.Key) float64 { return k.SettleS }}
	reports     = metric{"reports_per_host_s", false, func(k *measure.Key) float64 { return k.ReportsPerHostS }}
)

const (
	// oneAndAHalf times the reports of a fixed interval of 3 s.
	oneAndAHalf = 1.5 / 3
	// twoIntervals of 3 s.
	twoIntervals = 6
)

var bounds = []bound{
	{"steady-skew", utilisation, 99, 0, 0},
	{"steady-skew", excess, 101, 0, 0},
	{"steady-skew", reports, oneAndAHalf, 0, 0},
	{"moving-hotspot", settling, 1, 2, 1},
	{"cron", falseReject, 0.3, 0, 0},
	{"cron", over, 5, 0, 0},
	{"burst-on-few", falseReject, 0.5, 0, 0},
	{"burst-on-few", over, 5, 0, 0},
	{"near-zero-traffic", falseReject, 0.1, 0, 0},
	{"near-zero-traffic", over, 5, 0, 0},
	{"burst-to-the-brim", falseReject, 3, 0, 0},
	{"burst-to-the-brim", over, 5, 0, 0},
	{"flash-crowd", over, 8, 0, 0},
	{"flash-crowd", overLater, 1, 0, 0},
	{"rolling-restart", utilisation, 97, 0, 0},
	{"rolling-restart", over, 5, 0, 0},
	{"owner-crash", utilisation, 97, 0, 0},
	{"owner-crash", over, 5, 0, 0},
	{"ring-join", utilisation, 97, 0, 0},
	{"ring-join", over, 5, 0, 0},
	{"partition", over, cutOff, 0, 0},
	{"partition", overLater, cutOff, 0, 0},
	{"partition", settling, twoIntervals, 0, 0},
	{"noticed-partition", over, cutOffNoticed, 0, 0},
	{"doorman-1", utilisation, 99.5, 0, 0},
	{"doorman-2", utilisation, 99.5, 0, 0},
	{"doorman-3", utilisation, 99, 98.4, 99.5}, // worst: 98.5%
	{"thousand-hosts", utilisation, 99, 0, 0},
	{"thousand-hosts", excess, 101, 0, 0},
	{"thousand-hosts", reports, oneAndAHalf, 0, 0},
}

// In the scenario partition the owner is one of the three hosts that are cut off
// from the other seven, so it is the seven that lose it. The three want
// wantedByThree of the limit and can have all of that; the seven hold heldBySeven
// of it, as that is their part of the demand, until their leases end, and from
// then on their even share.
const (
	wantedByThree = 0.9
	heldBySeven   = 0.5
	evenOfSeven   = 0.7
)

// beyondOneBucket is all that hosts may hold beyond one bucket, in percent of the limit over 10 s.
var beyondOneBucket = func() float64 {
	const limit, hosts = 1000.0, 10
	e := algorithm.Elastic{}.WithDefaults()
	beyond := e.Overcommit*limit + hosts + limit*e.Horizon.Seconds() // hosts that say what they want give no more back
	return beyond / (limit * 10) * 100
}()

// cutOff is what that comes to, in percent of the limit over 10 s.
var cutOff = (wantedByThree+math.Max(heldBySeven, evenOfSeven)-1)*100 + beyondOneBucket

// cutOffNoticed is what noticed-partition comes to: the three have their even part, and the seven, with
// owners of their own, what they want. In the 2 s before that, it is as if nobody noticed.
var cutOffNoticed = func() float64 {
	const evenOfThree, wantedBySeven, unnoticed = 0.3, 0.9, 0.2
	after := evenOfThree + wantedBySeven
	return (after-1+(wantedByThree+heldBySeven-after)*unnoticed)*100 + beyondOneBucket
}()

// bars are what the worst seed and the median are held to.
func (b bound) bars() (worst, median float64) {
	return cmp.Or(b.held, b.goal), cmp.Or(b.typical, b.held, b.goal)
}

// within reports whether v is on the good side of bar.
func (m metric) within(v, bar float64) bool {
	if m.least {
		return v >= bar
	}
	return v <= bar
}

// rank returns the figures of all results, the worst first.
func (m metric) rank(results []*measure.Result) []float64 {
	var figures []float64
	for _, r := range results {
		figures = append(figures, m.of(r.Whole()))
	}
	slices.Sort(figures) // NaN comes first
	if !m.least && !math.IsNaN(figures[0]) {
		slices.Reverse(figures)
	}
	return figures
}

// seedOf is a seed whose figure is v.
func (m metric) seedOf(results []*measure.Result, v float64) uint64 {
	for _, r := range results {
		if m.of(r.Whole()) == v {
			return r.Seed
		}
	}
	return 0
}

// sweepElastic runs the scenarios of bounds, with the seeds of each.
func sweepElastic(t *testing.T) map[string][]*measure.Result {
	t.Helper()
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	var jobs []Job
	loaded := make(map[string]bool)
	for _, b := range bounds {
		if loaded[b.scenario] {
			continue
		}
		loaded[b.scenario] = true
		sc := load(t, b.scenario)
		for _, seed := range seedsOf(sc, worstSeeds[b.scenario]) {
			jobs = append(jobs, Job{sc, Options{Algorithm: algorithm.NameElastic, Seed: seed}})
		}
	}
	results, err := Sweep(t.Context(), jobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	byScenario := make(map[string][]*measure.Result)
	for _, r := range results {
		byScenario[r.Scenario] = append(byScenario[r.Scenario], r)
	}
	return byScenario
}

// worstSeeds are the seeds of a scenario under elastic whose figures were the
// worst of all seeds, for each of its bounds. The long run logs which these are
// now.
var worstSeeds = map[string][]uint64{
	"steady-skew":       {5, 9, 12},
	"moving-hotspot":    {8, 15},
	"cron":              {1, 2},
	"burst-on-few":      {12, 20},
	"near-zero-traffic": {1, 2},
	"burst-to-the-brim": {9, 12},
	"flash-crowd":       {15, 19},
	"rolling-restart":   {4, 20},
	"owner-crash":       {3, 2},
	"ring-join":         {20, 19},
	"partition":         {16, 2},
	"noticed-partition": {3, 1},
	"doorman-1":         {13, 2},
	"doorman-2":         {19, 17},
	"doorman-3":         {19, 17},
	"thousand-hosts":    {5, 13},
}

// seedsOf are the seeds that are run: 20 in the long run, else one of the worst. Of a slow scenario, the long run has
// the worst ones and some others.
func seedsOf(sc *scenario.Scenario, worst []uint64) []uint64 {
	switch {
	case !testrun.Long():
		return worst[:1]
	case slices.Contains(slow, sc.Name):
		some := slices.Concat(worst, []uint64{1, 3, 4})
		slices.Sort(some)
		return slices.Compact(some)
	}
	all := make([]uint64, 20)
	for i := range all {
		all[i] = uint64(i) + 1
	}
	return all
}

func TestElasticKeepsItsBounds(t *testing.T) {
	results := sweepElastic(t)
	for _, b := range bounds {
		t.Run(fmt.Sprintf("%s/%s", b.scenario, b.metric.name), func(t *testing.T) {
			figures := b.metric.rank(results[b.scenario])
			n := len(figures)
			worst, median := figures[0], (figures[(n-1)/2]+figures[n/2])/2
			worstBar, medianBar := b.bars()
			if !b.metric.within(worst, worstBar) {
				t.Errorf("the worst seed has %.4f, held to %.4g", worst, worstBar)
			}
			if !testrun.Long() {
				return // the worst seed may be another one, and says nothing of what is usual
			}
			if b.held != 0 && b.metric.within(worst, b.goal) {
				t.Errorf("the worst seed has %.4f and so reaches the goal, %.4g: hold it to that", worst, b.goal)
			}
			if !b.metric.within(median, medianBar) {
				t.Errorf("the median is %.4f, held to %.4g", median, medianBar)
			}
			t.Logf("worst %.4f, of seed %d; median %.4f, goal %.4g", worst, b.metric.seedOf(results[b.scenario], worst), median, b.goal)
		})
	}
	t.Run("partition/after the lease", func(t *testing.T) { afterTheLease(t, results["partition"]) })
}

// afterTheLease holds what partition admits, once the hosts that are cut off
// have lost their leases, to what the others want and an even share of the limit.
func afterTheLease(t *testing.T, results []*measure.Result) {
	const heals, watched, chance = 120, 20, 0.03
	for _, r := range results {
		admitted := 0.0
		for _, s := range r.Whole().Seconds[heals-watched : heals] {
			admitted += float64(s.Admitted) / s.Limit / watched
		}
		if most := wantedByThree + evenOfSeven + chance; admitted > most {
			t.Errorf("seed %d: after the leases %.3f of the limit is used, at most %.3f may be", r.Seed, admitted, most)
		}
	}
}
