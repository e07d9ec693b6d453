// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// An account goes on with what another one handed over: both answer the
// same from then on, whether what hosts hold is bound by what others hold or not.
func TestAnAccountGoesOnElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alg := rapid.SampledFrom(ways).Draw(t, "algorithm")
		terms, capacity := Terms{Lease: time.Minute}, Capacity{Amount: 100, Whole: rapid.Bool().Draw(t, "whole")}
		draw := func(t *rapid.T) (uint32, Claim) {
			claim := Claim{Has: 0}
			for range rapid.IntRange(1, 3).Draw(t, "bands") {
				claim.Bands = append(claim.Bands, Band{
					Priority: int64(rapid.IntRange(0, 3).Draw(t, "priority")),
					Clients:  int64(rapid.IntRange(1, 5).Draw(t, "clients")),
					Wants:    float64(rapid.IntRange(0, 90).Draw(t, "wants")),
				})
			}
			return uint32(rapid.IntRange(0, 6).Draw(t, "host")), claim
		}
		old, now := alg.NewLeases(), time.Duration(0)
		for range rapid.IntRange(0, 30).Draw(t, "claims") {
			host, claim := draw(t)
			old.Claim(now, terms, capacity, host, claim)
		}
		heir := alg.NewLeases()
		for host, claim := range old.Held {
			heir.Claim(now, terms, capacity, host, claim)
		}
		if old.Hosts() != heir.Hosts() || !close(old.Leased(), heir.Leased()) {
			t.Fatalf("%d hosts hold %v; handed over were %d with %v", old.Hosts(), old.Leased(), heir.Hosts(), heir.Leased())
		}
		if capacity.Whole {
			return // which host is short of a slot is not handed over
		}
		for range rapid.IntRange(1, 20).Draw(t, "claims after") {
			host, claim := draw(t)
			want, got := old.Claim(now, terms, capacity, host, claim), heir.Claim(now, terms, capacity, host, claim)
			if !close(want.Amount, got.Amount) {
				t.Fatalf("%+v: the heir grants %v, the old one %v", claim, got.Amount, want.Amount)
			}
		}
	})
}
