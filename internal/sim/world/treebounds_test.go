// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

// inTrees are the algorithms that trees are measured with. Without a decider
// (even), and where hosts are never below the even share (even floor), a host
// would need to know how many there are in the whole tree.
var inTrees = []string{algorithm.NameProportionalShare, algorithm.NameFairShare, algorithm.NameElastic}

// outcome is what a run of a tree came to.
type outcome struct {
	used    float64 // percent of what hosts wanted, or of the limit if that is less
	over    float64 // worst 5 s, percent above the limit; one bucket's burst counts too
	ahead   float64 // worst 5 s, percent above the limit, or above one bucket if that admits more
	beyond  float64 // over_pct: beyond one bucket
	settled float64 // seconds, worst of all mishaps; 0 without
}

// outcomeOf measures as Doorman's simulation does, but what was admitted and not
// what was promised.
func outcomeOf(r *measure.Result, warmup int) (o outcome) {
	k := r.Whole()
	var admitted, wanted float64
	for s := warmup; s < len(k.Seconds); s++ {
		second := k.Seconds[s]
		admitted += float64(second.Admitted)
		wanted += math.Min(float64(second.Offered), second.Limit)
		window, bucket := 0.0, 0.0
		for _, one := range k.Seconds[s-4 : s+1] {
			window += float64(one.Admitted)
			bucket += float64(one.Oracle)
		}
		o.over = math.Max(o.over, (window/(5*second.Limit)-1)*100)
		o.ahead = math.Max(o.ahead, (window/math.Max(5*second.Limit, bucket)-1)*100)
	}
	o.used, o.beyond = admitted/wanted*100, k.OverPct
	if !math.IsNaN(k.SettleS) {
		o.settled = k.SettleS
	}
	return o
}

// treeBound is what the worst of all seeds is held to.
type treeBound struct {
	scenario, algorithm string
	bar                 outcome
	late                float64  // what one of the seeds may take to settle, if that is more
	worst               []uint64 // the seeds that come closest to the bar, of all
}

// In doorman-4 one bucket has 7.8% over: demand swings about the limit, and the
// burst is there. docs/accuracy.md, "Trees", says why one seed is late.
var treeBounds = []treeBound{
	{"doorman-4", algorithm.NameProportionalShare, outcome{99.6, 9, 3, 0, 0}, 0, []uint64{7, 11, 18}},
	{"doorman-4", algorithm.NameFairShare, outcome{99.5, 9, 3, 0, 0}, 0, []uint64{4, 7, 18}},
	{"doorman-4", algorithm.NameElastic, outcome{99.9, 9, 3, 0, 0}, 0, []uint64{4, 10, 19}},
	{"doorman-5", algorithm.NameProportionalShare, outcome{99.5, 1, 1, 0, 0}, 0, []uint64{11, 13}},
	{"doorman-5", algorithm.NameFairShare, outcome{99.5, 1, 1, 0, 0}, 0, []uint64{2, 11}},
	{"doorman-5", algorithm.NameElastic, outcome{99.5, 1, 1, 0, 0}, 0, []uint64{5, 17}},
	{"doorman-6", algorithm.NameProportionalShare, outcome{99.5, 1, 1, 0, 1}, 0, []uint64{14, 17}},
	{"doorman-6", algorithm.NameFairShare, outcome{99.5, 1, 1, 0, 1}, 0, []uint64{8, 17}},
	{"doorman-6", algorithm.NameElastic, outcome{99.5, 1, 1, 0, 6}, 0, []uint64{5, 9, 15}},
	{"doorman-7", algorithm.NameProportionalShare, outcome{99.5, 1, 1, 0, 8}, 13, []uint64{2, 9}},
	{"doorman-7", algorithm.NameFairShare, outcome{99.5, 1, 1, 0, 8}, 13, []uint64{2, 9}},
	{"doorman-7", algorithm.NameElastic, outcome{99.5, 2, 2, 0, 8}, 0, []uint64{2, 6}},
}

func TestTreesKeepTheirBounds(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	for _, b := range treeBounds {
		sc := load(t, b.scenario)
		if testing.Short() && (sc.Duration > 10*time.Minute || b.algorithm != algorithm.NameProportionalShare) {
			continue
		}
		if b.scenario == "doorman-7" && !testrun.Long() {
			continue // an hour of ten million events
		}
		t.Run(fmt.Sprintf("%s/%s", b.scenario, b.algorithm), func(t *testing.T) {
			var jobs []Job
			for _, seed := range seedsOf(sc, b.worst) {
				jobs = append(jobs, Job{sc, Options{Algorithm: b.algorithm, Seed: seed}})
			}
			results, err := Sweep(t.Context(), jobs, nil)
			if err != nil {
				t.Fatal(err)
			}
			worst, late := outcome{used: math.Inf(1)}, 0.0
			for _, r := range results {
				o := outcomeOf(r, int(sc.Warmup.Seconds()))
				t.Logf("seed %d: %+v", r.Seed, o)
				worst.used = math.Min(worst.used, o.used)
				worst.over, worst.ahead = math.Max(worst.over, o.over), math.Max(worst.ahead, o.ahead)
				worst.beyond = math.Max(worst.beyond, o.beyond)
				if b.late > 0 && o.settled > late {
					late, o.settled = o.settled, late
				}
				worst.settled = math.Max(worst.settled, o.settled)
			}
			if worst.used < b.bar.used || worst.over > b.bar.over || worst.ahead > b.bar.ahead || worst.beyond > b.bar.beyond ||
				worst.settled > b.bar.settled || late > b.late {
				t.Errorf("the worst seeds have %+v, held to %+v; the last settles after %v s, held to %v", worst, b.bar, late, b.late)
			}
		})
	}
}

// Owners that restart one after the other hand over what they know, or learn it.
func TestARollingRestartOfOwnersIsHardlySeen(t *testing.T) {
	for name, least := range map[string]float64{
		// A host that restarts too leaves its lease behind until it is back,
		// which is 3 s of 10 for a twelfth of the limit.
		algorithm.NameProportionalShare: 95,
		algorithm.NameFairShare:         95,
		algorithm.NameElastic:           98.5,
		algorithm.NameRequestWeighted:   98.5,
	} {
		k := run(t, load(t, "rolling-restart"), name, 1).Whole()
		if k.UtilisationPct < least || name != algorithm.NameRequestWeighted && k.OverPct > 0.5 {
			t.Errorf("%s: utilisation %.1f%%, over %.1f%%", name, k.UtilisationPct, k.OverPct)
		}
	}
	for _, name := range inTrees {
		sc := parse(t, `
name: owners
duration: 120s
hosts: 10
owners: 4
limits: [{key: k, limit: 1000/s, lease: 60s}]
traffic: [{key: k, rate: 150/s, arrivals: even}]
events: [{at: 40s, do: restart, hosts: owners, every: 15s, for: 3s}]
`)
		k := run(t, sc, name, 1).Keys[0]
		near(t, name+": admitted while owners restart", between(k, 40, 110), 1000)
		if k.OverPct > 0.5 {
			t.Errorf("%s: over %.2f%%", name, k.OverPct)
		}
	}
}

func TestWhoTakesOverKnowsOrLearns(t *testing.T) {
	text := `
name: owners
duration: 180s
hosts: 10
owners: 4
limits: [{key: k, limit: 1000/s, lease: 60s}]
traffic: [{key: k, arrivals: even, rate: {walk: {start: %RATE, step: 0%, every: 10s}}}]
membership: {detect: 1s}
events:
  - {at: 100s, do: %DO, hosts: owner of k, for: 60s}
  - {at: 110s, do: spike, hosts: 0, to: 300/s}
`
	scenario := func(rate, do string) *scenario.Scenario {
		return parse(t, strings.NewReplacer("%RATE", rate, "%DO", do).Replace(text))
	}
	for _, name := range []string{algorithm.NameProportionalShare, algorithm.NameFairShare} {
		// Who takes over from one that died has to learn, and not to hand out
		// again what it does not know of.
		k := run(t, scenario("150/s", "crash"), name, 1).Keys[0]
		for second, weights := range k.Weights[70:] {
			if w := sum(weights); w > 1.001 {
				t.Fatalf("%s: %d s into the run %.3f of the limit is held", name, 70+second, w)
			}
		}
		// Who takes over from one that left knows, and decides at once.
		k = run(t, scenario("50/s", "restart"), name, 1).Keys[0]
		near(t, name+": a spike while another owns the key", between(k, 118, 140), 9*50+300)
		// Else it learns for a lease.
		k = run(t, scenario("50/s", "crash"), name, 1).Keys[0]
		near(t, name+": the same while it learns", between(k, 118, 140), 10*50)
	}
}

// Hosts do not introduce themselves to an owner that is back before anybody saw
// that it was away. It learns from their reports, and lends less than a burst
// twice meanwhile.
func TestAnOwnerThatIsBackAtOnceLendsLittleTwice(t *testing.T) {
	const limit, crashes = 1000, 3
	for _, away := range []string{"100ms", "1s", "4s"} {
		text := strings.ReplaceAll(`
name: back
duration: 130s
warmup: 10s
hosts: 10
owners: 1
limits: [{key: k, limit: 1000/s, lease: 60s}]
traffic: [{key: k, rate: 150/s}]
membership: {detect: 5s}
events:
  - {at: 40s, do: crash, hosts: owners, for: %AWAY}
  - {at: 70s, do: crash, hosts: owners, for: %AWAY}
  - {at: 101s, do: crash, hosts: owners, for: %AWAY}
`, "%AWAY", away)
		for _, name := range inTrees {
			k := run(t, parse(t, text), name, 1).Keys[0]
			if twice := float64(k.Admitted-k.Oracle) / crashes; k.OverPct > 0 || twice > limit || k.UtilisationPct < 99 {
				t.Errorf("%s, away for %s: over %.2f%%, %.0f events more than one bucket for each crash, utilisation %.1f%%", name, away, k.OverPct, twice, k.UtilisationPct)
			}
		}
	}
}

// A capacity is handed out once, but for what is safe when nobody answers: all
// who are cut off have that, and nobody who is left knows.
func TestWhatIsHandedOutTwiceIsWhatIsSafe(t *testing.T) {
	const safe = 5.0 * 15 // of the region's hosts
	text := `
name: cut
duration: 200s
warmup: 60s
clusters: {root: {}, region: {parent: root, copies: 3}, dc: {parent: region, copies: 3, owners: 1, hosts: 5}}
limits: [{key: k, limit: 500/s, lease: 20s, learning: 5s, recalculate: 0s, fallback: safe, safe_capacity: 5/s}]
traffic: [{key: k, arrivals: even, rate: {walk: {start: 30/s, step: 10%, every: 10s}}}]
events: [{at: 80s, do: crash, hosts: owners of region-1, for: 60s}]
`
	for _, name := range inTrees {
		k := run(t, parse(t, text), name, 1).Keys[0]
		near(t, name+": while leases last", between(k, 82, 95), 500)
		near(t, name+": then, with what is safe", between(k, 115, 135), 500+safe)
		near(t, name+": when it is back", between(k, 165, 200), 500)
		var all []float64
		for second := range k.Weights {
			all = append(all, sum(k.Weights[second])*500)
		}
		if most := slices.Max(all[60:]); most > 500*1.03+safe {
			t.Errorf("%s: %.1f/s are held at once", name, most)
		}
	}
}
