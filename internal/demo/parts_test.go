// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/internal/goldentest"
	"github.com/headgate/headgate/ringpop"
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

// The mean is over time and not over phases: 10 seconds at 100% and 30 at 60%
// are 70%.
func TestTheWholeIsAMeanOverTime(t *testing.T) {
	r := Result{Phases: []Phase{
		{"steady", []Measurement{{"even", 500, 500, 500}}, 10 * time.Second},
		{"moved", []Measurement{{"even", 900, 300, 500}}, 30 * time.Second},
	}}
	if got, want := r.whole(), []Measurement{{"even", 800, 350, 500}}; !slices.Equal(got, want) {
		t.Errorf("whole is %v, want %v", got, want)
	}
}

func TestPercentsNearAHundredHaveTenths(t *testing.T) {
	for ratio, want := range map[float64]string{
		0: "0%", 0.404: "40%", 0.985: "98%", 0.9896: "99%", 0.9949: "99.5%", 0.9995: "100%", 1: "100%", 1.004: "100.4%", 1.02: "102%",
	} {
		if got := percent(ratio); got != want {
			t.Errorf("percent(%v) = %s, want %s", ratio, got, want)
		}
	}
}

// The host that is killed must decide for every lane, or the lanes would not
// tell the same story.
func TestOneHostDecidesForAllLanes(t *testing.T) {
	var hosts []ringpop.Host
	for i := range (Config{}).withDefaults().Hosts {
		hosts = append(hosts, ringpop.Host{Address: fmt.Sprintf("127.0.0.1:%d", i+1), Identity: fmt.Sprintf("host-%d", i+1)})
	}
	ring, err := ringpop.New(hosts, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, lane := range Lanes() {
		if got, want := ring.Owner(lane.Key), ring.Owner(Lanes()[0].Key); got != want {
			t.Errorf("%s is decided by %s, and not by %s as %s is", lane.Key, got, want, Lanes()[0].Key)
		}
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
	config := Config{Limit: 300, Lanes: append(Lanes(), Lane{"demo:other", "even", "static"})}
	snapshot, err := dynamicconfig.Parse("limits.yaml", []byte(config.YAML()))
	if err != nil {
		t.Fatal(err)
	}
	rule := snapshot.Rules()[0]
	if rule.Key != "demo:orders" || rule.Limit != 300 || rule.Migration == nil || rule.Migration.Mode != dynamicconfig.ModeNewShadowOld {
		t.Errorf("rule is %+v", rule)
	}
	if len(snapshot.Rules()) != 3 || snapshot.Properties().UpdateInterval != time.Second {
		t.Errorf("%d rules, interval %v", len(snapshot.Rules()), snapshot.Properties().UpdateInterval)
	}
	want := []series{{0, "even"}, {1, "request-weighted"}, {2, "static"}, {0, "auto"}}
	if got := config.measured(); !slices.Equal(got, want) {
		t.Errorf("measured are %v, want %v", got, want)
	}
	goldentest.Same(t, "testdata/limits.yaml.golden", Config{}.YAML())
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
		{"steady", []Measurement{{"even", 1000, 200.1, 500}, {"request-weighted", 1000, 499.8, 500}, {"auto", 1000, 499.4, 500}}, 4 * time.Second},
		{"moved", []Measurement{{"even", 1000.2, 220, 500}, {"request-weighted", 1000.2, 361.5, 500}, {"auto", 1000.2, 498.8, 500}}, 5 * time.Second},
		{"killed", []Measurement{{"even", 999.6, 194, 500}, {"request-weighted", 999.6, 515, 500}, {"auto", 999.6, 494.1, 500}}, 5 * time.Second},
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
	goldentest.Same(t, "testdata/summary.golden", b.String())
	b.Reset()
	interrupted := fixed
	interrupted.Phases = fixed.Phases[:2]
	if err := interrupted.WriteSummary(&b); err != nil || !strings.Contains(strings.Join(strings.Fields(b.String()), " "), "of what the limit allows while it was steady and moved.") {
		t.Errorf("summary of two phases is %q, %v; want it to say which", b.String(), err)
	}
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
	goldentest.Same(t, "testdata/result.json.golden", b.String())
	b.Reset()
	if err := (Result{LimitPerS: 1}).WriteJSON(&b); err != nil || !strings.Contains(b.String(), `"phases": []`) {
		t.Errorf("JSON of nothing is %q, %v; want an empty list", b.String(), err)
	}
}

func TestPlainWritesALinePerSecond(t *testing.T) {
	var b bytes.Buffer
	p := NewPlain(&b)
	f := Frame{Headline: "90% of the traffic hits host-5", Algorithms: []AlgorithmRow{
		{Name: "even", Admitted: 200, Ideal: 500},
		{Name: "request-weighted", Admitted: 480, Ideal: 500},
		{Name: "auto", Admitted: 499, Ideal: 500},
	}}
	for i := range 9 {
		f.Elapsed = time.Duration(i) * 250 * time.Millisecond
		f.Measuring = i >= 4
		if i == 6 {
			f.Notice = "host-1: an owner does not answer"
		}
		p.Show(f)
	}
	for line := range strings.Lines(b.String()) {
		if n := len(strings.TrimSpace(line)); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	goldentest.Same(t, "testdata/plain.golden", b.String())
}
