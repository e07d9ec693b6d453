// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/internal/sim/fleet"
	"github.com/headgate/headgate/internal/sim/measure"
	"github.com/headgate/headgate/internal/sim/scenario"
	"github.com/headgate/headgate/internal/testrun"
	"github.com/headgate/headgate/limiter"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t *testing.T, name string) *scenario.Scenario {
	t.Helper()
	sc, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

// parse reads a scenario out of the test.
func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	sc, err := scenario.Parse("test.yaml", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return sc
}

func run(t *testing.T, sc *scenario.Scenario, algorithm string, seed uint64) *measure.Result {
	t.Helper()
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	r, err := Options{Algorithm: algorithm, Seed: seed, Weights: true}.Run(context.Background(), sc)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// everything about a result, as text; NaN is no JSON.
func everything(t *testing.T, r *measure.Result) string {
	t.Helper()
	rows, err := measure.JSON(r.Rows())
	if err != nil {
		t.Fatal(err)
	}
	text := string(rows)
	for _, k := range r.Keys {
		b, err := json.Marshal([]any{k.Seconds, k.Weights, r.Marks, r.Events})
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	return text
}

// until is sc, which ends after end unless the form is long: a run that is not the same again
// differs as soon as hosts ask, crash or join.
func until(sc *scenario.Scenario, end time.Duration) *scenario.Scenario {
	first := *sc
	if !testrun.Long() {
		first.Duration = min(first.Duration, end)
	}
	return &first
}

func TestSameSeedSameBytes(t *testing.T) {
	names := []string{"recorded", "low-limit", "bad-network", "rolling-restart", "ring-join", "paused-host", "cron"}
	if testing.Short() {
		names = names[:3]
	}
	for i, name := range names {
		for _, algorithm := range []string{"request-weighted", "elastic"} {
			sc := until(load(t, name), time.Minute)
			first := everything(t, run(t, sc, algorithm, 7))
			if again := everything(t, run(t, until(load(t, name), time.Minute), algorithm, 7)); again != first {
				t.Errorf("%s, %s: two runs with the same seed differ", name, algorithm)
			}
			if i > 2 && !testrun.Long() {
				continue
			}
			if other := everything(t, run(t, sc, algorithm, 8)); other == first {
				t.Errorf("%s, %s: seeds 7 and 8 are the same", name, algorithm)
			}
		}
	}
}

func TestLookingAtWeightsChangesNothing(t *testing.T) {
	sc := load(t, "owner-crash")
	with := run(t, sc, "elastic", 3)
	without, err := Run(sc, "elastic", 3)
	if err != nil {
		t.Fatal(err)
	}
	if with.Keys[0].Metrics != without.Keys[0].Metrics {
		t.Errorf("with %+v\nwithout %+v", with.Keys[0].Metrics, without.Keys[0].Metrics)
	}
}

func TestTheWallClockDoesNotMatter(t *testing.T) {
	for _, algorithm := range []string{"request-weighted", "elastic"} {
		steady, step := run(t, load(t, "steady-skew"), algorithm, 1), run(t, load(t, "clock-step"), algorithm, 1)
		if a, b := everything(t, steady), everything(t, step); secondsOf(a) != secondsOf(b) {
			t.Errorf("%s: %+v with steps, %+v without", algorithm, step.Keys[0].Metrics, steady.Keys[0].Metrics)
		}
	}
}

// secondsOf is what everything says of seconds and weights; names and counts of
// events differ.
func secondsOf(everything string) string {
	_, seconds, _ := strings.Cut(everything, "[[{")
	seconds, _, _ = strings.Cut(seconds, "]],null")
	return seconds
}

// One host that has the whole limit is the oracle.
func TestOneHostIsThePerfectBucket(t *testing.T) {
	sc := parse(t, `
name: alone
duration: 100s
hosts: 1
limits: [{key: "a:*", limit: 730/s, burst: 100}]
traffic:
  - {key: "a:b", rate: 1200/s}
  - {key: "a:c", rate: 700/s, cost: 1..9}
`)
	for _, k := range run(t, sc, "even", 1).Keys {
		if math.Abs(k.UtilisationPct-100) > 0.01 || k.FalseRejectPct > 0.01 || k.OverPct > 0.1 {
			t.Errorf("%s: %+v", k.Key, k.Metrics)
		}
		if math.Abs(float64(k.Oracle)-730*100-100) > 20 {
			t.Errorf("%s: the oracle admits %d, want 73100", k.Key, k.Oracle)
		}
	}
}

// Even over N hosts is N independent buckets: a dumb computation says the
// same as the whole machinery.
func TestEvenIsIndependentBuckets(t *testing.T) {
	sc := parse(t, `
name: even
duration: 60s
hosts: 4
limits: [{key: k, limit: 100/s, burst: 40}]
traffic: [{key: k, hosts: 0, rate: 200/s, arrivals: even}, {key: k, hosts: 1-3, rate: 10/s}]
`)
	k := run(t, sc, limiter.Even, 1).Keys[0]
	// Host 0 gets its even burst of 10 and 25/s; the others all they want.
	others := k.Offered - 200*60
	if want := 10 + 25*60 + others; math.Abs(float64(k.Admitted-want)) > 3 {
		t.Errorf("admitted %d, want %d", k.Admitted, want)
	}
	if k.ReportsPerHostS != 0 || k.BytesPerHostS != 0 {
		t.Errorf("even needs no reports: %+v", k.Metrics)
	}
}

func TestReportsAndBytesAreCounted(t *testing.T) {
	sc := parse(t, `
name: count
duration: 300s
hosts: 4
owners: 1
limits: [{key: "count:me-with-a-long-name", limit: 1000/s}]
traffic: [{key: "count:me-with-a-long-name", total: 500/s}]
`)
	k := run(t, sc, "request-weighted", 1).Keys[0]
	if math.Abs(k.ReportsPerHostS-1./3) > 0.005 {
		t.Errorf("%v reports per host and second at an interval of 3 s", k.ReportsPerHostS)
	}
	// Headers, host, key, both type URLs, and some columns: not much else.
	floor := fleet.HeaderBytes + 6 + 25 + 2*39.0
	if each := k.BytesPerHostS / k.ReportsPerHostS; each < floor || each > floor+60 {
		t.Errorf("%.0f bytes per call, want %.0f and some columns", each, floor)
	}
	// A host that asks itself uses no network.
	alone := parse(t, `
name: alone
duration: 60s
hosts: 1
limits: [{key: k, limit: 10/s}]
traffic: [{key: k, rate: 5/s}]
`)
	if k := run(t, alone, "request-weighted", 1).Keys[0]; k.BytesPerHostS != 0 || k.ReportsPerHostS == 0 {
		t.Errorf("alone: %+v", k.Metrics)
	}
}

func TestAMigrationRunsBothAlgorithms(t *testing.T) {
	text := `
name: migrate
duration: 60s
hosts: 5
limits: [{key: k, limit: 1000/s, migrate: {from: even, to: request-weighted, mode: %s}}]
traffic: [{key: k, hosts: 0, rate: 1500/s}]
`
	old := run(t, parse(t, fmt.Sprintf(text, "old-shadow-new")), "", 1).Keys[0]
	new := run(t, parse(t, fmt.Sprintf(text, "new-shadow-old")), "", 1).Keys[0]
	if old.UtilisationPct > 25 || new.UtilisationPct < 90 {
		t.Errorf("utilisation is %.1f%% with the old and %.1f%% with the new one", old.UtilisationPct, new.UtilisationPct)
	}
	if old.ReportsPerHostS == 0 || !strings.Contains(old.Algorithm, "even") {
		t.Errorf("in shadow: %+v %s", old.Metrics, old.Algorithm)
	}
}

func TestUnknownAlgorithm(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	if _, err := Run(load(t, "steady-skew"), "telepathy", 1); err == nil || !strings.Contains(err.Error(), "telepathy") {
		t.Errorf("err = %v", err)
	}
	mine := func(capacity float64, demands []algorithm.Demand, parts []float64) {
		for i := range parts {
			parts[i] = capacity / float64(len(demands))
		}
	}
	registry := algorithm.Builtin()
	if err := registry.Register("mine", mine); err != nil {
		t.Fatal(err)
	}
	r, err := Options{Algorithm: "average/mine", Registry: registry}.Run(context.Background(), load(t, "steady-skew"))
	if err != nil || r.Keys[0].UtilisationPct > 50 {
		t.Errorf("%v %v", r, err)
	}
}

func TestSweepKeepsTheOrderAndEndsEarly(t *testing.T) {
	sc := *load(t, "doorman-1")
	sc.Duration, sc.Warmup = 20*time.Second, 5*time.Second
	var jobs []Job
	for seed := range uint64(6) {
		jobs = append(jobs, Job{&sc, Options{Algorithm: "even", Seed: seed}})
	}
	calls := 0
	results, err := Sweep(context.Background(), jobs, func(int) { calls++ })
	if err != nil || calls != 6 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	for i, r := range results {
		if r.Seed != uint64(i) {
			t.Errorf("result %d has seed %d", i, r.Seed)
		}
	}
	bad := append([]Job{{&sc, Options{Algorithm: "telepathy"}}}, jobs...)
	if _, err := Sweep(context.Background(), bad, nil); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Sweep(ctx, jobs, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// slow are the scenarios that take longer than all others together. TestFigures runs them in
// its long form; the bounds of elastic are about thousand-hosts too, and those of trees, in their long form, about doorman-7.
var slow = []string{"day-and-night", "thousand-hosts", "doorman-7"}

// Each algorithm that is still being worked on has a file of its own, so that
// a diff says at once whose figures have changed.
func TestFigures(t *testing.T) {
	if testing.Short() {
		t.Skip("runs all scenarios, some with millions of events")
	}
	all := testrun.Long() || *update
	for _, file := range []struct {
		name       string
		trees      bool
		algorithms []string
	}{
		{"baselines.golden", false, []string{"even", "request-weighted", "request-weighted-even-floor"}},
		{"elastic.golden", false, []string{"elastic"}},
		{"trees.golden", true, inTrees},
	} {
		var jobs []Job
		for i, name := range scenario.Names(scenario.Accuracy) {
			sc := load(t, name)
			if (sc.Clusters != nil) != file.trees || !all && slices.Contains(slow, name) {
				continue
			}
			for j, a := range file.algorithms {
				if all || (i+j)%len(file.algorithms) == 0 { // else under each in turn
					jobs = append(jobs, Job{sc, Options{Algorithm: a, Seed: 1}})
				}
			}
		}
		results, err := Sweep(t.Context(), jobs, nil)
		if err != nil {
			t.Fatal(err)
		}
		var rows []measure.Row
		for _, r := range results {
			rows = append(rows, r.Rows()...)
		}
		var b strings.Builder
		if err := measure.WriteTable(&b, measure.Groups(rows), measure.View{}); err != nil {
			t.Fatal(err)
		}
		if all {
			golden(t, file.name, b.String())
		} else {
			inGolden(t, file.name, b.String())
		}
	}
}

// inGolden looks for each line of a table in the table of a file in testdata, whose columns may be wider.
func inGolden(t *testing.T, name, text string) {
	t.Helper()
	file, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]bool)
	for line := range strings.Lines(string(file)) {
		want[strings.Join(strings.Fields(line), " ")] = true
	}
	for line := range strings.Lines(text) {
		if !want[strings.Join(strings.Fields(line), " ")] {
			t.Errorf("testdata/%s has another line than %sif that is meant, run: go test ./internal/sim/world -update", name, line)
		}
	}
}

// golden compares text with a file in testdata.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) == text {
		return
	}
	old := strings.Split(string(want), "\n")
	for i, line := range strings.Split(text, "\n") {
		if i >= len(old) || old[i] != line {
			t.Errorf("now %s", line)
			if i < len(old) {
				t.Logf("was %s", old[i])
			}
		}
	}
	t.Error("figures have changed; if that is meant, run: go test ./internal/sim/world -update")
}

func TestTheSpeedThatIsPromised(t *testing.T) {
	if !testrun.Long() {
		t.Skip("measures how long runs take: set HEADGATE_LONG=1")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // Go's default
	for _, name := range []string{"day-and-night", "thousand-hosts"} {
		sc := load(t, name)
		began := testrun.CPUTime(t)
		if _, err := Run(sc, "elastic", 1); err != nil {
			t.Fatal(err)
		}
		if took := testrun.CPUTime(t) - began; took > 30*time.Second {
			t.Errorf("%s takes %s of the processors", name, took)
		} else {
			t.Logf("%s takes %s of the processors", name, took)
		}
	}
}

func BenchmarkHourOf45Hosts(b *testing.B) {
	sc, err := scenario.Load("day-and-night")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	events := int64(0)
	for b.Loop() {
		r, err := Run(sc, "elastic", 1)
		if err != nil {
			b.Fatal(err)
		}
		events += r.Events
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
}

// A weighing by demand on the pool has all that elastic has: bursts, debt and early
// reports.
func TestAWeighingByDemandDoesAsElasticDoes(t *testing.T) {
	testrun.NotUnderRace(t, "a run of the simulator is one goroutine")
	registry := algorithm.Builtin()
	err := registry.Register("by-demand", func(capacity float64, demands []algorithm.Demand, parts []float64) {
		all := 0.0
		for _, d := range demands {
			all += d.Wants
		}
		for i, d := range demands {
			parts[i] = capacity * d.Wants / all
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"burst-on-few", "cron", "flash-crowd"} {
		var got [2]*measure.Result
		for i, by := range []string{"elastic", "by-demand"} {
			r, err := Options{Algorithm: by, Registry: registry, Seed: 1}.Run(context.Background(), load(t, name))
			if err != nil {
				t.Fatal(err)
			}
			got[i] = r
		}
		for k, elastic := range got[0].Keys {
			weighed := got[1].Keys[k]
			if weighed.UtilisationPct < elastic.UtilisationPct-0.2 || weighed.FalseRejectPct > elastic.FalseRejectPct+0.2 ||
				weighed.OverPct > elastic.OverPct+0.2 || weighed.ReportsPerHostS > elastic.ReportsPerHostS*1.05 {
				t.Errorf("%s, %s: elastic %+v, weighed %+v", name, elastic.Key, elastic.Metrics, weighed.Metrics)
			}
		}
	}
}
