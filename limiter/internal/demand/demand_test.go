// SPDX-License-Identifier: Apache-2.0

package demand

import "testing"

// The estimate is quick where chance does not explain what is seen, and calm
// where it does.
func TestDemand(t *testing.T) {
	steady := Estimate{reported: 100, fast: 100, over: memory}
	for i := range 1000 {
		n := 20 + []float64{-6, 3, 5, -4, 2, 0, -3, 7, -5, 1}[i%10] // of 20 ± 4.5
		if steady.Tick(n, 0.2) {
			t.Fatalf("tick %d: %v events where 20 are expected are a change", i, n)
		}
	}
	for _, tt := range []struct {
		name          string
		d             Estimate
		n, dt         float64
		total, period float64
		least, most   float64
	}{
		{name: "first events of a new key", n: 2, dt: 0.02, total: 2, period: 0.02, least: 10, most: 30},
		{name: "a burst out of the quiet", d: Estimate{over: memory}, n: 12, dt: 0.1, total: 12, period: 5, least: 100, most: 140},
		{name: "one event out of the quiet", d: Estimate{over: memory}, n: 1, dt: 0.01, total: 1, period: 10, least: 0, most: 0.2},
		{name: "steady", d: Estimate{reported: 100, fast: 100, over: memory}, n: 8, dt: 0.1, total: 290, period: 3, least: 95, most: 100},
		{name: "a jump", d: Estimate{reported: 10, fast: 10, over: memory}, n: 150, dt: 0.1, total: 160, period: 1, least: 1400, most: 1600},
		{name: "a stop", d: Estimate{reported: 100, quiet: 0.4, over: memory}, n: 0, dt: 0.1, total: 50, period: 1, least: 0, most: 5},
		{name: "rare events of a high cost are no jump", d: Estimate{reported: 20, fast: 20, over: memory, Cost: 20}, n: 40, dt: 0.1, total: 60, period: 3, least: 15, most: 25},
	} {
		if got := tt.d.estimate(tt.n, tt.dt, tt.total, tt.period); got < tt.least || got > tt.most {
			t.Errorf("%s: %v, want %v to %v", tt.name, got, tt.least, tt.most)
		}
	}
}

// Ten events at once every 200 ms are 50 events/s. A host that reports in the
// middle of a clump takes the first one for a burst, and hardly another one.
func TestClumpsAreNoBursts(t *testing.T) {
	var d Estimate
	bursts := 0
	for range 200 {
		d.reported = d.estimate(10, 0.01, 10, 0.2) // just after a clump, and soon after a look
		if d.reported > 100 {
			bursts++
		}
		if d.Tick(0, 0.19) { // just before the next one
			d.reported = d.estimate(0, 0, 0, 0.19)
		}
	}
	if bursts > 4 { // what was learned is forgotten slowly
		t.Errorf("the host takes %d of 200 clumps for bursts", bursts)
	}
	// A burst is one all the same.
	if got := d.estimate(400, 0.2, 400, 0.2); got < 1000 {
		t.Errorf("of a burst of 2,000/s the host wants %.1f/s", got)
	}
}

// A host that reports in the middle of a batch of events does not take the half that it has seen for a
// clump: it sees the end of the batch soon.
func TestHalfABatchIsNoClump(t *testing.T) {
	for _, batch := range []float64{40, 60, 100, 1000} {
		var d Estimate
		d.Tick(0, 5)
		if wants, _ := d.Report(batch/2, 0.01, batch/2, 5, 1); wants < batch {
			t.Fatalf("in a batch of %v the host wants %v/s", batch, wants)
		}
		if !d.Tick(batch/2, 0.2) {
			t.Fatalf("after a batch of %v its demand is as it was", batch)
		}
		d.Report(0, 0, batch/2, 0.2, 1)
		const look = 0.05
		ticks := 1
		for ; !d.Tick(0, look); ticks++ {
			if ticks > 100 {
				t.Fatalf("the end of a batch of %v is not seen", batch)
			}
		}
		if seen := float64(ticks) * look; seen > 0.2 {
			t.Errorf("the end of a batch of %v is seen %v s after it", batch, seen)
		}
	}
}
