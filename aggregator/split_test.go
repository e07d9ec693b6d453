// SPDX-License-Identifier: Apache-2.0

package aggregator

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/headgate/headgate/algorithm"
	"github.com/headgate/headgate/dynamicconfig"
	"github.com/headgate/headgate/rpc/usage"
)

func TestOnTheSmallerSideOfASplitAnOwnerGrantsAPart(t *testing.T) {
	t.Run("takes", func(t *testing.T) {
		a := bucketed(t, 100, 10)
		admits := func(from time.Duration) (admitted int) {
			for at := from; at < from+10*time.Second; at += 5 * time.Millisecond {
				if took(t, a, at, usage.Take{Tokens: 1}).OK {
					admitted++
				}
			}
			return admitted
		}
		a.Split(0, 1, 3)
		if n := admits(0); n < 240 || n > 260 {
			t.Errorf("1 of 4 hosts: %d in 10 s", n)
		}
		a.Split(0, 4, 0)
		if n := admits(time.Minute); n < 990 || n > 1015 {
			t.Errorf("the whole cluster: %d in 10 s", n)
		}
	})
	t.Run("a token at least", func(t *testing.T) {
		a := bucketed(t, 1, 1)
		a.Split(0, 1, 2)
		took(t, a, 0, usage.Take{Tokens: 1})
		if !took(t, a, time.Hour, usage.Take{Tokens: 1}).OK {
			t.Error("no token comes in")
		}
		took(t, a, 2*time.Hour, usage.Take{})
		configured(t, a, 2*time.Hour, exactRule(1, 1))
		a.GC(2 * time.Hour)
		if !took(t, a, 2*time.Hour, usage.Take{Tokens: 1}).OK {
			t.Error("a new config takes the token away")
		}
	})
	t.Run("reports", func(t *testing.T) {
		a := New(algorithm.Builtin(), snapshot(t, cadence, dynamicconfig.Rule{Key: "*", Limit: 100, Burst: 100, Algorithm: algorithm.NameRequestWeighted, Lease: time.Minute}))
		a.Split(0, 1, 3)
		var g *usage.Grants
		for at := range time.Duration(20) {
			g = step(t, a, at*3*time.Second, "h", reportOf(algorithm.NameRequestWeighted, 300, 300, 3*time.Second, "k"))
		}
		if w := g.Weight[0]; w < 0.24 || w > 0.26 {
			t.Errorf("the only host has the weight %v of the limit", w)
		}
	})
	t.Run("a floor", func(t *testing.T) {
		for fallback, want := range map[dynamicconfig.Fallback]float64{
			dynamicconfig.FallbackEven: 0.25, dynamicconfig.FallbackClosed: 0, dynamicconfig.FallbackSafe: 0.01, dynamicconfig.FallbackOpen: 0.25,
		} {
			rule := dynamicconfig.Rule{Key: "*", Limit: 100, Burst: 100, Algorithm: algorithm.NameEvenFloor, Lease: time.Minute, Fallback: fallback}
			if fallback == dynamicconfig.FallbackSafe {
				rule.SafeCapacity = 1
			}
			a := New(algorithm.Builtin(), snapshot(t, cadence, rule))
			a.Split(0, 1, 3)
			var g *usage.Grants
			for at := range time.Duration(20) {
				for host, wants := range map[string]int64{"most": 999, "least": 1} {
					if u := step(t, a, at*3*time.Second, host, reportOf(algorithm.NameEvenFloor, 0, wants*3, 3*time.Second, "k")); host == "least" {
						g = u
					}
				}
			}
			has := g.Weight[0]
			if g.Floor == usage.FloorEven { // hosts count those that are missing
				has = max(has, 0.25)
			}
			if has < want-1e-3 || has > want+1e-3 {
				t.Errorf("%s: a host that wants little has the part %v of the limit, want %v", fallback, has, want)
			}
			if g.Burst[0] < 100*has-1e-9 || g.Burst[0] > 100*has+1e-9 {
				t.Errorf("%s: a burst of %v, want %v", fallback, g.Burst[0], 100*has)
			}
		}
	})
	t.Run("a gate", func(t *testing.T) {
		for demand, want := range map[int64]float64{10: 1, 50: 0.5, 100: 0.25} {
			a := New(algorithm.Builtin(), snapshot(t, cadence, dynamicconfig.Rule{Key: "*", Limit: 100, Algorithm: algorithm.NameDropRatio, Lease: time.Minute}))
			a.Split(0, 1, 3)
			var g *usage.Grants
			for at := range time.Duration(20) {
				g = step(t, a, at*time.Second, "h", reportOf(algorithm.NameDropRatio, demand, 0, time.Second, "k"))
			}
			if w := g.Weight[0]; w < want-0.01 || w > want+0.01 {
				t.Errorf("the part %v of %d events/s passes, want %v", w, demand, want)
			}
		}
	})
	t.Run("slots", func(t *testing.T) {
		for limit, want := range map[rate.Limit]float64{100: 25, 2: 1} {
			a := leased(t, dynamicconfig.Rule{Limit: limit, InFlight: true, Algorithm: algorithm.NameFairShare})
			a.Split(0, 1, 3)
			if got := claimed(t, a, 0, wants("h", 0, 200)); got.Amount != want {
				t.Errorf("of %v slots: %v, want %v", limit, got.Amount, want)
			}
		}
	})
	t.Run("slots of a host that reports", func(t *testing.T) {
		for limit, want := range map[float64]float64{100: 25, 10: 2, 3: 1, 2: 1, 1: 1, 0: 0} {
			a := leased(t, slotsOf(rate.Limit(limit)))
			a.Split(0, 1, 3)
			h := &slotHost{name: "h", wants: 200}
			for at := range time.Duration(3) {
				h.report(t, a, at*time.Second, max(limit, 1), false)
			}
			if h.has != want {
				t.Errorf("of %v slots: %v, want %v", limit, h.has, want)
			}
		}
	})
}

// Reservations stay within the whole limit while the members come and go: a debt does not
// become less because this side was the smaller one for a while.
func TestASplitThatComesAndGoesForgivesNoDebt(t *testing.T) {
	const limit, burst, seconds, patience = 100, 10, 60, 10
	for _, name := range []string{algorithm.NameExact, algorithm.NameAuto} {
		rule := exactRule(limit, burst)
		rule.Algorithm = name
		a := New(algorithm.Builtin(), snapshot(t, cadence, rule))
		admitted := 0.0
		for at := time.Duration(0); at < seconds*time.Second; at += 10 * time.Millisecond {
			if at%(2*time.Second) == 0 {
				a.Split(0, 1, int(at/(2*time.Second))%2*3)
			}
			take := usage.Take{Tokens: 10, Longest: patience * time.Second, Auto: name == algorithm.NameAuto}
			if got := took(t, a, at, take); got.OK && at+got.Wait <= seconds*time.Second {
				admitted += 10
			}
		}
		if most := float64(limit*seconds + burst); admitted > most {
			t.Errorf("%s: %v tokens in a minute, want at most %v", name, admitted, most)
		}
	}
}
