// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestPartsAreWhatSplitsAre has wants near the even share, on both sides of it,
// which numbers from rapid seldom are.
func TestPartsAreWhatSplitsAre(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		var wanted forest
		tr := tree{forest: &wanted}
		claims := make([]Band, 50)
		for i := range claims {
			clients := 1 + rnd.Int64N(5)
			claims[i] = Band{Clients: clients, Wants: 2 * rnd.Float64() * float64(clients)}
			n := wanted.add()
			wanted.nodes[n] = node{clients: uint32(clients), wants: claims[i].Wants}
			tr.root = tr.insert(n)
		}
		capacity := 150 * rnd.Float64()
		for _, w := range allWays[:5] {
			for i, want := range w.Split(capacity, claims) {
				if got := min(part(w.Form, capacity, tr, claims[i]), claims[i].Wants); math.Abs(got-want) > 1e-9*capacity {
					t.Fatalf("%v: of %v, %+v gets %v, want %v", w, capacity, claims[i], got, want)
				}
			}
		}
	}
}

func TestATreeStaysShallow(t *testing.T) {
	for name, next := range map[string]func(i int) float64{
		"rising":  func(i int) float64 { return float64(i) },
		"falling": func(i int) float64 { return -float64(i) + 1e6 },
		"equal":   func(int) float64 { return 1 },
		"inward":  func(i int) float64 { return float64(i) * float64(1-i%2*2) },
	} {
		const hosts = 1 << 14
		var wanted forest
		tr := tree{forest: &wanted}
		for i := range hosts {
			n := wanted.add()
			wanted.nodes[n] = node{clients: 1, wants: next(i)}
			tr.root = tr.insert(n)
		}
		for n := range int32(hosts) { // all but a few go, in order
			if n > 0 && n%64 != 0 {
				tr.root = tr.remove(n)
			}
		}
		// A node's sides are at most three quarters of it.
		left := hosts / 64.
		if got, most := depth(tr, tr.root), math.Log(left)/math.Log(4./3)+2; float64(got) > most {
			t.Errorf("%s: %v nodes are %d deep, want at most %v", name, left, got, most)
		}
	}
}

func depth(t tree, i int32) int {
	if i == none {
		return 0
	}
	return 1 + max(depth(t, t.nodes[i].left), depth(t, t.nodes[i].right))
}
