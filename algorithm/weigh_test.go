// SPDX-License-Identifier: Apache-2.0

package algorithm

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// inProportion weighs as Elastic does.
func inProportion(capacity float64, demands []Demand, parts []float64) {
	all := 0.0
	for _, d := range demands {
		all += d.Wants
	}
	for i, d := range demands {
		parts[i] = capacity * d.Wants / all
	}
}

// A weighing in proportion to demand is Elastic, to the last digit where hosts are
// weighed in each report.
func TestWeighingByDemandIsElastic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plain, weighed := Elastic{}.NewKey(Cluster{Interval: interval}), Pool(inProportion).(Stateful).NewKey(Cluster{Interval: interval})
		limit := Limit{Rate: rapid.Float64Range(1, 1000).Draw(t, "rate"), Burst: rapid.Float64Range(1, 1000).Draw(t, "burst")}
		now := time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "reports") {
			now += interval / parted
			host := uint32(rapid.IntRange(0, 5).Draw(t, "host"))
			r := Report{Allowed: rapid.Float64Range(0, 100).Draw(t, "allowed"), Elapsed: interval, Wants: rapid.Float64Range(0, 500).Draw(t, "wants")}
			p, okP := plain.Report(now, limit, host, &r)
			w, okW := weighed.Report(now, limit, host, &r)
			if okP != okW || math.Abs(p.Weight-w.Weight) > 1e-9 || math.Abs(p.Tokens-w.Tokens) > 1e-6*limit.Burst {
				t.Fatalf("at %v host %d: elastic %+v, weighed %+v", now, host, p, w)
			}
		}
	})
}

// Whatever a Weigh makes of the limit, hosts get it once.
func TestAWeighThatHandsOutTooMuchIsScaled(t *testing.T) {
	k := Pool(func(capacity float64, demands []Demand, parts []float64) {
		for i := range demands {
			parts[i] = capacity
		}
	}).(Stateful).NewKey(Cluster{Interval: interval})
	limit, sum := Limit{Rate: 100, Burst: 100}, 0.0
	for now := time.Duration(0); now < 20*interval; now += interval {
		sum = 0
		for host := range uint32(5) {
			g, _ := k.Report(now+time.Duration(host), limit, host, &Report{Elapsed: interval, Wants: 100})
			sum += g.Weight
		}
	}
	if sum < 0.9 || sum > 1.02 {
		t.Errorf("weights sum to %v", sum)
	}
}

// A pass over all hosts is made a few times in an interval, however many report.
func TestWeighingCostsLittlePerHost(t *testing.T) {
	rows := 0
	k := Pool(func(capacity float64, demands []Demand, parts []float64) {
		rows += len(demands)
		inProportion(capacity, demands, parts)
	}).(Stateful).NewKey(Cluster{Interval: interval})
	const hosts, rounds = 2000, 5
	for i := range hosts * rounds {
		now := time.Duration(i) * interval / hosts
		k.Report(now, Limit{Rate: 1000, Burst: 1000}, uint32(i%hosts), &Report{Elapsed: interval, Wants: 1})
	}
	if each := float64(rows) / (hosts * rounds); each > parted+4 {
		t.Errorf("%.1f hosts are weighed for each report", each)
	}
}

// A Weigh sees who the hosts are.
func TestAWeighSeesNamesAndLabels(t *testing.T) {
	var seen []Demand
	k := Pool(func(_ float64, demands []Demand, _ []float64) { seen = demands }).(Stateful).NewKey(Cluster{
		Interval: interval,
		Member: func(host uint32) Member {
			return Member{fmt.Sprint("host", host), Labels{"zone": fmt.Sprint(host % 2)}}
		},
	})
	for host := range uint32(3) {
		k.Report(interval, Limit{Rate: 1, Burst: 1}, host, &Report{Elapsed: interval, Wants: float64(host + 1)})
	}
	for now := interval; len(seen) < 3 && now < 3*interval; now += interval / 3 {
		for host := range uint32(3) {
			k.Report(now+interval, Limit{Rate: 1, Burst: 1}, host, &Report{Elapsed: interval, Wants: float64(host + 1)})
		}
	}
	for i, d := range seen {
		if d.Host != fmt.Sprint("host", i) || d.Labels["zone"] != fmt.Sprint(i%2) || d.Wants != float64(i+1) {
			t.Errorf("%+v", d)
		}
	}
	if len(seen) != 3 {
		t.Errorf("it saw %+v", seen)
	}
}
