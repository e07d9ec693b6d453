// SPDX-License-Identifier: Apache-2.0

package traffic

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestASpikeIsWhereTheWalkGoesOn(t *testing.T) {
	w := Walk{Start: 10, Step: 0, Every: 10 * time.Second}
	rates := Bumped{w, []Bump{{At: 5 * time.Second, Add: 7}, {At: 12 * time.Second, To: 100}}}.Segments(rand.New(rand.NewPCG(1, 1)))
	for _, tt := range []struct {
		from, until time.Duration
		rate        float64
	}{{0, 5, 10}, {5, 10, 17}, {10, 12, 17}, {12, 20, 100}, {20, 30, 100}, {50, 60, 100}} {
		rate, until := rates(tt.from * time.Second)
		if rate != tt.rate || until != tt.until*time.Second {
			t.Errorf("from %d s: %v until %v, want %v until %d s", tt.from, rate, until, tt.rate, tt.until)
		}
	}
	// What chance does is the same with and without a spike, but for its size.
	w.Step = 0.5
	plain, spiked := w.Segments(rand.New(rand.NewPCG(1, 2))), Bumped{w, []Bump{{At: 15 * time.Second, Add: 10}}}.Segments(rand.New(rand.NewPCG(1, 2)))
	for at := Time(0); at < time.Minute; at += 5 * time.Second {
		a, _ := plain(at)
		b, _ := spiked(at)
		if (a == b) != (at < 15*time.Second) {
			t.Errorf("at %v: %v and %v", at, a, b)
		}
	}
}
