// SPDX-License-Identifier: Apache-2.0

package world

import (
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
)

// Each of them runs, is the same again, and is another one with another seed, which is shown by
// three of them but in the long form.
func TestAskingScenariosRun(t *testing.T) {
	names := scenario.Names(scenario.Asking)
	if len(names) < 12 {
		t.Fatalf("only %d scenarios", len(names))
	}
	for i, name := range names {
		sc := load(t, name)
		if !strings.HasPrefix(name, "asking-") || sc.Name != name || sc.Description == "" {
			t.Errorf("%s: name %q, description %q", name, sc.Name, sc.Description)
		}
		short := *sc
		short.Duration, short.Warmup = 20*time.Second, 5*time.Second
		r := run(t, &short, "elastic", 1)
		if perHost := r.Whole().EventsPerHostS; perHost < 0.3 || perHost > 100 {
			t.Errorf("%s has %.2f events/s per host", name, perHost)
		}
		if testing.Short() {
			continue
		}
		first := everything(t, r)
		if again := everything(t, run(t, &short, "elastic", 1)); again != first {
			t.Errorf("%s: two runs with the same seed differ", name)
		}
		if i > 2 && !testrun.Long() {
			continue
		}
		if other := everything(t, run(t, &short, "elastic", 2)); other == first {
			t.Errorf("%s: seeds 1 and 2 are the same", name)
		}
	}
}

// The bounds leave room for other seeds. docs/accuracy.md has the figures.
func TestAutoRejectsHardlyMoreThanOneBucket(t *testing.T) {
	if testing.Short() {
		t.Skip("24 runs")
	}
	bounds := map[string]struct{ falsely, calls float64 }{ // % of what is offered; per host and second
		"asking-autoscale":              {0.2, 3.5},
		"asking-batches":                {1.2, 2}, // the end of a batch is seen 0.2 s later
		"asking-self-similar-high":      {1.5, 8},
		"asking-self-similar-low":       {1.8, 2}, // hosts that had a burst hold some of it
		"asking-self-similar-saturated": {2.2, 8}, // the budget of asks is spent
		"asking-tenants":                {0.7, 55},
	}
	seeds := uint64(1)
	if testrun.Long() {
		seeds = 10
	}
	for _, name := range scenario.Names(scenario.Asking) {
		bound, ok := bounds[name]
		if !ok {
			bound.falsely, bound.calls = 0.8, 8
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sc, seeds := load(t, name), seeds
			if name == "asking-batches" {
				seeds = 10 // in a second of the processor's: what a batch meets is chance
			}
			for seed := range seeds {
				whole := run(t, sc, "auto", seed+1).Whole()
				calls := whole.ReportsPerHostS + whole.AsksPerHostS
				if whole.FalseRejectPct > bound.falsely || whole.OverPct > 1 || calls > bound.calls {
					t.Errorf("seed %d: %.2f%% are rejected wrongly and %.2f%% are too much, for %.2f calls", seed+1, whole.FalseRejectPct, whole.OverPct, calls)
				}
			}
		})
	}
}

func TestRejectedClientsTryAgain(t *testing.T) {
	text := `
name: storm
duration: 60s
hosts: 1
limits: [{key: k, limit: 10/s, burst: 10}]
traffic: [{key: k, rate: {steps: {0s: 5/s, 20s: 40/s, 25s: 5/s}}, arrivals: even RETRY}]
`
	without := run(t, parse(t, strings.Replace(text, "RETRY", "", 1)), "even", 1).Keys[0]
	with := run(t, parse(t, strings.Replace(text, "RETRY", ", retry: {after: 100ms, factor: 2, cap: 5s, jitter: 0%, tries: 9}", 1)), "even", 1).Keys[0]
	if without.Offered != 5*55+40*5 || with.Offered < without.Offered+200 {
		t.Errorf("%d are offered with retries, %d without", with.Offered, without.Offered)
	}
	// What was rejected in the crowd comes later, when there is room.
	if with.Admitted < without.Admitted+50 || with.RejectedPct > without.RejectedPct/2 {
		t.Errorf("with retries %d are admitted and %.1f%% of the clients never, without %d and %.1f%%", with.Admitted, with.RejectedPct, without.Admitted, without.RejectedPct)
	}
	if with.UtilisationPct != 100 {
		t.Errorf("the perfect bucket sees other tries: utilisation is %.2f%%", with.UtilisationPct)
	}
	calm := run(t, parse(t, strings.NewReplacer("RETRY", ", retry: {after: 100ms}", "40/s", "5/s").Replace(text)), "even", 1).Keys[0]
	if calm.Offered != 5*60 || calm.RejectedPct != 0 {
		t.Errorf("nobody is rejected, and %d are offered", calm.Offered)
	}
}

func TestADrainMovesTraffic(t *testing.T) {
	k := run(t, parse(t, `
name: drain
duration: 60s
hosts: 4
limits: [{key: k, limit: 100/s, burst: 100}]
traffic: [{key: k, rate: 20/s, arrivals: even}]
events: [{at: 20s, do: drain, hosts: 0-2, for: 20s}]
`), "even", 1).Keys[0]
	near(t, "before", between(k, 5, 20), 80)
	near(t, "on one host, which has a quarter", between(k, 25, 40), 25)
	near(t, "afterwards", between(k, 45, 60), 80)
}

func TestTheNumberOfHostsFollowsTheLoad(t *testing.T) {
	k := run(t, parse(t, `
name: scale
duration: 200s
hosts: 10
absent: 2-9
limits: [{key: k, limit: 1000/s}]
traffic: [{key: k, total: {steps: {0s: 30/s, 50s: 150/s, 100s: 30/s}}, spread: random}]
events: [{at: 1s, do: autoscale, hosts: 1-9, every: 5s, target: 20/s}]
`), "even", 1).Keys[0]
	for second, want := range map[int]int{45: 2, 90: 8, 190: 2} {
		up := 0
		for _, w := range k.Weights[second] {
			if w > 0 {
				up++
			}
		}
		if up < want-1 || up > want+1 {
			t.Errorf("%d hosts are up at %d s, want about %d", up, second, want)
		}
	}
}

func TestAStickyClientHasOneHost(t *testing.T) {
	text := `
name: sticky
duration: 60s
hosts: 10
limits: [{key: k, limit: 100/s, burst: 10}]
traffic: [{key: k, total: 50/s, spread: HOW, clients: {count: 1}}]
`
	// One client is on one host, which has a tenth of the limit.
	sticky := run(t, parse(t, strings.Replace(text, "HOW", "sticky", 1)), "even", 1).Keys[0]
	near(t, "admitted on one host", between(sticky, 5, 60), 10)
	random := run(t, parse(t, strings.Replace(text, "HOW", "random", 1)), "even", 1).Keys[0]
	if got := between(random, 5, 60); got < 30 {
		t.Errorf("admitted on all hosts: %.1f", got)
	}
}

func TestFiguresOfWhatUsersFeel(t *testing.T) {
	k := run(t, parse(t, `
name: feel
duration: 60s
hosts: 2
owners: 1
network: {latency: 2ms, jitter: 1ms}
limits: [{key: k, limit: 100/s, burst: 100}]
traffic: [{key: k, rate: 20/s, arrivals: even}]
`), "exact", 1).Keys[0]
	if k.AsksPerHostS < 19 || k.AsksPerHostS > 21 || k.WaitedPct != 100 || k.ReportsPerHostS != 0 || k.EventsPerHostS != 20 {
		t.Errorf("each event asks: %+v", k.Metrics)
	}
	if k.WaitP50 < 4*time.Millisecond || k.WaitP99 < k.WaitP50 || k.WaitP99 > 7*time.Millisecond {
		t.Errorf("an answer takes 4 to 6 ms: %s and %s", k.WaitP50, k.WaitP99)
	}
	if k.Fairness != 1 || k.SaturatedPct != 0 || k.RejectedPct != 0 {
		t.Errorf("nobody is rejected: %+v", k.Metrics)
	}
	// Each host has half of the limit, and one of them wants three times as much.
	k = run(t, parse(t, `
name: unfair
duration: 60s
hosts: 2
limits: [{key: k, limit: 100/s, burst: 2}]
traffic: [{key: k, hosts: 0, rate: 150/s, arrivals: even}, {key: k, hosts: 1, rate: 50/s, arrivals: even}]
`), "even", 1).Keys[0]
	// Of 150 a third and of 50 all: (50 + 50)² ÷ (200 · (50²/150 + 50²/50)).
	if k.Fairness < 0.73 || k.Fairness > 0.77 || k.SaturatedPct != 100 {
		t.Errorf("fairness is %.3f, want 0.75; saturated %.0f%%", k.Fairness, k.SaturatedPct)
	}
	if k.LeastPct < 33 || k.LeastPct > 34 || k.MostPct < 99 {
		t.Errorf("one host admits a third, the other one all: %.1f and %.1f%%", k.LeastPct, k.MostPct)
	}
	// An owner that does not answer keeps decisions waiting until they give up.
	k = run(t, parse(t, `
name: gone
duration: 20s
hosts: 1
owners: 1
limits: [{key: k, limit: 100/s}]
traffic: [{key: k, rate: 5/s}]
events: [{at: 0s, do: partition, hosts: 0}]
`), "exact", 1).Keys[0]
	// After some failures, only one decision now and then asks.
	if k.WaitedPct < 20 || k.WaitedPct > 80 || k.WaitP50 < 19*time.Millisecond || k.WaitP50 > 21*time.Millisecond {
		t.Errorf("nobody answers: %+v", k.Metrics)
	}
}
