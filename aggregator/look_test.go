// SPDX-License-Identifier: Apache-2.0

package aggregator_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/uber-go/tally/v4"

	"github.com/headgate/headgate/aggregator"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

// looking is an owner under limits, and what reports to it.
func looking(t *testing.T, limits string) (a *aggregator.Aggregator, report func(at time.Duration, host, alg, key string, allowed, rejected int64), scope tally.TestScope) {
	t.Helper()
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(limits))
	if err != nil {
		t.Fatal(err)
	}
	scope = tally.NewTestScope("", nil)
	a = aggregator.New(algorithm.Builtin(), snapshot, aggregator.WithScope(scope))
	return a, func(at time.Duration, host, alg, key string, allowed, rejected int64) {
		t.Helper()
		var g usage.Grants
		r := &usage.Report{
			Algorithm: alg, Keys: []string{key}, Allowed: []int64{allowed}, Rejected: []int64{rejected},
			Elapsed: []time.Duration{time.Second}, Weight: []float64{0},
		}
		if err := a.Step(at, host, r, &g); err != nil {
			t.Fatal(err)
		}
	}, scope
}

const second = time.Second

func TestAnOwnerSaysWhatItKnowsOfAKey(t *testing.T) {
	a, report, _ := looking(t, `
defaults: {update_interval: 1s}
limits:
  - {key: pooled, limit: 100/s, burst: 50, algorithm: elastic}
  - {key: averaged, limit: 100/s, algorithm: request-weighted}
  - {key: leased, limit: 100/s, algorithm: fair-share, learning: 0s}
`)
	if known := a.Look(0, "pooled"); known != nil {
		t.Errorf("nobody has used it: %+v", known)
	}
	for at := second; at <= 5*second; at += second {
		for _, key := range [][2]string{{"pooled", "elastic"}, {"averaged", "request-weighted"}, {"leased", "fair-share"}} {
			report(at, "a", key[1], key[0], 30, 0)
			report(at, "b", key[1], key[0], 10, 0)
		}
	}
	now := 5*second + 300*time.Millisecond
	for _, row := range []struct {
		key, algorithm string
		pooled         bool
		parts          float64 // of a's weight to b's
	}{
		{"pooled", "elastic", true, 3},
		{"averaged", "request-weighted", false, 3},
		{"leased", "fair-share", false, 0},
	} {
		known := a.Look(now, row.key)
		if len(known) != 1 || len(known[0].Hosts) != 2 || known[0].Algorithm != row.algorithm || known[0].Pooled != row.pooled {
			t.Errorf("%s: %+v", row.key, known)
			continue
		}
		k, first, second := known[0], known[0].Hosts[0], known[0].Hosts[1]
		if first.Name != "a" || second.Name != "b" || math.Abs(first.Wants-30) > 3 || math.Abs(second.Wants-10) > 3 {
			t.Errorf("%s: %+v", row.key, k.Hosts)
		}
		if row.parts > 0 && math.Abs(first.Weight/second.Weight-row.parts) > 0.3 {
			t.Errorf("%s: weights %v and %v", row.key, first.Weight, second.Weight)
		}
		if row.algorithm == "fair-share" {
			if first.Lease <= 0 || first.Silent >= 0 || first.Weight < 0.3 {
				t.Errorf("leased: %+v", first)
			}
		} else if first.Silent != 300*time.Millisecond || first.Lease >= 0 {
			t.Errorf("%s: %+v", row.key, first)
		}
		if k.Over != 0 || math.IsInf(k.Bound, 1) {
			t.Errorf("%s: over by %v of %v", row.key, k.Over, k.Bound)
		}
		if again := a.Look(now, row.key); fmt.Sprint(again) != fmt.Sprint(known) {
			t.Errorf("%s: a look changes it: %+v, %+v", row.key, known, again)
		}
	}
}

// A cluster below has nothing of a key before the cluster above has leased something.
func TestAnEmptyPoolIsOverByNothing(t *testing.T) {
	a, report, _ := looking(t, `limits: [{key: k, limit: 10/s, parent: true}]`)
	report(second, "a", "auto", "k", 0, 4)
	for _, k := range a.Look(2*second, "k") {
		if fmt.Sprint(k.Over) != "0" {
			t.Errorf("%+v: over by %v", k, k.Over)
		}
	}
}

// The tokens that hosts were allowed beyond the limit are those that a perfect bucket would have refused,
// until they have made up for it.
func TestWhatPassesBeyondALimitIsMeasured(t *testing.T) {
	a, report, scope := looking(t, `
defaults: {update_interval: 1s}
limits:
  - {key: "pooled:*", limit: 10/s, burst: 20, algorithm: elastic}
  - {key: averaged, limit: 10/s, burst: 20, algorithm: request-weighted}
  - {key: even-floor, limit: 10/s, burst: 20, algorithm: request-weighted-even-floor}
`)
	over := func(key string, at time.Duration) float64 {
		known := a.Look(at, key)
		if len(known) != 1 {
			t.Fatalf("%s: %+v", key, known)
		}
		return known[0].Over
	}
	keys := map[string]string{"pooled:a": "elastic", "averaged": "request-weighted", "even-floor": "request-weighted-even-floor"}
	// All keys report at one time, because time does not go back for keys that share a lock.
	for key, alg := range keys {
		report(second, "a", alg, key, 15, 0)
	}
	for key, alg := range keys {
		report(2*second, "a", alg, key, 10, 0)
		report(2*second, "b", alg, key, 1, 0)
		if got := over(key, 2*second); got != 0 {
			t.Errorf("%s: over by %v within the limit", key, got)
		}
	}
	for key, alg := range keys {
		report(3*second, "a", alg, key, 70, 0)
	}
	report(3*second, "a", "elastic", "pooled:b", 1, 0)
	// A burst of 20, and 10/s: of 96 in 2 s, about 46 are too many. A meter cannot tell when
	// in its second a host has used them, and says 10 less at most.
	for key := range keys {
		if got := over(key, 3*second); got < 30 || got > 60 {
			t.Errorf("%s: over by %v", key, got)
		}
	}
	a.GC(3 * second)
	gauges := scope.Snapshot().Gauges()
	for rule, key := range map[string]string{"pooled:*": "pooled:a", "averaged": "averaged", "even-floor": "even-floor"} {
		known := a.Look(3*second, key)[0]
		for name, want := range map[string]float64{"over_admitted": known.Over, "over_admission_bound": known.Bound} {
			full := "aggregator." + name + "+rule=" + rule
			if g := gauges[full]; g == nil || g.Value() != want {
				t.Errorf("%s: %v, want %v", full, g, want)
			}
		}
	}
	if known := a.Look(3*second, "even-floor")[0]; !math.IsInf(known.Bound, 1) {
		t.Errorf("even-floor states %v", known.Bound)
	}
	// After a while without use, nothing is too much.
	for key := range keys {
		if got := over(key, 30*second); got != 0 {
			t.Errorf("%s: still over by %v", key, got)
		}
	}
}

func TestExactKeysStateNoOverAdmission(t *testing.T) {
	a, _, _ := looking(t, `limits: [{key: k, limit: 10/s, burst: 5, algorithm: exact}]`)
	var taken usage.Taken
	a.Take(0, "a", &usage.Takes{Rows: []usage.Take{{Key: "k", Tokens: 3}}}, &taken)
	known := a.Look(0, "k")
	if len(known) != 1 || known[0].Bound != 0 || known[0].Tokens != 2 || known[0].Over != 0 || known[0].Algorithm != "exact" {
		t.Errorf("%+v", known)
	}
}

// A report whose answer was lost comes again as a part of the next: what it allowed passed once.
func TestWhatComesAgainIsMeasuredOnce(t *testing.T) {
	for _, name := range []string{algorithm.NameRequestWeighted, algorithm.NameElastic} {
		a, _, _ := looking(t, "defaults: {update_interval: 1s}\nlimits:\n  - {key: k, limit: 100/s, algorithm: "+name+"}\n")
		for n := range int64(20) { // no answer arrives
			elapsed, grants := time.Duration(n+1)*second, new(usage.Grants)
			r := &usage.Report{Algorithm: name, Keys: []string{"k"}, Allowed: []int64{100 * (n + 1)}, Rejected: []int64{0}, Elapsed: []time.Duration{elapsed}, Weight: []float64{0}}
			if err := a.Step(elapsed, "h", r, grants); err != nil {
				t.Fatal(err)
			}
		}
		if k := a.Look(20*second, "k"); len(k) != 1 || k[0].Over > 150 {
			t.Errorf("%s: a host that used the limit: %+v", name, k)
		}
	}
}
