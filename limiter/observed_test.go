// SPDX-License-Identifier: Apache-2.0

package limiter

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestDemandForSlots(t *testing.T) {
	for _, tt := range []struct {
		name  string
		trace func(o *observed) float64
		want  float64
	}{
		{"nothing", func(o *observed) float64 { return o.wants(1) }, 0},
		{"held", func(o *observed) float64 { o.enter(3); o.wants(1); o.wants(100); return o.wants(1) }, 3},
		{"a spike counts", func(o *observed) float64 { o.enter(90); o.leave(90); return o.wants(1) }, 90},
		{"and fades", func(o *observed) float64 { o.enter(90); o.leave(90); o.wants(1); return o.wants(3) }, 33},
		{"to nothing", func(o *observed) float64 { o.enter(90); o.leave(90); o.wants(1); return o.wants(30) }, 0},
		{"one refused", func(o *observed) float64 { o.enter(5); o.refuse(1); return o.wants(1) }, 6},
		{"a large one refused", func(o *observed) float64 { o.refuse(7); return o.wants(1) }, 7},
		{"again and again", func(o *observed) float64 {
			o.enter(5)
			for range 1_000_000 {
				o.refuse(1)
			}
			return o.wants(1)
		}, 10},
		{"a clock that stands still", func(o *observed) float64 { o.enter(5); o.wants(0); return o.wants(-1) }, 5},
	} {
		if got := tt.trace(new(observed)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// As many as would be served by enough slots are wanted when there are too
// few: arrivals by chance, each for a while by chance, those refused are lost.
func TestRefusedDemandIsSeen(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct{ size, offered int }{{10, 15}, {20, 30}, {50, 60}, {50, 90}} {
		o := new(observed)
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
					o.leave(1)
				}
			}
			if now > look {
				sum, n, look = sum+o.wants(1), n+1, look+1
			}
			if len(ends) < tt.size {
				o.enter(1)
				ends = append(ends, now+random.ExpFloat64())
			} else {
				o.refuse(1)
			}
		}
		if wants := sum / float64(n); wants < 0.95*float64(tt.offered) || wants > 1.3*float64(tt.offered) {
			t.Errorf("%d are offered to %d slots: wants %.1f", tt.offered, tt.size, wants)
		}
	}
}

func TestDemandForSlotsIsSane(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := new(observed)
		t.Repeat(map[string]func(*rapid.T){
			"enter":  func(t *rapid.T) { o.enter(rapid.Int64Range(0, maxCost).Draw(t, "n")) },
			"leave":  func(t *rapid.T) { o.leave(rapid.Int64Range(0, o.level).Draw(t, "n")) },
			"refuse": func(t *rapid.T) { o.refuse(rapid.Int64Range(0, maxCost).Draw(t, "n")) },
			"look": func(t *rapid.T) {
				most := float64(max(o.peak, o.level))
				most = max(2*most, most+float64(o.need), math.Ceil(o.recent))
				got := o.wants(rapid.Float64Range(0, 1e9).Draw(t, "seconds"))
				if !(got >= float64(o.level)) || got > most || got != math.Trunc(got) {
					t.Fatalf("%v for a level of %d, at most %v", got, o.level, most)
				}
			},
		})
	})
}
