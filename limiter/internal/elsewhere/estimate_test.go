// SPDX-License-Identifier: Apache-2.0

package elsewhere

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/limiter/stage"
)

// A remote bucket lets no charge make a debt that is deeper than the rule's. An estimate that does not know this shows
// that the bucket lacks what it was not charged with.
func TestAChargeMakesNoDeeperDebtThanTheRule(t *testing.T) {
	rule := &dynamicconfig.Rule{Limit: 1, Burst: 10}
	for _, tt := range []struct{ before, charged, want float64 }{
		{before: 10, charged: 4, want: 6},
		{before: 10, charged: 31, want: -rule.MostDebt()},
		{before: -25, charged: 3, want: -25}, // callers have reserved
	} {
		var e Estimate
		e.Set(1, rule, tt.before)
		if e.ChargeAbove(1, rule, tt.charged); e.Uncapped(1, rule) != tt.want {
			t.Errorf("%v tokens after a charge of %v to one with %v, want %v", e.Uncapped(1, rule), tt.charged, tt.before, tt.want)
		}
	}
}

// A full bucket of which a cap hides a part is full under a larger burst.
func TestAFullBucketIsFullBeneathACap(t *testing.T) {
	before, after := &dynamicconfig.Rule{Limit: 1, Burst: 5}, &dynamicconfig.Rule{Limit: 1, Burst: 10}
	for n := range 1000 {
		var e Estimate
		e.Set(1, before, before.Burst)
		e.Cap(1, before, 4+float64(n)*1e-9)
		if e.Change(1, before, after, func(tokens float64) float64 { return tokens }); e.Uncapped(1, after) != after.Burst {
			t.Fatalf("%v tokens under a burst of %v, after %v of %v", e.Uncapped(1, after), after.Burst, before.Burst, before.Burst)
		}
	}
}

// Hosts know from the answers alone which part of what a bucket lacks each of them has used, also where answers overtake each other.
func TestHostsKnowWhatTheyHaveUsed(t *testing.T) {
	const hosts, burst, limit = 4, 100, 50
	rule := &dynamicconfig.Rule{Limit: limit, Burst: burst}
	for _, tt := range []struct {
		name string
		asks [hosts]int // of ten events, on average
		want [hosts]float64
	}{
		{"one host", [hosts]int{10, 0, 0, 0}, [hosts]float64{1, -1, -1, -1}},
		{"all alike", [hosts]int{3, 3, 3, 3}, [hosts]float64{0.25, 0.25, 0.25, 0.25}},
		{"one has most", [hosts]int{12, 2, 2, 0}, [hosts]float64{0.75, 0.125, 0.125, -1}},
	} {
		chance := rand.New(rand.NewPCG(1, 2))
		var all [hosts]Estimate
		for i := range all {
			all[i].Init()
		}
		type answer struct {
			host int
			stage.Request
			stage.Outcome
		}
		var late []answer
		tokens, now := float64(burst), stage.Instant(1)
		for range 5000 {
			gap := time.Duration(chance.ExpFloat64() * float64(5*time.Millisecond))
			now, tokens = now.Add(gap), min(tokens+limit*gap.Seconds(), burst)
			for i, asks := range tt.asks {
				if chance.IntN(30) >= asks {
					continue
				}
				a := answer{i, stage.Request{Now: now, N: 1}, stage.Outcome{OK: tokens >= 1}}
				if a.OK {
					tokens--
				}
				a.Left = tokens
				late = append(late, a)
			}
			for len(late) > 3 {
				n := chance.IntN(len(late))
				all[late[n].host].Answered(late[n].Request, rule, late[n].Outcome)
				late = slices.Delete(late, n, n+1)
			}
		}
		for i := range all {
			if own := all[i].Own(); math.Abs(own-tt.want[i]) > 0.12 {
				t.Errorf("%s: host %d has used %.2f, want %.2f", tt.name, i, own, tt.want[i])
			}
		}
	}
}
