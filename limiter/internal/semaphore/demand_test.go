// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestDemand(t *testing.T) {
	for _, tt := range []struct {
		name  string
		trace func(d *demand) float64
		want  float64
	}{
		{"nothing", func(d *demand) float64 { return d.wants(1) }, 0},
		{"held", func(d *demand) float64 { d.enter(3); d.wants(1); d.wants(100); return d.wants(1) }, 3},
		{"a spike counts", func(d *demand) float64 { d.enter(90); d.leave(90); return d.wants(1) }, 90},
		{"and fades", func(d *demand) float64 { d.enter(90); d.leave(90); d.wants(1); return d.wants(3) }, 33},
		{"to nothing", func(d *demand) float64 { d.enter(90); d.leave(90); d.wants(1); return d.wants(30) }, 0},
		{"one refused", func(d *demand) float64 { d.enter(5); d.refuse(1); return d.wants(1) }, 6},
		{"a large one refused", func(d *demand) float64 { d.refuse(7); return d.wants(1) }, 7},
		{"again and again", func(d *demand) float64 {
			d.enter(5)
			for range 1_000_000 {
				d.refuse(1)
			}
			return d.wants(1)
		}, 10},
		{"a clock that stands still", func(d *demand) float64 { d.enter(5); d.wants(0); return d.wants(-1) }, 5},
	} {
		if got := tt.trace(new(demand)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// When there are too few slots, the estimate is about what enough slots would
// serve. Arrivals and durations are random, and refused callers do not retry.
func TestDemandIncludesRefusedSlots(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct{ size, offered int }{{10, 15}, {20, 30}, {50, 60}, {50, 90}} {
		d := new(demand)
		var ends []float64
		sum, n := 0.0, 0
		next, look := 0.0, 1.0
		for now := 0.0; now < 300; now = next {
			next = now + random.ExpFloat64()/float64(tt.offered) // held for 1 s on average
			for i := 0; i < len(ends); i++ {
				if ends[i] <= now {
					ends[i] = ends[len(ends)-1]
					ends = ends[:len(ends)-1]
					i--
					d.leave(1)
				}
			}
			if now > look {
				sum, n, look = sum+d.wants(1), n+1, look+1
			}
			if len(ends) < tt.size {
				d.enter(1)
				ends = append(ends, now+random.ExpFloat64())
			} else {
				d.refuse(1)
			}
		}
		if wants := sum / float64(n); wants < 0.95*float64(tt.offered) || wants > 1.3*float64(tt.offered) {
			t.Errorf("%d are offered to %d slots: wants %.1f", tt.offered, tt.size, wants)
		}
	}
}

func TestDemandIsWithinItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := new(demand)
		t.Repeat(map[string]func(*rapid.T){
			"enter":  func(t *rapid.T) { d.enter(rapid.Int64Range(0, maxRefused).Draw(t, "n")) },
			"leave":  func(t *rapid.T) { d.leave(rapid.Int64Range(0, d.level).Draw(t, "n")) },
			"refuse": func(t *rapid.T) { d.refuse(rapid.Int64Range(0, maxRefused).Draw(t, "n")) },
			"look": func(t *rapid.T) {
				most := float64(max(d.peak, d.level))
				most = max(2*most, most+float64(d.need), math.Ceil(d.recent))
				got := d.wants(rapid.Float64Range(0, 1e9).Draw(t, "seconds"))
				if !(got >= float64(d.level)) || got > most || got != math.Trunc(got) {
					t.Fatalf("%v for a level of %d, at most %v", got, d.level, most)
				}
			},
		})
	})
}
