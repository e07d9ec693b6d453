// SPDX-License-Identifier: Apache-2.0

package growth

import (
	"math"
	"runtime"
	"testing"
	"time"
)

func TestGrowAtSmallSizes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("what a process takes is measured on Linux only")
	}
	g, err := Measure(t.Context(), Sizes{Keys: []int{500}, Reported: 1000, Hosts: []int{1, 10}, Pairs: 1000, Rings: []int{10}, Connections: 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", g)
	h := g.Host[0]
	if h.RoundNs <= 0 || h.DecisionNs <= 0 || h.Out < 24 || h.Back < 8 {
		t.Errorf("host: %+v", h)
	}
}

func TestEstimate(t *testing.T) {
	g := Costs{
		Host:  []HostCost{{Keys: 1000, RoundNs: 1000, WatchNs: 100, Bytes: 500, Out: 30, Back: 10}, {Keys: 1_000_000}},
		Owner: []OwnerCost{{Hosts: 10, ReportNs: 500, Bytes: 100}, {Hosts: 1000}},
		Ring:  []RingCost{{Hosts: 10, Bytes: 1000}},
		Call:  CallCost{Us: 100, KeyNs: 500, Bytes: 300, ConnectionBytes: 99_000},
	}
	s := Shape{Hosts: 10, KeysPerHost: 10_000, HostsPerKey: 5, Interval: 10 * time.Second}
	if got := s.Keys(); got != 20_000 {
		t.Errorf("%v keys in all", got)
	}
	e := g.Estimate(s)
	for what, v := range map[string][2]float64{
		// 10 owners, all of which have a key, and a full call's worth of keys.
		"calls/s":       {e.CallsPerS, 1.1},
		"CPU of a host": {e.HostCPU, 100 * 10_000 * 1e-6 / 10},
		"CPU to decide": {e.OwnerCPU, 100 * 10_000 * 0.5e-6 / 10},
		"CPU of calls":  {e.CallCPU, 100 * (11*1e-4 + 10_000*0.5e-6) / 10},
		"CPU to watch":  {e.WatchCPU, 100 * 10_000 * 1e-7},
		"CPU":           {e.CPU(), e.HostCPU + e.OwnerCPU + e.CallCPU + e.WatchCPU},
		"memory":        {e.Memory(), base + 2*(5e6+1e6+1e6)},
		"network":       {e.BytesPerS, (10_000*40 + 11*300) / 10.0},
	} {
		if math.Abs(v[0]-v[1]) > 1e-6*v[1] {
			t.Errorf("%s: %v, want %v", what, v[0], v[1])
		}
	}
	// Fewer keys than owners: no more calls than keys.
	few := g.Estimate(Shape{Hosts: 10_000, KeysPerHost: 1, HostsPerKey: 10_000, Interval: time.Second})
	if few.CallsPerS > 1.001 {
		t.Errorf("%v calls/s for one key", few.CallsPerS)
	}
}
