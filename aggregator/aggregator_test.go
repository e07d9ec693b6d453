// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/aggregator/internal/owned"
	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc"
	"github.com/headgate/headgate/rpc/usage"
)

// cadence are the settings under which Cadence's tests hold their numbers.
var cadence = dynamicconfig.Properties{
	UpdateInterval: time.Second,
	DecayAfter:     2 * time.Second,
	GCAfter:        10 * time.Second,
	NewDataWeight:  0.1,
}

func snapshot(t testing.TB, p dynamicconfig.Properties, rules ...dynamicconfig.Rule) *dynamicconfig.Snapshot {
	t.Helper()
	s, err := dynamicconfig.Config{Properties: p, Rules: rules}.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// every limits every key to 100/s.
func every(algorithm string) dynamicconfig.Rule {
	return dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: algorithm}
}

// weighted is an Aggregator that has all keys under request-weighted.
func weighted(t testing.TB, p dynamicconfig.Properties) *Aggregator {
	t.Helper()
	return New(algorithm.Builtin(), snapshot(t, p, every(algorithm.NameRequestWeighted)))
}

// reportOf has one row per key, all with the same counts.
func reportOf(algorithm string, allowed, rejected int64, elapsed time.Duration, keys ...string) *usage.Report {
	u := &usage.Report{Algorithm: algorithm, Keys: keys}
	for range keys {
		u.Allowed = append(u.Allowed, allowed)
		u.Rejected = append(u.Rejected, rejected)
		u.Elapsed = append(u.Elapsed, elapsed)
		u.Weight = append(u.Weight, 0)
	}
	return u
}

// step is a.Step, which must succeed and hold to the contract.
func step(t testing.TB, a *Aggregator, now time.Duration, host string, u *usage.Report) *usage.Grants {
	t.Helper()
	g := new(usage.Grants)
	if err := a.Step(now, host, u, g); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(u.Len()); err != nil {
		t.Fatal(err)
	}
	return g
}

// reported is what host gets for having used allowed and rejected of key k over
// a second.
func reported(t testing.TB, a *Aggregator, now time.Duration, host string, allowed, rejected int64) *usage.Grants {
	t.Helper()
	return step(t, a, now, host, reportOf(algorithm.NameRequestWeighted, allowed, rejected, time.Second, "k"))
}

// used asks for what all hosts use, without adding to it.
func used(t testing.TB, a *Aggregator, now time.Duration) float64 {
	t.Helper()
	return reported(t, a, now, "asks only", 0, 0).Used[0]
}

// known is a's key called text.
func known(a *Aggregator, algorithm, text string) *owned.Key {
	hash := a.keys.Table.Hash(text)
	return a.keys.Table.Shard(hash).Map(algorithm).Find(hash, text)
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(1, math.Abs(b)) }

func TestUsageFadesAsCadenceHasIt(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		at   time.Duration
		want float64
	}{
		{0, 2},
		{1000 * ms, 2},
		{1500 * ms, 2},
		{2500 * ms, 1.62},
		{3500 * ms, 1.458},
		{9100 * ms, 2 * math.Pow(0.9, 9)},
		{9999 * ms, 2 * math.Pow(0.9, 9)},
		{10000 * ms, 0},
		{time.Hour, 0},
	} {
		whole, alone := weighted(t, cadence), weighted(t, cadence)
		for _, a := range []*Aggregator{whole, alone} {
			reported(t, a, 0, "a", 1, 1)
			reported(t, a, 0, "b", 1, 1)
		}
		if got := used(t, alone, tt.at); !near(got, tt.want) {
			t.Errorf("asked once, after %v: used %v, want %v", tt.at, got, tt.want)
		}
		for at := time.Duration(0); at < tt.at && at < 20*time.Second; at += 100 * ms {
			used(t, whole, at)
		}
		if got := used(t, whole, tt.at); !near(got, tt.want) {
			t.Errorf("asked all the time, after %v: used %v, want %v", tt.at, got, tt.want)
		}
	}
}

func TestFirstReportCountsFullyAndNextOnesByTheirWeight(t *testing.T) {
	a := weighted(t, cadence)
	for _, tt := range []struct {
		at                time.Duration
		host              string
		allowed, rejected int64
		used, weight      float64
	}{
		{0, "a", 10, 30, 10, 1},
		{0, "b", 30, 10, 40, 0.5},                                   // 40 of 80
		{time.Second, "a", 20, 20, 11 + 30, 0.5},                    // 0.1·20 + 0.9·10
		{3 * time.Second, "b", 0, 80, 11*.81 + 30*.729*.9, 0},       // see below
		{3 * time.Second, "a", 0, 0, 11*.81 + 30*.729*.9, 0},        // nothing used: not recorded
		{30 * time.Second, "b", 7, 0, 7, 1},                         // everyone was forgotten: new again
		{30 * time.Second, "a", 0, 0, 7, 0},                         // unknown by now
		{30 * time.Second, "asks only", 0, 0, 7, 0},                 // never known
		{31 * time.Second, "b", 7, 0, 7, 1},                         // steady
		{50 * time.Second, "asks only", 0, 0, 0, 0},                 // nobody is left
		{50*time.Second + 1, "asks only", 1, 0, 1, 1},               // alone
		{50*time.Second + 2, "b", 1 << 53, 1 << 53, 1<<53 + 1, 1.0}, // the most
	} {
		g := reported(t, a, tt.at, tt.host, tt.allowed, tt.rejected)
		if tt.at == 3*time.Second {
			// a is 2 s old, b was 3 s old and then told of 80 rejected.
			oldA, oldB := 0.81, 0.729
			inB := 0.9*oldB*40 + 0.1*80
			all := oldA*40 + inB
			tt.weight = inB / all
			if tt.host == "a" {
				tt.weight = oldA * 40 / all
			}
		}
		if !near(g.Used[0], tt.used) || !near(g.Weight[0], tt.weight) || !near(g.Burst[0], 100*tt.weight) {
			t.Errorf("at %v, %s: used %v weight %v burst %v, want %v, %v", tt.at, tt.host, g.Used[0], g.Weight[0], g.Burst[0], tt.used, tt.weight)
		}
		if g.Lease[0] != 10*time.Second || g.Floor != usage.FloorUnused {
			t.Errorf("at %v, %s: lease %v floor %v", tt.at, tt.host, g.Lease[0], g.Floor)
		}
	}
}

func TestARefreshedHostStaysWhenTheOtherIsCollected(t *testing.T) {
	a := weighted(t, cadence)
	reported(t, a, 0, "a", 1, 1)
	reported(t, a, 0, "b", 1, 1)
	reported(t, a, 8*time.Second, "b", 1, 1)
	a.GC(10 * time.Second)
	if n := a.keys.Hosts.Len(); n != 1 {
		t.Errorf("%d hosts are known, want b alone", n)
	}
	faded := math.Pow(0.9, 8)*0.9 + 0.1
	if got, want := used(t, a, 10*time.Second), faded*0.81; !near(got, want) {
		t.Errorf("used %v, want %v", got, want)
	}
	if g := reported(t, a, 10*time.Second, "a", 5, 0); !near(g.Used[0], faded*0.81+5) {
		t.Errorf("a came back and is not new: used %v", g.Used[0])
	}
}

func TestLessThanASecondCountsAsOne(t *testing.T) {
	for elapsed, want := range map[time.Duration]float64{
		1:                      10,
		time.Millisecond:       10,
		999 * time.Millisecond: 10,
		time.Second:            10,
		2 * time.Second:        5,
		24 * time.Hour:         10.0 / 86400,
	} {
		a := weighted(t, cadence)
		g := step(t, a, 0, "a", reportOf(algorithm.NameRequestWeighted, 10, 0, elapsed, "k"))
		if !near(g.Used[0], want) {
			t.Errorf("10 in %v: %v/s, want %v", elapsed, g.Used[0], want)
		}
	}
}

func TestAKeyThatMigratesIsTwo(t *testing.T) {
	a, _ := custom(t, cadence, onAverage(func(capacity float64, _ []algorithm.Demand, parts []float64) { parts[0] = capacity / 4 }))
	rule := every(algorithm.NameRequestWeighted)
	rule.Migration = &dynamicconfig.Migration{From: rule.Algorithm, To: "mine", Mode: dynamicconfig.ModeOldShadowNew}
	if err := a.Configure(snapshot(t, cadence, rule)); err != nil {
		t.Fatal(err)
	}
	reported(t, a, 0, "a", 5, 0)
	g := step(t, a, 0, "a", reportOf("mine", 9, 0, time.Second, "k"))
	if g.Weight[0] != 0.25 || g.Floor != usage.FloorNone {
		t.Errorf("the other algorithm's grants are %+v", g)
	}
	if got := used(t, a, 0); got != 5 {
		t.Errorf("used %v: what is reported under one algorithm counts under the other", got)
	}
}

func TestConfigureIsFollowedByKnownKeys(t *testing.T) {
	a := weighted(t, cadence)
	reported(t, a, 0, "a", 10, 0)
	faster := cadence
	faster.NewDataWeight, faster.DecayAfter, faster.GCAfter = 0.5, time.Second, 4*time.Second
	configure := func(p dynamicconfig.Properties, rules ...dynamicconfig.Rule) {
		t.Helper()
		if err := a.Configure(snapshot(t, p, rules...)); err != nil {
			t.Fatal(err)
		}
	}
	configure(faster, dynamicconfig.Rule{Key: "k", Limit: 1000, Algorithm: "request-weighted", Lease: time.Minute})
	g := reported(t, a, 2*time.Second, "a", 0, 0)
	if g.Used[0] != 2.5 || g.Weight[0] != 1 || g.Burst[0] != 1000 || g.Lease[0] != time.Minute {
		t.Errorf("after Configure: %+v, want 10 · 0.5² used, and the new burst and lease", g)
	}
	configure(cadence) // no rule is left
	if g := reported(t, a, 2*time.Second, "a", 1, 0); g.Lease[0] != 0 {
		t.Errorf("a key without a rule has a grant: %+v", g)
	}
	configure(cadence, every("request-weighted"))
	if got := used(t, a, 3*time.Second); !near(got, 7.29) {
		t.Errorf("used %v: the host was forgotten with the rule", got)
	}
	// A Step that began under older rules finds the key under newer ones.
	old := a.settings.Load()
	configure(cadence, dynamicconfig.Rule{Key: "k", Limit: 7, Algorithm: "request-weighted"})
	used(t, a, 3*time.Second)
	k := known(a, "request-weighted", "k")
	if k.Adopt(0, old, "request-weighted"); k.Rule.Limit != 7 {
		t.Errorf("older rules came back: limit %v", k.Rule.Limit)
	}
}

func TestAbsurdUsageIsRefusedWhole(t *testing.T) {
	for name, spoil := range map[string]func(u *usage.Report){
		"negative count":  func(u *usage.Report) { u.Allowed[1] = -1 },
		"count too large": func(u *usage.Report) { u.Rejected[1] = rpc.MaxCount + 1 },
		"no time":         func(u *usage.Report) { u.Elapsed[1] = 0 },
		"negative time":   func(u *usage.Report) { u.Elapsed[1] = -1 },
		"too long":        func(u *usage.Report) { u.Elapsed[1] = rpc.MaxElapsed + 1 },
		"NaN weight":      func(u *usage.Report) { u.Weight[1] = math.NaN() },
		"weight above 1":  func(u *usage.Report) { u.Weight[1] = 1.1 },
		"NaN demand":      func(u *usage.Report) { u.Wants = []float64{1, math.NaN()} },
		"endless demand":  func(u *usage.Report) { u.Wants = []float64{1, math.Inf(1)} },
		"short column":    func(u *usage.Report) { u.Allowed = u.Allowed[:1] },
		"empty key":       func(u *usage.Report) { u.Keys[1] = "" },
		"long key":        func(u *usage.Report) { u.Keys[1] = strings.Repeat("x", rpc.MaxKeyLength+1) },
	} {
		a := weighted(t, cadence)
		u := reportOf(algorithm.NameRequestWeighted, 5, 5, time.Second, "k", "l")
		spoil(u)
		if err := a.Step(0, "a", u, new(usage.Grants)); !errors.Is(err, rpc.ErrPayload) {
			t.Errorf("%s: %v", name, err)
		}
		if n := a.keys.Len(); n != 0 || a.keys.Hosts.Len() != 0 {
			t.Errorf("%s: %d keys were taken in", name, n)
		}
	}
	a := weighted(t, cadence)
	for _, host := range []string{"", strings.Repeat("h", 1025)} {
		if err := a.Step(0, host, reportOf(algorithm.NameRequestWeighted, 1, 0, time.Second, "k"), new(usage.Grants)); err == nil {
			t.Errorf("a host name of %d bytes is taken in", len(host))
		}
	}
}

func TestAnyPropertiesOfAConfigAreKept(t *testing.T) {
	// 36,000 intervals pass before a silent host is forgotten, and its demand fades in all of them.
	gc := time.Hour
	properties := dynamicconfig.Properties{UpdateInterval: 100 * time.Millisecond, NewDataWeight: 0.0001, GCAfter: gc}
	a := weighted(t, cadence)
	if err := a.Configure(snapshot(t, properties, every(algorithm.NameRequestWeighted))); err != nil {
		t.Fatal(err)
	}
	reported(t, a, 0, "a", 1, 0)
	a.GC(gc / 2)
	if got, want := reported(t, a, gc/2, "b", 1, 0).Weight[0], 1/(1+math.Pow(0.9999, 18_000)); math.Abs(got-want) > 0.01 {
		t.Errorf("beside a host that was silent for half of gc_after, another has %v; want %v", got, want)
	}
	if a.GC(gc - time.Second); a.keys.Hosts.Len() != 2 {
		t.Errorf("%d hosts are known before gc_after; want 2", a.keys.Hosts.Len())
	}
	if a.GC(gc); a.keys.Hosts.Len() != 1 {
		t.Errorf("%d hosts are known after gc_after; want 1", a.keys.Hosts.Len())
	}
}
