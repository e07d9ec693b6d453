// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math"
	"testing"
	"time"
)

// variance of the events in windows of so many seconds, relative to their mean
// squared.
func variance(rate Rate, width time.Duration, runs int) (mean, relative float64) {
	const end = 10 * time.Minute
	var sum, squares, n float64
	for run := range runs {
		r := Chance(uint64(run), "test", 0)
		s := Stream{Chance: r, Rates: rate.Segments(r), Parts: 1, End: end, Cost: One}
		counts := make([]float64, end/width)
		for at, ok := s.Next(); ok; at, ok = s.Next() {
			counts[at/width]++
		}
		for _, c := range counts {
			sum += c
			squares += c * c
			n++
		}
	}
	mean = sum / n
	return mean, squares/n/(mean*mean) - 1
}

// What is self-similar does not become smooth in long windows, as a Poisson
// process does, whose relative variance falls with their length.
func TestOnOffIsBurstyOnAllScales(t *testing.T) {
	o := OnOff{Sources: 50, Rate: 4, On: time.Second, Off: 4 * time.Second, Shape: 1.4}
	if o.Mean() != 40 {
		t.Fatalf("the mean is %v", o.Mean())
	}
	mean, short := variance(o, time.Second, 20)
	_, long := variance(o, 50*time.Second, 20)
	if math.Abs(mean-40) > 4 {
		t.Errorf("%.1f events per second, want about 40", mean)
	}
	// Aggregated by 50, it falls to 50^(2H−2) with H = (3 − 1.4) ÷ 2 = 0.8: to a
	// fifth, and not to a fiftieth.
	if ratio := long / short; ratio < 0.08 || ratio > 0.6 {
		t.Errorf("the variance falls to %.3f in windows of 50 s", ratio)
	}
	_, shortPoisson := variance(Constant(40), time.Second, 20)
	_, longPoisson := variance(Constant(40), 50*time.Second, 20)
	if ratio := longPoisson / shortPoisson; ratio > 0.04 {
		t.Errorf("of a Poisson process it falls to %.3f", ratio)
	}
}

func TestClientsAreZipfAndComeInClumps(t *testing.T) {
	const count, end = 100, 4 * time.Hour
	r := Chance(1, "test", 0)
	s := Stream{Chance: r, Rates: Constant(20).Segments(r), Parts: 1, End: end, Cost: One, People: NewPeople(count, 1, 5, 200*time.Millisecond)}
	events, last, all := make([]float64, count), Time(0), 0.0
	gaps, repeats, previous := 0, 0, -1
	for at, ok := s.Next(); ok; at, ok = s.Next() {
		if at < last {
			t.Fatalf("%s after %s", at, last)
		}
		if gaps++; s.Client == previous {
			repeats++
		}
		previous, last = s.Client, at
		events[s.Client]++
		all++
	}
	if got := all / end.Seconds(); math.Abs(got-20) > 0.5 {
		t.Errorf("%.2f events/s, want 20", got)
	}
	harmonic := 0.0
	for i := range count {
		harmonic += 1 / float64(i+1)
	}
	for _, i := range []int{0, 1, 9, 49} {
		if want := all / harmonic / float64(i+1); math.Abs(events[i]-want) > 0.12*want {
			t.Errorf("client %d has %.0f events, want about %.0f", i, events[i], want)
		}
	}
	// Four fifths of the events follow another of their clump; some of these have
	// other clients' events between.
	if part := float64(repeats) / float64(gaps); part < 0.15 {
		t.Errorf("%.2f of the events come from the client before", part)
	}
}

func TestClumpsHaveTheirMean(t *testing.T) {
	p, r := NewPeople(1, 0, 7, time.Second), Chance(1, "test", 0)
	sum := 0
	for range 100_000 {
		sum += p.size(r)
	}
	if mean := float64(sum) / 100_000; math.Abs(mean-7) > 0.1 {
		t.Errorf("%.2f events in a clump, want 7", mean)
	}
	if n := NewPeople(1, 0, 1, 0).size(r); n != 1 {
		t.Errorf("a clump of 1 has %d", n)
	}
}

func TestParetoCostsHaveTheirMeanAndTail(t *testing.T) {
	for _, shape := range []float64{0.7, 1, 1.2, 3} {
		c, r := Pareto(200, 4000, shape), Chance(1, "test", 0)
		sum, most, small := 0.0, int64(0), 0
		const n = 200_000
		for range n {
			v := c.Draw(r)
			sum += float64(v)
			most = max(most, v)
			if v < 200 {
				small++
			}
			if v < 1 || v > 4000 {
				t.Fatalf("a cost of %d", v)
			}
		}
		if mean := sum / n; math.Abs(mean-200) > 6 {
			t.Errorf("shape %v: the mean is %.1f", shape, mean)
		}
		if shape < 2 && (most < 3900 || small < n*6/10) {
			t.Errorf("shape %v: the largest is %d, and %d of %d are below the mean", shape, most, small, n)
		}
	}
}

func TestStickyClientsStayUnlessTheirHostGoes(t *testing.T) {
	hosts := UpTo(20)
	all := func(int) bool { return true }
	const clients = 20_000
	counts := make(map[int]int)
	for client := range uint64(clients) {
		was := Sticky(client, hosts, all)
		counts[was]++
		now := Sticky(client, hosts, func(h int) bool { return h != 3 })
		if now == 3 || was != 3 && now != was {
			t.Fatalf("client %d goes from %d to %d when host 3 goes", client, was, now)
		}
	}
	for _, h := range hosts {
		if n := counts[h]; n < clients/20*8/10 || n > clients/20*12/10 {
			t.Errorf("host %d has %d of %d clients", h, n, clients)
		}
	}
	if Sticky(1, hosts, func(int) bool { return false }) != -1 {
		t.Error("a client goes to a host that is not there")
	}
}

func TestRetriesBackOff(t *testing.T) {
	r := Chance(1, "test", 0)
	plain := Retry{After: 100 * time.Millisecond, Factor: 2, Cap: time.Second, Tries: 9}
	for i, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		if got := plain.Wait(r, i+1); got != want*time.Millisecond {
			t.Errorf("after %d rejections %s, want %d ms", i+1, got, want)
		}
	}
	plain.Jitter = 0.5
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		wait := plain.Wait(r, 1)
		low, high = min(low, wait), max(high, wait)
	}
	if low < 50*time.Millisecond || low > 52*time.Millisecond || high > 100*time.Millisecond || high < 98*time.Millisecond {
		t.Errorf("with jitter %s to %s", low, high)
	}
}
