// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
)

func TestAMeterCountsOnWhenAHostBeginsAnew(t *testing.T) {
	m := newMeter([]series{{0, "even"}}, 1)
	for _, allowed := range []int64{10, 30, 30, 5, 6} { // 30, then a new host
		m.note(0, 0, allowed)
	}
	if got := m.total[0][0]; got != 36 {
		t.Errorf("total is %d, want 36", got)
	}
}

func TestRatesAreDifferencesOverTheTimeBetween(t *testing.T) {
	at := time.Now()
	from := reading{at, []int64{100, 50}, [][]int64{{10, 20}}}
	to := reading{at.Add(2 * time.Second), []int64{300, 50}, [][]int64{{110, 20}}}
	results := from.rates(to).results(60, []series{{0, "even"}})
	if want := (Measurement{"even", 100, 50, 60}); len(results) != 1 || results[0] != want {
		t.Errorf("results are %v, want %v", results, want)
	}
	if got := from.rates(from); got.offered[0] != 0 || got.admitted[0][0] != 0 {
		t.Errorf("rates of no time are %v, want zeros", got)
	}
}

// Whatever the weights, no target is ever further than one whole turn per
// target from its part.
func TestTurnsAreTakenByWeight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Float64Range(0.01, 10), 1, 9).Draw(t, "weights")
		var targets []target
		all := 0.0
		for _, w := range weights {
			targets = append(targets, target{weight: w})
			all += w
		}
		var turns turns
		got := make([]float64, len(targets))
		for n := 1; n <= 500; n++ {
			got[turns.next(targets)]++
			for i, w := range weights {
				if want := float64(n) * w / all; math.Abs(got[i]-want) > float64(len(weights)) {
					t.Fatalf("after %d turns target %d had %v, want about %v", n, i, got[i], want)
				}
			}
		}
	})
}

func TestTheConfigIsWhatAUserWouldWrite(t *testing.T) {
	config := Config{Limit: 300, Lanes: append(Lanes(), Lane{"demo:other", "even", "request-weighted"})}
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(config.YAML()))
	if err != nil {
		t.Fatal(err)
	}
	rule := snapshot.Rules()[0]
	if rule.Key != "demo:orders" || rule.Limit != 300 || rule.Migration == nil || rule.Migration.Mode != dynamicconfig.ModeNewShadowOld {
		t.Errorf("rule is %+v", rule)
	}
	if len(snapshot.Rules()) != 2 || snapshot.Properties().UpdateInterval != time.Second {
		t.Errorf("%d rules, interval %v", len(snapshot.Rules()), snapshot.Properties().UpdateInterval)
	}
	if got := config.measured(); len(got) != 2 {
		t.Errorf("measured are %v, want each algorithm once", got)
	}
	golden(t, "limits.yaml.golden", Config{}.YAML())
}

func TestNoticesAreOneLineAndNameHosts(t *testing.T) {
	n := new(notices)
	log := slog.New(handler{n, "host-1", func(address string) string { return "host-3" }})
	log.Info("nobody needs to know")
	if got := n.newest(); got != "" {
		t.Errorf("newest is %q, want nothing", got)
	}
	log.Warn("an owner\ndoes not answer", "owner", "127.0.0.1:1", "error", "long")
	if got, want := n.newest(), "host-1: an owner does not answer (host-3)"; got != want {
		t.Errorf("newest is %q, want %q", got, want)
	}
}

var fixed = Result{
	LimitPerS: 500,
	Phases: []Phase{
		{"steady", []Measurement{{"even", 1000, 200.1, 500}, {"request-weighted", 1000, 499.8, 500}}},
		{"moved", []Measurement{{"even", 1000.2, 220, 500}, {"request-weighted", 1000.2, 361.5, 500}}},
		{"killed", []Measurement{{"even", 999.6, 194, 500}, {"request-weighted", 999.6, 515, 500}}},
	},
	hosts: 5, took: 20 * time.Second, failed: 7, busy: 12, late: 30,
}

func TestSummary(t *testing.T) {
	var b bytes.Buffer
	if err := fixed.WriteSummary(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(line)) - 1; n > 79 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	golden(t, "summary.golden", b.String())
	b.Reset()
	if err := (Result{}).WriteSummary(&b); err != nil || !strings.Contains(b.String(), "before anything was measured") {
		t.Errorf("summary of nothing is %q, %v", b.String(), err)
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	if err := fixed.WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	golden(t, "result.json.golden", b.String())
	b.Reset()
	if err := (Result{LimitPerS: 1}).WriteJSON(&b); err != nil || !strings.Contains(b.String(), `"phases": []`) {
		t.Errorf("JSON of nothing is %q, %v; want an empty list", b.String(), err)
	}
}

func TestPlainWritesALinePerSecond(t *testing.T) {
	var b bytes.Buffer
	p := NewPlain(&b)
	f := Frame{Headline: "90% of the traffic hits host-5", Algorithms: []AlgorithmRow{{Name: "even", Admitted: 200, Ideal: 500}}}
	for i := range 9 {
		f.Elapsed = time.Duration(i) * 250 * time.Millisecond
		f.Measuring = i >= 4
		if i == 6 {
			f.Notice = "host-1: an owner does not answer"
		}
		p.Show(f)
	}
	golden(t, "plain.golden", b.String())
}
